"""A task: data that are ready to be learned from, and everything that depends on what kind of data they are.

The loop, the plan, the health, the run's folder and the report are the same for all of them. What differs is here:
which networks there are, what a batch is, what is made small, by what a network is judged, and beside whom.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pellucid.inspection.losses import cross_entropy_loss
from pellucid.models.catalogue import NetworkCard, Recipe
from pellucid.models.contracts import Network
from pellucid.models.settings import SIZES
from pellucid.records import (
    Answers,
    CountedParts,
    DataFacts,
    Importance,
    InitialLoss,
    Measure,
    Plan,
    Sample,
    Separability,
)
from pellucid.training.distributed import ALONE, WHOLE, Share, World
from pellucid.training.options import TrainOptions
from pellucid.training.rng import derive_seed
from pellucid.training.sharding import is_divided
from pellucid.training.tasks.baselines import Baseline, SideResult

# Tokens of train from which on a size is worth its weights.
WORTH: Mapping[str, int] = {"tiny": 0, "small": 3_000, "medium": 30_000, "large": 500_000}
SMALLEST_BATCH = 32  # where a recipe makes it smaller for few examples
FEWEST_STEPS = 300  # with fewer nothing much is learned: rather a smaller batch, but not below
FEWEST_PREDICTIONS = 256  # of a step
TARGETS_AT_ONCE = 1 << 22  # that are counted
JUDGED_OF_TRAIN = 10_000  # predictions of train that the finished network is measured on, beside all of dev
TOLERANCE = 0.05  # of ln |V|, for the first loss; a judgement, and the numbers are always shown

if TYPE_CHECKING:
    from pellucid.training.fine_tuning import Origin

LossFunction = Callable[[Any, Any], Tensor]  # a network and a batch -> the mean loss of the batch
Inputs = tuple[tuple[Any, ...], Tensor]  # what a network is called with, and the targets of its outputs


class Batches(Protocol):
    """Where a loop gets its batches from: a pure function of the step."""

    @property
    def per_epoch(self) -> int: ...

    def batch(self, step: int) -> Any:
        """The batch of this step; the first is 1. Its n_tokens are the predictions that the loss is the mean of."""


class SharedBatches(Batches, Protocol):
    """Batches whose rows several processes can share."""

    def batch(self, step: int, share: Share = WHOLE) -> Any:
        """The same, or a share of its rows."""

    def has_rows(self, step: int, share: Share) -> bool:
        """Whether the share has rows of its own; else it is given one that counts for nothing."""


class Task(ABC):
    """What a run learns, bound to its data."""

    facts: DataFacts
    context: int = 0  # tokens of a window of a text, or of a list's longest item with its boundary; 0: there is none
    default_loss: str = "cross-entropy"
    default_start: str = "scratch"
    origin: Origin | None = None  # the run that a training begins from, if it does
    has_own_sizes: bool = False  # where a size is asked for, the others are the network's own, whatever the data are
    is_causal: bool | None = None  # whether a network's outputs may depend on later inputs; None: it has no one order
    is_mixable: bool = False  # a list whose items differ so little in length that batches can mix them
    worth: Mapping[str, int] = WORTH
    wanted_steps: int = FEWEST_STEPS  # where there is time for fewer, the batch is made smaller, down to
    smallest_batch: int = FEWEST_PREDICTIONS

    @property
    @abstractmethod
    def measure(self) -> Measure:
        """What networks are judged by here."""

    @property
    @abstractmethod
    def n_train(self) -> int:
        """Predictions that the training side asks for."""

    def n_evaluated(self, side: str) -> int:
        """Predictions of a side that models are measured on at the end."""
        return self.facts.n_tokens[side]

    @property
    def n_finishing(self) -> int:
        """Predictions that are made once the training is over."""
        train = min(JUDGED_OF_TRAIN, self.n_evaluated("train"))
        return train + self.n_evaluated(self.measure.side) + self.n_evaluated("test")

    def seconds_to_finish(self, model: Any, prediction: float) -> float:
        """About what the network takes once the training is over. prediction: seconds of one while it is evaluated."""
        return prediction * self.n_finishing

    @abstractmethod
    def find_card(self, name: str) -> NetworkCard:
        """The network of this name that can read these data."""

    @abstractmethod
    def make_config(self, card: Any, size: str) -> Any:
        """The configuration of a size for these data."""

    def build_network(self, card: NetworkCard, config: Any, plan: Plan) -> Network:
        """The network with its first weights, which depend on the seed alone."""
        return build_network(card, config, plan.seed)

    def suggest_size(self) -> str:
        """The largest size that so many data are worth."""
        return [size for size in SIZES if self.n_train >= self.worth[size]][-1]

    @staticmethod
    @abstractmethod
    def estimate_parameters(config: Any) -> int:
        """About how many parameters a configuration has; to build one that is too large would fail."""

    @property
    @abstractmethod
    def max_batch_size(self) -> int:
        """The most rows that a batch can hold."""

    def batch_size_for(self, recipe: Recipe) -> int:
        """How many rows the recipe's batch has here; never more than there are."""
        n = min(recipe.batch_size, self.max_batch_size)
        if recipe.steps_of_epoch:
            n = min(n, max(SMALLEST_BATCH, 2 ** round(math.log2(self.max_batch_size / recipe.steps_of_epoch + 1))))
        return max(1, n)

    @abstractmethod
    def make_batches(self, plan: Plan, *, is_fair: bool) -> SharedBatches:
        """Of the training side; is_fair: each a fair sample of it, whatever that costs."""

    @abstractmethod
    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        """The dev side in batches, as the training side is."""

    @abstractmethod
    def split_batch(self, model: Any, batch: Any) -> Inputs:
        """What the network is called with for a batch, and the targets of what it puts out."""

    @abstractmethod
    def loss_function(self, plan: Plan) -> LossFunction:
        """What is made small: a network and a batch -> the mean loss of the batch."""

    def output_loss(self, plan: Plan) -> Callable[[Tensor, Tensor], Tensor]:
        """What is made small, without the penalty, as a function of a network's outputs and targets."""
        return cross_entropy_loss

    def batch_weight(self, plan: Plan) -> Callable[[Any], float]:
        """What the mean loss of a batch is a mean over: where several processes share one, each counts by that."""
        return _n_predictions

    @abstractmethod
    def evaluate(self, model: Any, side: str, most: int = 0, world: World = ALONE) -> SideResult:
        """The network on dev or test; of train on a part as large as dev. most: predictions that are looked at.

        world: processes that look at a part each; all of them are told the whole, to the same bits as of one alone.
        """

    @property
    def usual_folds(self) -> int:
        """Parts of the cross-validation that so few examples deserve; 0: none."""
        return 0

    def require_options(self, options: TrainOptions) -> None:  # noqa: B027  # most data take all that their kind may
        """Refuse what these data, and not only their kind, cannot be asked for."""

    def evaluate_for(self, model: Any, side: str, plan: Plan, world: World = ALONE) -> SideResult:
        """The network on as much of a side as the plan says, by the loss that its weights are chosen by."""
        return self.evaluate(model, side, plan.evaluated, world)

    def importances(self, model: Any, plan: Plan) -> tuple[Importance, ...]:
        """What the network loses on dev without each column of a table."""
        return ()

    def evaluate_whole(self, model: Any, side: str, world: World = ALONE) -> SideResult:
        """The finished network on all of dev or test, with all that it is compared by; it may take longer."""
        return self.evaluate(model, side, world=world)

    def prepare_training(self, options: TrainOptions) -> None:  # noqa: B027  # most need nothing more than their sides
        """Work out what every batch will need, once, before it is shared with other processes."""

    def counted_parts(self, model: Any) -> CountedParts | None:
        """What of the network's predictions is counted and what learned; None where nothing is counted."""
        return None

    def separability(self, model: Any, plan: Plan, steps: int) -> Separability | None:
        """Whether weights of a linear network can tell all of train right; None of others. steps: that it made."""
        return None

    @abstractmethod
    def check_initial_loss(self, loss: float, plan: Plan) -> InitialLoss:
        """The loss on dev before the first step, beside what it should be."""

    @abstractmethod
    def preview(self, model: Any, plan: Plan) -> tuple[str, ...]:
        """A few samples or answers, with the same rng each time, so that what changes is the network."""

    def samples(self, model: Any, plan: Plan) -> tuple[Sample, ...]:
        """What the finished network makes by itself; nothing, where it only answers."""
        return ()

    def answers(self, model: Any, plan: Plan) -> Answers | None:
        """What the finished network answers on dev and on test, which is read once; None where it only speaks."""
        return None

    @abstractmethod
    def fit_baselines(self, options: TrainOptions) -> Iterator[Baseline]:
        """The honest models beside which a network is shown, one as soon as it is fitted."""

    @abstractmethod
    def files(self, plan: Plan) -> Mapping[str, str | bytes]:
        """Files of the run without which its network cannot be used, by name."""

    def bits_per_character(self, loss: float) -> float:
        """nan where there are no characters."""
        return float("nan")


def build_network(card: NetworkCard, config: Any, seed: int) -> Network:
    """The network with its first weights, which depend on the seed alone. The global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 0, "weights"))
        network: Network = card.build(config)
        return network


def _n_predictions(batch: Any) -> float:
    return float(batch.n_tokens)


def device_of(model: nn.Module) -> torch.device:
    """Where its weights are; of a model that has none, the CPU."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def batch_to(batch: Any, device: torch.device) -> Any:
    """The same batch with its tensors on that device; itself where they are there."""
    if device.type == "cpu":
        return batch
    return type(batch)(*(one.to(device, non_blocking=True) if isinstance(one, Tensor) else one for one in batch))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in eval mode and makes no gradients; afterwards it is in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        # What is divided over processes is put together in buffers that training uses again.
        is_shared = any(is_divided(parameter) for parameter in model.parameters())
        with torch.no_grad() if is_shared else torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def initial_loss(measured: float, targets: npt.ArrayLike, vocab_size: int) -> InitialLoss:
    """The first loss beside ln |V| and the entropy of the targets. Targets below 0 are padding.

    >>> start = initial_loss(math.log(4), [0, 0, 1, 2], vocab_size=4)
    >>> start.is_as_expected, round(start.label_entropy, 4)
    (True, 1.0397)
    >>> start.start
    'unsure'
    """
    uniform, entropy = math.log(vocab_size), label_entropy(targets)
    slack = TOLERANCE * uniform
    start = "unsure"
    if not math.isfinite(measured):
        start = "not finite"
    elif measured > uniform + slack:
        start = "sure and wrong"
    elif measured < uniform - slack:
        start = "too informed" if measured < entropy - slack else "informed"
    is_as_expected = entropy - slack <= measured <= uniform + slack
    return InitialLoss(measured, uniform, entropy, is_as_expected, start, vocab_size)


def label_entropy(targets: npt.ArrayLike) -> float:
    """Of how often each target occurs, in nats: the least that a model without any context can reach on them.

    >>> label_entropy([1, 1, 2, 2]) == math.log(2)
    True
    """
    found = np.asarray(targets).reshape(-1)
    counts = np.zeros(1 + int(found.max(initial=0)), np.int64)
    for first in range(0, len(found), TARGETS_AT_ONCE):
        some = found[first : first + TARGETS_AT_ONCE]
        counts += np.bincount(some[some >= 0].astype(np.int64), minlength=len(counts))
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())
