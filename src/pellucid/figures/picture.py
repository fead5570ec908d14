"""What a figure says about itself, and the two forms in which it can be drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pellucid.cards import cards, find

Seen = TypeVar("Seen")

PACKAGE = "pellucid.figures.drawings"


class Chart(NamedTuple):
    """A picture as a Vega-Lite specification, which holds its own data."""

    title: str
    caption: tuple[str, ...]  # what was measured, in sentences
    specification: dict[str, Any]


class Picture(NamedTuple):
    """A picture as SVG of our own."""

    title: str
    caption: tuple[str, ...]
    svg: str
    bare: str = ""  # the same without title and caption, for a page that says them itself


Drawing = Chart | Picture


@dataclass(frozen=True)
class FigureCard(Generic[Seen]):
    """One figure: what it is called, what it shows, which record it is drawn from, and how."""

    name: str
    says: str  # one sentence for `draw --list`
    needs: type[Seen]  # the record; whoever wants the picture measures one
    draw: Callable[[Seen], Drawing]
    options: tuple[str, ...]  # of the command, such as --word, that mean something here
    tiny: Seen  # a record to try it on


def all_figures() -> dict[str, FigureCard[Any]]:
    """Every figure by its name."""
    return cards(PACKAGE, "FIGURE", FigureCard)


def figure_called(name: str) -> FigureCard[Any]:
    """The figure of that name, or an error that brings the nearest one."""
    return find(PACKAGE, "FIGURE", FigureCard, name, "figure")
