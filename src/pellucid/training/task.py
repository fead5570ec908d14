"""A task: data that are ready to be learned from, and everything that depends on what kind of data they are.

The loop, the plan, the health, the run's folder and the report are the same for all of them. What differs is here:
which networks there are, what a batch is, what is made small, by what a network is judged, and beside whom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from pellucid.models.network import Card, Recipe
from pellucid.records import Answers, DataFacts, InitialLoss, Measure, Plan, Rung, Sample
from pellucid.training.wishes import TrainingWishes


class Lot(Protocol):
    """A batch, as the loop sees it."""

    @property
    def n_tokens(self) -> int:
        """Predictions that the loss is the mean of."""


class Batches(Protocol):
    """Where a loop gets its batches from: a pure function of the step."""

    @property
    def per_epoch(self) -> int: ...

    def batch(self, step: int) -> Any:
        """The batch of this step; the first is 1."""


Ask = Callable[[Any, Any], Tensor]  # a network and a batch -> the mean loss of the batch


class Measured(NamedTuple):
    """How a network did on a whole side."""

    loss: float
    metric: float | None = None  # None where the measure has none, or it is not worth its time here


class Baseline(Protocol):
    """A model that is no network, and what it reached."""

    @property
    def rung(self) -> Rung: ...

    def with_test(self) -> Rung:
        """The rung with what it reaches on test, which is read here and not before."""


class Task(ABC):
    """What a run learns, bound to its data."""

    facts: DataFacts
    context: int = 0  # tokens of a window of a text, or of a list's longest item with its boundary; 0: there is none
    usual_loss: str = "cross-entropy"

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """What networks are judged by here."""

    @property
    @abstractmethod
    def n_train(self) -> int:
        """Predictions that the training side asks for."""

    @abstractmethod
    def card(self, name: str) -> Card:
        """The network of this name that can read these data."""

    @abstractmethod
    def sized(self, card: Any, size: str) -> Any:
        """The configuration of a size for these data."""

    @abstractmethod
    def size(self) -> str:
        """The largest size that so many data are worth."""

    @abstractmethod
    def rough_parameters(self, config: Any) -> int:
        """About how many parameters a configuration has; to build one that is too large would fail."""

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """The most that a batch can hold."""

    def batch_for(self, recipe: Recipe) -> int:
        """How many rows the recipe's batch has here; never more than there are."""
        return max(1, min(recipe.batch, self.most_rows))

    @abstractmethod
    def batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        """Of the training side; is_fair: each a fair sample of it, whatever that costs."""

    @abstractmethod
    def ask(self, plan: Plan) -> Ask:
        """What is made small."""

    @abstractmethod
    def measured(self, model: Any, side: str) -> Measured:
        """The network on the whole of dev or test; of train on a part as large as dev."""

    @abstractmethod
    def start(self, loss: float) -> InitialLoss:
        """The loss on dev before the first step, beside what it should be."""

    @abstractmethod
    def texts(self, model: Any, plan: Plan) -> tuple[str, ...]:
        """A few things that the network says, with the same chances each time, so that what changes is the network."""

    def samples(self, model: Any, plan: Plan) -> tuple[Sample, ...]:
        """What the finished network makes by itself; nothing, where it only answers."""
        return ()

    def answers(self, model: Any, plan: Plan) -> Answers | None:
        """What the finished network answers on dev and on test, which is read once; None where it only speaks."""
        return None

    @abstractmethod
    def baselines(self, wishes: TrainingWishes) -> Iterator[Baseline]:
        """The honest models beside which a network is shown, one as soon as it is known."""

    @abstractmethod
    def sentence(self, rung: Rung, best: Rung) -> str:
        """What the network earns over the best of them, or that it earns nothing."""

    @abstractmethod
    def kept(self) -> Mapping[str, str]:
        """Files of the run without which its network cannot be used, by name."""

    def bits_per_character(self, loss: float) -> float:
        """nan where there are no characters."""
        return float("nan")
