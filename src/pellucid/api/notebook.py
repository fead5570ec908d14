"""Training in a notebook: a line that shows how far it is, and the report below the cell."""

from __future__ import annotations

import html
import io
import sys
from collections.abc import Callable
from typing import Any, TextIO

from pellucid.figures.progress import ProgressLine, seconds_left
from pellucid.records import Evaluation, Finding, Ladder, Measure, NetworkFacts, Plan, Step, Timing
from pellucid.training.callbacks import Callbacks, PageWriter

HEIGHT = 640  # pixels of a report in a notebook; it scrolls


def is_notebook() -> bool:
    """Whether this Python is the kernel of a notebook."""
    return "ipykernel" in sys.modules


class DisplayedLine(io.StringIO):
    """A stream whose last line is what a notebook shows, so that a saved one holds no more than that."""

    def __init__(self, display: Callable[..., Any]) -> None:
        super().__init__()
        self.shown = display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str) -> int:
        line = text.removeprefix("\r\x1b[2K").rstrip("\n")
        if line:
            self.shown.update({"text/plain": line}, raw=True)
        return len(text)


def open_line() -> TextIO:
    """Where a line can be written over and over: below the cell, or on stdout where nothing can be displayed."""
    try:
        from IPython.display import display  # type: ignore[import-not-found]
    except ImportError:
        return sys.stdout
    return DisplayedLine(display)


class NotebookCallbacks(Callbacks):
    """One line below the cell, written over and over."""

    def __init__(self, page: PageWriter) -> None:
        super().__init__(page=page)
        self.measure = Measure()
        self.plan: Plan | None = None
        self.line: ProgressLine | None = None

    def on_baselines(self, ladder: Ladder) -> None:
        self.measure = ladder.measure

    def on_plan(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        self.plan = plan
        self.line = ProgressLine(plan, open_line(), self.measure, is_live=True)

    def on_replan(self, plan: Plan) -> None:
        self.plan = plan
        if self.line:
            self.line.replan(plan)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        if self.line:
            self.line.evaluation(evaluation)

    def on_step(self, step: Step, timing: Timing) -> None:
        if self.line and self.plan:
            self.line.step(step, timing.tokens_per_second, seconds_left(self.plan, step, timing))
            if step.step >= self.plan.steps:
                self.line.close()

    def on_finding(self, finding: Finding) -> None:
        if self.line:  # at the end, which may have come before the last step
            self.line.close()


def framed_page(page: str) -> str:
    """A page that needs nothing but itself, in a frame of its own: neither styles nor names of it reach the notebook.

    sandbox: nothing in it may run or go anywhere.
    """
    content = html.escape(page, quote=True)
    style = f"width: 100%; height: {HEIGHT}px; border: 0"
    return f'<iframe sandbox srcdoc="{content}" style="{style}"></iframe>'
