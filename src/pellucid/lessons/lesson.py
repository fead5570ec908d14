"""What lessons share: the card, and the small networks of names and digits that are trained where no run is given.

Adding a lesson is adding one file to this room that ends with `LESSON = Lesson(...)`. What is heavy (torch, NumPy) is
imported inside `measure`, so that listing the lessons stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pellucid.cards import cards
from pellucid.figures.picture import Picture
from pellucid.options import option
from pellucid.records import Health, LayerStats, Statement, UnitMap

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from pellucid.data.prepare.tokens import SequenceSides
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.records import TrainingReport
    from pellucid.training.tasks.batches import Batch
    from pellucid.training.tasks.task import Batches

Record = TypeVar("Record")

SEED = 1
BATCH = 32  # names in a step
LONGEST = 16  # the context of a batch; names have their own length
FLAT_ACTIVATIONS = ("tanh", "relu", "sigmoid")  # that are flat somewhere
FIRST_ACTIVATION = "layers.0.activation"  # of the MLP

# The networks that are trained where no run is given. Two layers of two heads can be read from the last row, and that
# vit reads 9 digits of 10 right.
SMALL_MLP: Mapping[str, Any] = MappingProxyType(
    {"model": "mlp", "size": "small", "steps": 200, "threads": 1, "batch_size": 64, "optimizer": "adamw"}
)
TINY_TRANSFORMER: Mapping[str, Any] = MappingProxyType(
    {"model": "transformer", "size": "tiny", "steps": 300, "threads": 1, "batch_size": 64}
)
TINY_VIT: Mapping[str, Any] = MappingProxyType(
    {"model": "vit", "kind": "images", "size": "tiny", "steps": 400, "threads": 1}
)


@dataclass(frozen=True)
class NoKnobs:
    """Of a lesson that has nothing to turn."""


def seed_knob() -> Any:
    """The knob of every lesson that draws at random."""
    return option(SEED, "Random seed of what is drawn or trained.", noun="the seed", minimum=0, maximum=(1 << 64) - 1)


@dataclass(frozen=True)
class Lesson(Generic[Record]):
    """One thing that is taught by a picture.

    `knobs` is a dataclass whose fields are declared by `option(...)` and all have a default: each is an option of
    `pellucid draw NAME`, listed by `pellucid draw NAME --help`, and a parameter of `pellucid.draw("NAME")`. `measure`
    is given one of them.
    """

    name: str
    summary: str  # one sentence for `draw --list`
    measure: Callable[[Any], Record]
    draw: Callable[[Record], Picture]
    knobs: type = NoKnobs
    argument: str = ""  # the knob that may also be said behind the lesson's name, such as what is read
    figure_of_run: str = ""  # the figure that shows of one run what this lesson compares in several trainings
    notes: Callable[[Record], tuple[Statement, ...]] = lambda record: ()  # how the record came about, for the terminal

    @property
    def options(self) -> tuple[str, ...]:
        """The names of what can be asked."""
        return tuple(field.name for field in fields(self.knobs))


def all_lessons() -> dict[str, Lesson[Any]]:
    """Every lesson by its name."""
    return cards("pellucid.lessons", "LESSON", Lesson)


class Curve(NamedTuple):
    """A number over the steps of a run."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@contextmanager
def train_small_run(asked: Mapping[str, Any], seed: int, data: str = "names") -> Iterator[tuple[TrainingReport, Path]]:
    """A network that is trained to have something to draw: its report and its folder, which goes again."""
    import tempfile

    from pellucid.data.options import DataOptions
    from pellucid.training.callbacks import Callbacks, stop_requests
    from pellucid.training.options import TrainOptions
    from pellucid.training.run import train_run

    options = TrainOptions(**asked, seed=seed)
    with tempfile.TemporaryDirectory(prefix="pellucid-") as folder, stop_requests() as stop:
        run = Path(folder) / "shown"
        yield train_run(DataOptions(data), options, run, Callbacks(stop)), run


def split_names() -> SequenceSides:
    """The embedded names, split as for any training."""
    from pellucid.data import open_data
    from pellucid.data.kinds import ListData
    from pellucid.data.prepare.tokens import split_sequences

    data = open_data("names")
    assert isinstance(data, ListData)
    return split_sequences(data)


def new_mlp(sides: SequenceSides, seed: int, activation: str = "tanh", depth: int = 1, hidden: int = 200) -> WindowMLP:
    """An untrained MLP of names."""
    from pellucid.models.sequences.configs import WindowMLPConfig
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "weights"):
        return WindowMLP(WindowMLPConfig(len(sides.vocabulary), activation=activation, depth=depth, hidden=hidden))


def start_too_large(model: WindowMLP, seed: int, scale: float = 1.0) -> None:
    """Draw every weight and bias from a normal distribution of deviation `scale`, whatever its fan-in."""
    import torch

    from pellucid.training.rng import torch_rng

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, scale, generator=torch_rng(seed, 0, name))


def name_batches(sides: SequenceSides, seed: int, batch_size: int = BATCH) -> Batches:
    """The batches of the train side, in the order of the seed."""
    from pellucid.training.tasks.batches import make_batches

    return make_batches(sides.train, batch_size, LONGEST, seed, by_length=False)


def train_by_sgd(model: WindowMLP, batches: Batches, learning_rate: float, n_steps: int) -> list[float]:
    """Plain gradient descent on small batches: the loss before each step."""
    import torch

    from pellucid.training.loop import mean_token_loss

    losses = []
    for step in range(1, n_steps + 1):
        batch = batches.batch(step)
        model.zero_grad()
        loss = mean_token_loss(model(batch.tokens), batch.targets)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=learning_rate)
        losses.append(loss.item())
    return losses


def train_by_adamw(model: Module, loss_of: Callable[[int], Tensor], learning_rate: float, n_steps: int) -> list[float]:
    """AdamW, whose rate climbs for a tenth of the steps and then falls to nothing: the loss before each step.

    loss_of: the loss of a step's batch, by its number from 1.
    """
    import torch

    optimizer = torch.optim.AdamW(model.parameters())
    warmup = max(1, n_steps // 10)
    losses = []
    for step in range(1, n_steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(step / warmup, (n_steps + 1 - step) / max(1, n_steps - warmup))
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()
        losses.append(loss.item())
    return losses


def probe_health(model: WindowMLP, batch: Batch) -> Health:
    """One pass forward and back with a probe, and no update."""
    from pellucid.inspection.health import HealthProbe
    from pellucid.training.loop import mean_token_loss

    probe = HealthProbe(model)
    model.zero_grad()
    with probe.watch(1, with_maps=True):
        mean_token_loss(model(batch.tokens), batch.targets).backward()  # type: ignore[no-untyped-call]
    (health,) = probe.take_looks()
    return health


def first_activation(health: Health) -> tuple[LayerStats, UnitMap]:
    """What was seen of the MLP's first activation, and the map of its units."""
    layer = next(layer for layer in health.layers if layer.path == FIRST_ACTIVATION)
    return layer, next(units for units in health.maps if units.path == FIRST_ACTIVATION)
