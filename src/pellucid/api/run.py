"""A run as Python users hold it: what was measured, and the verbs that ask its network."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid import runs
from pellucid.api.shown import Shown

if TYPE_CHECKING:
    from pellucid.records import Ladder, Predictions, Samples, ScoredText, TrainingReport


class TrainedRun:
    """A run of `train`: its report, and what its network makes of a prompt, a text or new examples."""

    def __init__(self, run: runs.Run) -> None:
        self.run = run

    @property
    def folder(self) -> Path:
        return self.run.path

    @cached_property
    def report(self) -> TrainingReport:
        return self.run.report()

    def table(self) -> Shown[Ladder]:
        """The network beside everything that only counts, the best on dev first."""
        return Shown(self.report.ladder)

    def sample(self, count: int | None = None, **options: Any) -> Shown[Samples]:
        """New items, or samples of running text, each with how new it is; options as of `sample`."""
        from pellucid.api.language import sample

        return sample(self.folder, **options) if count is None else sample(self.folder, count=count, **options)

    def score(self, text: str, *, unknown: str = "error") -> Shown[ScoredText]:
        """The surprise of every token of a text."""
        from pellucid.api.language import score

        return score(self.folder, text, unknown=unknown)

    def predict(self, *files: str | Path, text: str = "", beam: int = 0) -> Shown[Predictions]:
        """What the network of a run on tables, images or pairs says of new ones; text: one source of pairs."""
        from pellucid.api.predict import predict

        return predict(self.folder, *files, text=text, beam=beam)

    def __repr__(self) -> str:
        from pellucid.figures.words.ladder import earned_words

        return f"TrainedRun({str(self.folder)!r}): {earned_words(self.report.ladder)}"


def open_run(word: str | Path) -> TrainedRun:
    """A finished run, by its name under ./runs or by its folder."""
    opened = runs.open_run(word)
    opened.require_finished()
    return TrainedRun(opened)
