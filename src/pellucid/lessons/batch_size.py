"""Batch size: how noisy a gradient is, what an example costs, and the loss that is reached, for several sizes.

    noise      the mean squared distance of a batch's gradient from the mean of many: the variance of one example's,
               divided by the batch size B, and less where a batch is a good part of all N: Σ/B · (N − B)/(N − 1)
    time       of a step, forward, back and update, for each of its examples, on one thread
    memory     what the way back needs: tensors that torch keeps of the way forward, weights not counted
    loss       at the end, where every training sees as many examples (equal epochs), or makes as many steps

Everything is measured on the data that are named, by the training that `pellucid train --batch-size` makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import NotFinite, PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, memory_size, rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.models.settings import NORMS
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pellucid.models.catalogue import NetworkCard
    from pellucid.training.tasks.task import Task
    from pellucid.training.trainer import TrainingState

WIDTH, HEIGHT, BETWEEN, RIGHT = 360.0, 230.0, 110.0, 110.0
DRAWS = 48  # batches over which the noise of one network's gradient is measured
TIMED = 8  # steps, of which the fastest counts
SCALINGS = {"none": 0.0, "root": 0.5, "linear": 1.0}  # powers of the batch size that the learning rate follows
OPTIMIZERS = ("adamw", "sgd", "muon")


@dataclass(frozen=True)
class BatchSizeKnobs:
    source: str = "digits"
    kind: str = option("", "Kind of the data; by default it is inferred.")
    encoding: str = option("utf-8", "Character encoding of the file.")
    target: str = option("", "Column of a table to predict.", value_name="COLUMN")
    model: str = option("", "Network; by default mlp, or of pairs encoder.", value_name="NAME")
    norm: str = option("none", "Normalization of hidden layers; by batch norm the rows of a batch meet", choices=NORMS)
    batch_sizes: tuple[float, ...] = option(
        (4, 16, 64, 256), "Batch sizes.", minimum=1, maximum=100_000, example="8,64,512"
    )
    examples: int = option(4_000, "Examples that are seen at equal epochs.", minimum=1, maximum=10_000_000)
    steps: int = option(100, "Steps that are made at equal steps.", minimum=1, maximum=100_000)
    optimizer: str = option("adamw", "Optimizer", choices=OPTIMIZERS)
    learning_rate: float = option(0.0, "Peak learning rate; 0 is the plan's own.", minimum=0, maximum=1e3)
    scaling: str = option("none", "How the learning rate grows with the batch size", choices=tuple(SCALINGS))
    seeds: int = option(3, "Trainings of each kind, each with a seed of its own.", minimum=1, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)
        for size in self.batch_sizes:
            if size != round(size):
                raise PellucidError(f"one of the batch sizes is {size:g}", fix=f"Choose whole ones, as {round(size)}")


class BatchSizeResult(NamedTuple):
    """One batch size; what was trained stands there once for every seed."""

    batch_size: int
    rows: float  # that batches really have, on average: an epoch is cut evenly
    noises: tuple[float, ...]  # mean squared distance of a batch's gradient from the mean
    seconds: float  # of a step, for each example
    saved_bytes: int  # that a step keeps for its way back
    n_steps: int  # at equal epochs
    losses_by_epochs: tuple[float, ...]  # at the end; nan where it was no number
    losses_by_steps: tuple[float, ...]


class BatchSizeStudy(NamedTuple):
    """Batch sizes on the same data and the same network."""

    source: str
    network: str
    n_parameters: int
    rows_meet: bool  # in training, as by batch norm: then a gradient is no mean of those of single examples
    n_rows: int  # of train
    side: str  # that losses are measured on: dev, or train where there is no other
    optimizer: str
    learning_rate: float  # at the batch size of the network's recipe
    scaling: str
    epochs: float  # that are equal
    steps: int
    noise_scale: float  # the batch size at which the noise is as large as the gradient itself
    exponent: float  # of the noise by the batch size: -1 where examples are independent
    sizes: tuple[BatchSizeResult, ...]


class SeedMean(NamedTuple):
    """The mean over seeds and its 95 % interval, which one seed does not have."""

    mean: float
    low: float
    high: float


def measure(knobs: BatchSizeKnobs) -> BatchSizeStudy:
    """Train, and look at gradients, steps and memory, for each batch size."""
    import torch

    from pellucid.data.options import DataOptions
    from pellucid.training.tasks import open_task

    task = open_task(DataOptions(source=knobs.source, kind=knobs.kind, encoding=knobs.encoding, target=knobs.target))
    card = task.find_card(knobs.model or _usual_network(task.facts.kind))
    n_rows = task.max_batch_size
    sizes = sorted({min(int(size), n_rows) for size in knobs.batch_sizes})
    if len(sizes) < 2:
        raise PellucidError(
            f"{task.facts.description} leaves {count_of(n_rows, 'example')} to train on, and one batch size",
            fix="Give at least two, and more data",
        )
    if knobs.norm != "none" and "norm" not in card.config.__dataclass_fields__:
        raise PellucidError(
            f"{card.name} has no {{norm}} to choose", fix="Leave it out, or choose mlp", options={"norm": None}
        )
    threads = torch.get_num_threads()
    try:
        return _study(knobs, task, card, sizes)
    finally:
        torch.set_num_threads(threads)


def _study(knobs: BatchSizeKnobs, task: Task, card: NetworkCard, sizes: Sequence[int]) -> BatchSizeStudy:
    seeds = range(knobs.seed, knobs.seed + knobs.seeds)
    n_rows = task.max_batch_size
    middle = sizes[len(sizes) // 2]
    trained = {seed: _train(knobs, task, card, middle, knobs.steps, seed) for seed in seeds}
    noises = {size: [_noise_at(state, size, n_rows) for state, _ in trained.values()] for size in sizes}
    found = []
    for size in sizes:
        n_steps = max(1, round(knobs.examples / size))
        by_epochs = [_train(knobs, task, card, size, n_steps, seed)[1] for seed in seeds]
        by_steps = [
            trained[seed][1] if size == middle else _train(knobs, task, card, size, knobs.steps, seed)[1]
            for seed in seeds
        ]
        state = _prepare(knobs, task, card, size, TIMED, knobs.seed)
        found.append(
            BatchSizeResult(
                batch_size=size,
                rows=n_rows / state.batches.per_epoch,
                noises=tuple(noise.squared for noise in noises[size]),
                seconds=_seconds_of_a_step(state) / (n_rows / state.batches.per_epoch),
                saved_bytes=_saved_of_a_step(state),
                n_steps=n_steps,
                losses_by_epochs=tuple(by_epochs),
                losses_by_steps=tuple(by_steps),
            )
        )
    state = trained[knobs.seed][0]
    of_one = [
        fmean(result.noises) / noise_share(result.rows, n_rows)
        for result in found
        if noise_share(result.rows, n_rows) > 0
    ]
    # The mean of draws is the gradient and its own noise; of the largest batches that is least.
    signal = fmean([noise.mean_squared - noise.squared / DRAWS for noise in noises[sizes[-1]]])
    rate = state.plan.learning_rate / _rate_factor(knobs, task, card, middle)
    return BatchSizeStudy(
        source=task.facts.description,
        network=card.name,
        n_parameters=state.model.n_parameters,
        rows_meet=state.model.rows_meet,
        n_rows=n_rows,
        side=task.measure.side,
        optimizer=state.plan.optimizer,
        learning_rate=rate,
        scaling=knobs.scaling,
        epochs=knobs.examples / n_rows,
        steps=knobs.steps,
        noise_scale=fmean(of_one) / signal if signal > 0 and of_one else math.nan,
        exponent=noise_exponent([(result.rows, fmean(result.noises)) for result in found], n_rows),
        sizes=tuple(found),
    )


def _usual_network(kind: str) -> str:
    from pellucid.models.catalogue import networks_for

    return "mlp" if "mlp" in networks_for(kind) else "encoder"


def _rate_factor(knobs: BatchSizeKnobs, task: Task, card: NetworkCard, size: int) -> float:
    """What the learning rate is multiplied by, beside that for the batch size of the recipe."""
    return float((size / task.batch_size_for(card.recipe)) ** SCALINGS[knobs.scaling])


def _prepare(knobs: BatchSizeKnobs, task: Task, card: NetworkCard, size: int, n_steps: int, seed: int) -> TrainingState:
    """A training as `pellucid train` would begin it, on one thread."""
    from pellucid.training.options import TrainOptions
    from pellucid.training.plan import choose_plan
    from pellucid.training.trainer import build_training

    options = TrainOptions(
        card.name,
        kind=task.facts.kind,
        steps=n_steps,
        size="tiny",
        batch_size=size,
        optimizer=knobs.optimizer,
        learning_rate=knobs.learning_rate or None,
        start="scratch" if task.facts.kind in ("list", "text") else None,
        network={"norm": knobs.norm} if "norm" in card.config.__dataclass_fields__ else {},
        threads=1,
        seed=seed,
    )
    config, plan = choose_plan(card, task, options)
    factor = _rate_factor(knobs, task, card, size)
    plan = plan._replace(
        learning_rate=plan.learning_rate * factor, matrix_learning_rate=plan.matrix_learning_rate * factor
    )
    return build_training(card, config, plan, task)


def _train(
    knobs: BatchSizeKnobs, task: Task, card: NetworkCard, size: int, n_steps: int, seed: int
) -> tuple[TrainingState, float]:
    """The trained network and its loss on dev; nan where the training came to an infinity."""
    from pellucid.training.loop import steps

    state = _prepare(knobs, task, card, size, n_steps, seed)
    loss = task.loss_function(state.plan)
    try:
        for _ in steps(state.model, state.batches, state.optimizer, state.plan, loss_function=loss):
            pass
        return state, task.evaluate(state.model, task.measure.side).loss
    except NotFinite:
        return state, math.nan


class _Noise(NamedTuple):
    squared: float  # mean squared distance of a gradient from the mean
    mean_squared: float  # of the mean of all draws, the square of its length


def _noise_at(state: TrainingState, size: int, n_rows: int) -> _Noise:
    """The first batch of each of several epochs, which are shuffled anew: independent draws."""
    import torch

    from pellucid.training.rng import seed_torch

    plan = state.plan._replace(batch_size=size, shift=0)
    batches = state.task.make_batches(plan, is_fair=True)
    loss = state.task.loss_function(plan)
    found = []
    for draw_number in range(DRAWS):
        batch = batches.batch(1 + draw_number * batches.per_epoch)
        with seed_torch(plan.seed, draw_number, "dropout"):
            found.append(flat_gradient(loss(state.model, batch), list(state.model.parameters())))
    gradients = torch.stack(found)
    return _Noise(gradient_noise(gradients), float(gradients.mean(0).square().sum()))


def flat_gradient(loss: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """All slopes of a loss as one vector, in double precision; what it does not depend on has slope 0."""
    import torch

    slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
    parts = [
        torch.zeros_like(parameter) if slope is None else slope
        for parameter, slope in zip(parameters, slopes, strict=True)
    ]
    return torch.cat([part.flatten().double() for part in parts])


def gradient_noise(gradients: Tensor) -> float:
    """The mean squared distance of gradients from their mean, without bias. gradients: (draws, n).

    >>> import torch
    >>> gradient_noise(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    2.0
    """
    return float((gradients - gradients.mean(0)).square().sum() / (len(gradients) - 1))


def noise_share(batch_size: float, n_rows: int) -> float:
    """What a batch leaves of the noise of one example, if it is drawn without putting back: 0 if it is all of them.

    >>> noise_share(1, 100), noise_share(100, 100), round(noise_share(4, 10**9), 8)
    (1.0, 0.0, 0.25)
    """
    return (n_rows - batch_size) / max(1, n_rows - 1) / batch_size


def noise_exponent(noises: Iterable[tuple[float, float]], n_rows: int) -> float:
    """The power of the batch size that the noise follows, once drawing without putting back is taken out.

    >>> noise_exponent([(size, 3.0 * noise_share(size, 50)) for size in (2, 10, 40)], 50)
    -1.0
    """
    points = [
        (math.log(size), math.log(noise / (size * noise_share(size, n_rows))))
        for size, noise in noises
        if noise > 0 and noise_share(size, n_rows) > 0
    ]
    if len(points) < 2:
        return math.nan
    middle_x, middle_y = fmean([x for x, _ in points]), fmean([y for _, y in points])
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)
    return round(slope, 12) or 0.0


def _seconds_of_a_step(state: TrainingState) -> float:
    import time

    from pellucid.training.loop import steps

    loss = state.task.loss_function(state.plan)
    taken = []
    began = time.perf_counter()
    try:
        for _ in steps(state.model, state.batches, state.optimizer, state.plan, loss_function=loss):
            now = time.perf_counter()
            taken.append(now - began)
            began = now
    except NotFinite:  # a few steps are enough
        pass
    return min(taken, default=math.nan)


def _saved_of_a_step(state: TrainingState) -> int:
    loss = state.task.loss_function(state.plan)
    batch = state.batches.batch(1)
    return saved_for_backward(lambda: loss(state.model, batch), state.model.parameters())


def saved_for_backward(run: Callable[[], object], parameters: Iterable[Tensor]) -> int:
    """Bytes of all tensors that torch keeps for the way back while this runs, each memory once, parameters not at all.

    >>> import torch
    >>> x = torch.ones(10, requires_grad=True)
    >>> saved_for_backward(lambda: (2 * x).exp().sum(), [x])  # exp keeps what it gave: 10 numbers of 4 bytes
    40
    """
    import torch

    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        kept[memory.data_ptr()] = memory.nbytes()
        alive.append(tensor)
        return tensor

    alive: list[Tensor] = []  # until the end, or memory that is used again would be counted once
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    for parameter in parameters:
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(kept.values())


def seed_mean(values: Sequence[float]) -> SeedMean:
    """The mean, and by Student's t where ever more seeds would have it.

    >>> seed_mean([1.0, 3.0]).mean
    2.0
    """
    from pellucid.records.intervals import student_factor

    mean = fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return SeedMean(mean, mean, mean)
    reach = student_factor(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return SeedMean(mean, mean - reach, mean + reach)


def draw(record: BatchSizeStudy) -> Picture:
    """Noise, loss, time and memory, each over the batch size."""
    panels = [
        ("noise of the gradient", _noise_panel(record)),
        (f"loss on {record.side}", _loss_panel(record)),
        ("time for each example", _line_panel(record, "microseconds", [1e6 * size.seconds for size in record.sizes])),
        (
            "memory for the way back",
            _line_panel(record, "megabytes", [size.saved_bytes / 1e6 for size in record.sizes]),
        ),
    ]
    marks = []
    for i, (heading, panel) in enumerate(panels):
        left, top = (i % 2) * (LEFT + WIDTH + BETWEEN), (i // 2) * (HEIGHT + BOTTOM + 60)
        marks.append(svg_text(left + LEFT, top + 16, heading, INK, is_bold=True, size=19))
        marks += panel.draw(left, top + 34)
    width, height = 2 * (LEFT + WIDTH) + BETWEEN + RIGHT, 2 * (HEIGHT + BOTTOM) + 60 + 34
    return picture("What the batch size changes", _captions(record), marks, width, height)


def _size_axis(record: BatchSizeStudy) -> Any:
    return axis_spanning([size.batch_size for size in record.sizes], "batch size", is_log=True, margin=0.06)


def _noise_panel(record: BatchSizeStudy) -> Panel:
    means = [seed_mean(size.noises) for size in record.sizes]
    values = [value for mean in means for value in mean if value > 0]
    panel = Panel(_size_axis(record), axis_spanning(values, "squared distance", is_log=True), WIDTH, HEIGHT)
    first = record.sizes[0]
    of_one = means[0].mean / noise_share(first.rows, record.n_rows) if first.rows < record.n_rows else 0.0
    expected = [(size.batch_size, of_one * noise_share(size.rows, record.n_rows)) for size in record.sizes]
    panel.line([point for point in expected if point[1] > 0], QUIET, width=2, dash="7 5", says="1/B from the first")
    _draw_means(panel, record, means, BLUE, "noise")
    panel.words(panel.width - 6, 18, "dashed: 1/B", QUIET, align="end")
    return panel


def _loss_panel(record: BatchSizeStudy) -> Panel:
    kinds = (
        ("equal epochs", BLUE, [seed_mean(size.losses_by_epochs) for size in record.sizes]),
        ("equal steps", ORANGE, [seed_mean(size.losses_by_steps) for size in record.sizes]),
    )
    values = [value for _, _, means in kinds for mean in means for value in mean if value > 0]
    panel = Panel(_size_axis(record), axis_spanning(values, "loss", is_log=True), WIDTH, HEIGHT)
    labels = []
    for name, colour, means in kinds:
        _draw_means(panel, record, means, colour, name)
        last = [mean.mean for mean in means if math.isfinite(mean.mean)]
        if last:
            labels.append((last[-1], name, colour))
    panel.ends(labels)
    return panel


def _line_panel(record: BatchSizeStudy, unit: str, values: list[float]) -> Panel:
    panel = Panel(_size_axis(record), axis_spanning(values, unit, is_log=True), WIDTH, HEIGHT)
    points = [(size.batch_size, value) for size, value in zip(record.sizes, values, strict=True)]
    panel.line(points, BLUE, says=unit)
    for x, y in points:
        panel.dot(x, y, BLUE, size=4, says=f"batch size {x:,}: {rough(y)} {unit}")
    return panel


def _draw_means(panel: Panel, record: BatchSizeStudy, means: Sequence[SeedMean], colour: str, name: str) -> None:
    """The means with a bar for each interval; one that reaches below zero ends at the frame."""
    points = [(size.batch_size, mean.mean) for size, mean in zip(record.sizes, means, strict=True)]
    panel.line(points, colour, says=name)
    for (x, y), mean in zip(points, means, strict=True):
        if not math.isfinite(y):
            continue
        if mean.high > mean.low:
            panel.line([(x, max(mean.low, panel.y.low)), (x, mean.high)], colour, width=2, says="95 % interval")
        panel.dot(x, y, colour, size=4, says=f"{name}, batch size {x:,}: {rough(y)}")


def _captions(record: BatchSizeStudy) -> list[str]:
    first, last = record.sizes[0], record.sizes[-1]
    n_seeds = len(first.noises)
    rate = {"none": "", "root": " · √B", "linear": " · B"}[record.scaling]
    said = [
        f"{record.source}; a tiny {record.network} of {record.n_parameters:,} parameters on {record.n_rows:,} "
        f"examples, {record.optimizer} with rate {record.learning_rate:g}{rate}. {count_of(n_seeds, 'seed')}"
        + ("; bars are 95 % intervals." if n_seeds > 1 else "."),
    ]
    said.append(_noise_words(record))
    said.append(
        f"An example takes {1e6 * first.seconds:.3g} µs in a batch of {first.batch_size:,}, "
        f"{1e6 * last.seconds:.3g} µs in one of {last.batch_size:,}; the way back needs "
        f"{memory_size(first.saved_bytes)} and {memory_size(last.saved_bytes)}."
    )
    for name, field in ((f"equal epochs ({record.epochs:.3g})", "by_epochs"), (f"{record.steps:,} steps", "by_steps")):
        means = {size.batch_size: seed_mean(getattr(size, f"losses_{field}")).mean for size in record.sizes}
        finite = {size: mean for size, mean in means.items() if math.isfinite(mean)}
        if not finite:
            said.append(f"At {name} no training ended with a finite loss.")
            continue
        best = min(finite, key=lambda size: finite[size])
        ends = ", ".join([f"{mean:.4g} at {size:,}" for size, mean in finite.items()])
        said.append(f"Loss on {record.side} at {name}: {ends}; lowest at {best:,}.")
    return said


def _noise_words(record: BatchSizeStudy) -> str:
    if not math.isfinite(record.exponent):
        return "How the noise falls with the batch size is not known: gradients were no numbers, or had no noise."
    first, last = (
        f"{rough(fmean(size.noises))} at {size.batch_size:,}" for size in (record.sizes[0], record.sizes[-1])
    )
    power = f"{record.exponent:.2f}".replace("-", "−")
    said = f"Noise falls as B to the {power} (−1 where examples are independent): {first}, {last}."
    if math.isfinite(record.noise_scale):
        said += f" It is as large as the gradient itself at a batch of {record.noise_scale:,.0f}."
    return said + (" Rows of a batch meet in its norm, which adds noise to small ones." if record.rows_meet else "")


LESSON = Lesson(
    name="batch-size",
    summary="What the batch size changes: gradient noise, time, memory, and loss at equal epochs and at equal steps.",
    measure=measure,
    draw=draw,
    knobs=BatchSizeKnobs,
    argument="source",
)
