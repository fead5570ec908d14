"""`pellucid.derive`: calls the engine and gives a derivation that shows itself, as words, a picture or a page."""

from collections.abc import Mapping, Sequence

from pellucid.autograd import derivation
from pellucid.autograd.derivation import Given
from pellucid.figures import Shown
from pellucid.records import Derivation


class ShownDerivation(Shown[Derivation]):
    """A derivation that is also a picture in a notebook."""

    def svg(self) -> str:
        """The graph as a picture."""
        from pellucid.figures.graph.picture import graph_svg

        return graph_svg(self.record)

    def html(self) -> str:
        """A page on its own that steps forward and backward through the graph."""
        from pellucid.figures.derivation_page import page_html

        return page_html(self.record)

    def _repr_svg_(self) -> str:
        return self.svg()


def derive(
    expression: str,
    values: Mapping[str, Given] | None = None,
    /,
    *,
    wrt: Sequence[str] = (),
    h: float | None = None,
    **named_values: Given,
) -> ShownDerivation:
    """The value and gradients of an expression, with every step of the way and its check.

    Values come by name, or in a dictionary (the only way for variables called h or wrt, which are options here:
    the step of the differences, and the inputs to derive toward).

    >>> derived = derive("1/(1+exp(-(w0*x0+w1*x1+w2)))", w0=2, x0=-1, w1=-2, x1=-2, w2=-3)
    >>> round(derived.value, 6), round(derived.gradients["w0"], 6)
    (0.268941, -0.196612)
    >>> derive("h^2", {"h": 3}).gradients
    {'h': 6.0}
    >>> derive("logsumexp(z/T)", z=[0, 0], T=1, wrt="z").gradients
    {'z[0]': 0.5, 'z[1]': 0.5}
    """
    toward = [wrt] if isinstance(wrt, str) else wrt
    return ShownDerivation(derivation.differentiate(expression, {**(values or {}), **named_values}, wrt=toward, h=h))
