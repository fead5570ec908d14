"""`pellucid.train` and its kin: the commands' work, for Python. Nothing heavy is loaded before one of them is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.verbs.shown import Shown

if TYPE_CHECKING:
    from pellucid.records import Ladder, RateSearch, TrainingReport


class Run:
    """A run that is finished: what was seen, and the network that came of it."""

    def __init__(self, folder: Path) -> None:
        from pellucid.training.reports import report_of

        self.folder = folder
        self.report: TrainingReport = report_of(folder)

    def table(self) -> Shown[Ladder]:
        """The network beside everything that only counts, the best on dev first."""
        from pellucid.figures.ladder import show_ladder

        return Shown(self.report.ladder, show_ladder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}): {self.report.sentence}"


def train() -> Run:
    raise NotImplementedError


def open_run(word: str | Path) -> Run:
    """A finished run, by its name under ./runs or by its folder."""
    from pellucid.runs import find_run

    return Run(find_run(str(word)))


def compare() -> Shown[Ladder]:
    raise NotImplementedError


def rate() -> Shown[RateSearch]:
    raise NotImplementedError
