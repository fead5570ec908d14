"""Callbacks: what a training run tells while it goes on, how it is asked to stop, and who writes its page.

The loop knows nobody: a progress line, a notebook or a test subclasses `Callbacks` and overrides what it wants to hear.
"""

from __future__ import annotations

from collections.abc import Callable

from pellucid.records import (
    DataFacts,
    Evaluation,
    Finding,
    Health,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    SampledAt,
    Step,
    Timing,
    TrainingReport,
)
from pellucid.training.signals import StopRequests

PageWriter = Callable[[TrainingReport], str]


class Callbacks:
    """Called while a run goes on, in this order; every method does nothing unless it is overridden.

    stop: asked between two steps whether to save and end. page: makes the report's HTML; without it none is written.
    """

    def __init__(self, stop: StopRequests | None = None, page: PageWriter | None = None) -> None:
        self.stop = stop if stop is not None else StopRequests()
        self.page = page

    def on_data(self, data: DataFacts) -> None:
        """The data are read and split."""

    def on_baselines(self, ladder: Ladder) -> None:
        """All baselines are fitted and measured."""

    def on_plan(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        """The network is built and the plan is fixed; the run's folder does not exist yet."""

    def on_resume(self, step: int, notes: tuple[str, ...]) -> None:
        """A stopped run goes on after this step."""

    def on_start(self, start: InitialLoss) -> None:
        """The loss before the first step is known."""

    def on_step(self, step: Step, timing: Timing) -> None:
        """After each optimizer step."""

    def on_health(self, health: Health) -> None:
        """The activations and gradients of a step were measured."""

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """The loss on train and dev was measured."""

    def on_samples(self, samples: SampledAt) -> None:
        """A few samples or predictions were made."""

    def on_finding(self, finding: Finding) -> None:
        """At the end: something about the health of the run."""

    def for_run(self, name: str) -> Callbacks:
        """Who is told of the next run, where several networks are compared."""
        return self
