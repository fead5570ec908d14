"""`pellucid.derive`: calls the engine and hands the record it gets a pen."""

import dataclasses
from collections.abc import Mapping, Sequence

from pellucid.autograd import derivation
from pellucid.figures.pens import DerivationPen
from pellucid.records import Derivation


def derive(
    expression: str,
    values: Mapping[str, float] | None = None,
    /,
    *,
    wrt: Sequence[str] = (),
    h: float | None = None,
    **named_values: float,
) -> Derivation:
    """The value and gradients of an expression, with every step of the way and its check.

    Values come by name, or in a dictionary (the only way for variables called h or wrt, which are options here:
    the step of the differences, and the inputs to derive toward).

    >>> derived = derive("1/(1+exp(-(w0*x0+w1*x1+w2)))", w0=2, x0=-1, w1=-2, x1=-2, w2=-3)
    >>> round(derived.value, 6), round(derived.gradients["w0"], 6)
    (0.268941, -0.196612)
    >>> derive("h^2", {"h": 3}).gradients
    {'h': 6.0}
    """
    toward = [wrt] if isinstance(wrt, str) else wrt
    found = derivation.derive(expression, {**(values or {}), **named_values}, wrt=toward, h=h)
    return dataclasses.replace(found, pen=DerivationPen())
