"""Pens: what a record needs to show itself in a terminal, a notebook or a browser."""

from pellucid.records import Derivation


class DerivationPen:
    """Shows a derivation. Each way of showing is loaded when it is first wanted."""

    def text(self, derivation: Derivation) -> str:
        from pellucid.figures.words.derivation import derivation_text

        return derivation_text(derivation)

    def picture(self, derivation: Derivation) -> str:
        from pellucid.figures.graph.picture import graph_svg

        return graph_svg(derivation)

    def page(self, derivation: Derivation) -> str:
        from pellucid.figures.derivation_page import page_html

        return page_html(derivation)
