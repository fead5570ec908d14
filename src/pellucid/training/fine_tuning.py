"""Training on from a run: its network with its weights, on new data that are read with its vocabulary.

A network that starts from counting stands on counts of the new data, and what it had learned to add to its old ones is
where it begins. How the run as it was does on the new data, old counts and all, is measured beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pellucid.data import Vocabulary
from pellucid.data.kinds import KINDS, Data
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.counting import COUNT_MODELS
from pellucid.records import FineTuning
from pellucid.runs import Run, open_run
from pellucid.training.run_data import load_vocabulary

if TYPE_CHECKING:
    from pellucid.models.contracts import Network, SequenceModel
    from pellucid.training.tasks.baselines import SideResult
    from pellucid.training.tasks.task import Task


@dataclass(frozen=True)
class Origin:
    """The run that a training begins from."""

    run: Run

    @classmethod
    def open(cls, word: str) -> Origin:
        """A run of a network for lists or texts; no torch is loaded, so that any other is refused at once."""
        run = open_run(word)
        if run.model in COUNT_MODELS:
            raise PellucidError(
                f"{run.name} only counts, and has no weights to begin from", fix="Name a run of a network"
            )
        if run.kind not in ("list", "text"):
            raise PellucidError(
                f"{{from_run}} is for lists and texts, and {quoted(run.name)} reads {run.kind}",
                fix="Train a new run",
                options={"from_run": None},
            )
        find_network(run.model, run.kind)
        return cls(run)

    def require_data(self, data: Data) -> None:
        """Refuse data of another kind than the run's: its boundaries would mean nothing there."""
        if data.kind != self.run.kind:
            raise PellucidError(
                f"{self.run.name} reads {KINDS[self.run.kind].noun}, and {data.name} is {KINDS[data.kind].noun}",
                fix="Add {kind}, or train a new run",
                options={"kind": self.run.kind},
            )

    @property
    def card(self) -> NetworkCard:
        return find_network(self.run.model, self.run.kind)

    @cached_property
    def config(self) -> Any:
        return self.card.config_from(self.run.config)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return load_vocabulary(self.run)

    @cached_property
    def model(self) -> SequenceModel:
        """The network as it was, with what it stands on."""
        from pellucid.models.contracts import SequenceModel
        from pellucid.training.checkpoints import load_network

        model, _ = load_network(self.run)
        assert isinstance(model, SequenceModel)
        return model

    @property
    def longest(self) -> int:
        return self.model.longest

    def give_weights(self, network: Network) -> None:
        """Put the weights of the run into a network of the same config."""
        weights = {name: tensor.clone() for name, tensor in self.model.core.state_dict().items()}
        network.core.load_state_dict(weights)


def measure_fine_tuning(origin: Origin, task: Task, after: dict[str, SideResult]) -> FineTuning:
    """The run as it was on dev and test of the new data, and what the training earned over it."""
    from pellucid.training.tasks.metrics import paired_gain

    before = {side: task.evaluate_whole(origin.model, side) for side in after}
    gains = []
    for side, found in before.items():
        ours, theirs = after[side].units, found.units
        if ours is not None and theirs is not None:
            gains.append(paired_gain(side, ours, theirs))
    return FineTuning(
        run=origin.run.name,
        model=origin.run.model,
        dev=before["dev"].loss if "dev" in before else math.nan,
        test=before["test"].loss if "test" in before else None,
        gains=tuple(gains),
    )
