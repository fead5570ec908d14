"""One wide head or many narrow ones: what changes, and what does not.

Heads share the width: of a width w each of h heads has w / h numbers. However many there are, the four matrices of
attention have w² numbers each, and a transformer of depth D over V tokens has

    2 · V · w + 12 · D · w²

since feed-forward has 8 w² more, and embedding and head V · w each. The products of attention are 4 n² w operations
for n positions, whatever h is. What grows with h are the weights, h · n² numbers, each of which goes through a softmax.
What many heads buy is that a position can look at several places at once.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of
from pellucid.lessons.lesson import Lesson, seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.data.prepare.tokens import SequenceSides
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer

DEPTH, BATCH, LEARNING_RATE = 2, 64, 5e-3
JUDGED = 6_000  # tokens of dev
SETS = {"names": "names", "copy-back": "copy-back:n=4000,k=3,n_symbols=20,length=12"}
POSITIONS, REPEATS = 128, 7  # that are timed
TABLE, ROW = 1010.0, 30.0
WIDTH, HEIGHT, RIGHT = 420.0, 250.0, 90.0


class HeadSplit(NamedTuple):
    """A transformer whose width is shared by so many heads, trained as often as was asked."""

    heads: int
    head_width: int
    parameters: int
    losses: tuple[float, ...]  # on dev, for each seed
    attention_parameters: int  # of the wide layer
    weights: int  # numbers that its softmax makes, for so many positions

    @property
    def mean(self) -> float:
        return sum(self.losses) / len(self.losses)


class HeadTiming(NamedTuple):
    """The wide layer: milliseconds of a pass, and of one there and back; the median of several, on one thread."""

    heads: int
    forward_ms: float
    both_ms: float


class HeadsOrWidth(NamedTuple):
    """The same width as one head and as many: parameters, losses and times."""

    source: str
    width: int
    depth: int
    vocab_size: int
    best: float | None  # the lowest loss that can be, where it is known
    wide: int  # the width of the layer that is timed
    n_positions: int
    splits: tuple[HeadSplit, ...]
    timings: tuple[HeadTiming, ...]


@dataclass(frozen=True)
class HeadsOrWidthKnobs:
    seed: int = seed_knob()
    width: int = option(64, "Width of the transformers that are trained.", minimum=2, maximum=512)
    heads: tuple[float, ...] = option(
        (1, 2, 4, 8), "Numbers of heads that are tried.", minimum=1, maximum=256, example="1,8"
    )
    wide: int = option(512, "Width of the layer whose time is measured.", minimum=2, maximum=2048)
    data: str = option("names", "What is learned", choices=tuple(SETS))
    steps: int = option(150, "Training steps of each.", minimum=1, maximum=10_000)
    repeats: int = option(2, "Trainings of each, with other seeds.", minimum=1, maximum=20)

    def __post_init__(self) -> None:
        check_options(self)
        for heads in self.heads:
            for name, width in (("width", self.width), ("wide", self.wide)):
                if heads % 1 or width % (2 * heads):
                    raise PellucidError(
                        f"{{{name}}} is {width}, which {heads:g} heads cannot share in pairs, as rotary positions do",
                        fix="Choose a multiple of twice every number of heads",
                        options={name: None},
                    )


def measure(knobs: HeadsOrWidthKnobs) -> HeadsOrWidth:
    """Each number of heads: trained on the same batches, then judged on the same part of dev; and the wide layer timed.

    >>> found = measure(HeadsOrWidthKnobs(steps=2, repeats=1, width=16, heads=(1, 8), wide=64))
    >>> [(split.heads, split.head_width, split.parameters, split.weights) for split in found.splits]
    [(1, 16, 7008, 16384), (8, 2, 7008, 131072)]
    """
    from pellucid.data.prepare.tokens import take_part
    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.training.tasks.sequences import evaluate_loss

    sides = _open_sides(knobs.data)
    context = 1 + max(side.longest_item for side in (sides.train, sides.dev))
    judged = take_part(sides.dev, JUDGED)
    counts = [int(heads) for heads in dict.fromkeys(knobs.heads)]
    splits = []
    for heads in counts:
        losses, parameters = [], 0
        for seed in range(knobs.seed, knobs.seed + knobs.repeats):
            config = TransformerConfig(len(sides.vocabulary), context, knobs.width, DEPTH, heads)
            model = train_transformer(sides, config, knobs.steps, seed)
            parameters = model.n_parameters
            losses.append(evaluate_loss(model, judged, context).nats)
        layer = MultiHeadAttention(knobs.wide, heads, has_bias=False)
        splits.append(
            HeadSplit(
                heads=heads,
                head_width=knobs.width // heads,
                parameters=parameters,
                losses=tuple(losses),
                attention_parameters=sum(parameter.numel() for parameter in layer.parameters()),
                weights=heads * POSITIONS**2,
            )
        )
    return HeadsOrWidth(
        source=f"{SETS[knobs.data]}, {knobs.steps} steps of {BATCH}, {count_of(knobs.repeats, 'training')} each, "
        f"seed {knobs.seed}",
        width=knobs.width,
        depth=DEPTH,
        vocab_size=len(sides.vocabulary),
        best=_best_loss(knobs.data),
        wide=knobs.wide,
        n_positions=POSITIONS,
        splits=tuple(splits),
        timings=time_heads(knobs.wide, counts),
    )


def _open_sides(data: str) -> SequenceSides:
    from pellucid.data import open_data
    from pellucid.data.kinds import ListData
    from pellucid.data.prepare.tokens import split_sequences

    opened = open_data(SETS[data], kind="list")
    assert isinstance(opened, ListData)
    return split_sequences(opened)


def _best_loss(data: str) -> float | None:
    """Of items that repeat after k symbols: k · ln(n_symbols) nats for length + 1 tokens. Of names nobody knows it."""
    if data != "copy-back":
        return None
    asked = dict(pair.split("=") for pair in SETS[data].partition(":")[2].split(","))
    return int(asked["k"]) * math.log(int(asked["n_symbols"])) / (int(asked["length"]) + 1)


def train_transformer(sides: SequenceSides, config: TransformerConfig, steps: int, seed: int) -> Transformer:
    """A transformer that has learned the train side for so many steps."""
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.training.loop import mean_token_loss
    from pellucid.training.rng import seed_torch
    from pellucid.training.tasks.batches import make_batches

    with seed_torch(seed, 0, "weights"):
        model = Transformer(config)
    batches = make_batches(sides.train, BATCH, config.context, seed)

    def loss_of(step: int) -> Any:
        batch = batches.batch(step)
        with seed_torch(seed, step, "dropout"):
            return mean_token_loss(model(batch.tokens), batch.targets)

    train_by_adamw(model, loss_of, LEARNING_RATE, steps)
    return model.eval()


def time_heads(width: int, counts: Sequence[int]) -> tuple[HeadTiming, ...]:
    """Attention of this width over some positions, for each number of heads; taken in turns, so that all are alike."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import CAUSAL

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    layers = {heads: MultiHeadAttention(width, heads, has_bias=False) for heads in counts}
    stream = torch.randn(1, POSITIONS, width, requires_grad=True)
    seconds: dict[int, list[tuple[float, float]]] = {heads: [] for heads in counts}
    try:
        for _ in range(REPEATS + 1):
            for heads, layer in layers.items():
                began = time.perf_counter()
                out = layer(stream, stream, mask=CAUSAL)
                between = time.perf_counter()
                out.sum().backward()
                seconds[heads].append((between - began, time.perf_counter() - began))
    finally:
        torch.set_num_threads(threads)
    return tuple(
        HeadTiming(heads, *[1000 * statistics.median(column) for column in zip(*taken[1:], strict=True)])
        for heads, taken in seconds.items()
    )


def draw(record: HeadsOrWidth) -> Picture:
    """A row for each number of heads; below the losses and the times."""
    marks = _table(record)
    top = 40 + ROW * (len(record.splits) + 1) + 30
    counts = [float(split.heads) for split in record.splits]
    left = Panel(
        axis_spanning(counts, "heads", is_log=True),
        axis_spanning(
            [
                *[loss for split in record.splits for loss in split.losses],
                *([] if record.best is None else [record.best]),
            ],
            "dev loss, nats a token",
            margin=0.1,
        ),
        WIDTH,
        HEIGHT,
    )
    left.line([(split.heads, split.mean) for split in record.splits], BLUE, says="the mean")
    for split in record.splits:
        for loss in split.losses:
            left.dot(split.heads, loss, BLUE, size=4, is_hollow=len(split.losses) > 1, says=f"{loss:.4f}")
    if record.best is not None:
        left.across(record.best)
        left.ends([(record.best, "best", QUIET)])
    times = [ms for timing in record.timings for ms in timing[1:]]
    right = Panel(
        axis_spanning(counts, "heads", is_log=True), axis_spanning([0.0, *times], "milliseconds"), WIDTH, HEIGHT
    )
    lines = {"there and back": (ORANGE, 2), "there": (BLUE, 1)}
    for name, (colour, place) in lines.items():
        points = [(float(timing.heads), float(timing[place])) for timing in record.timings]
        right.line(points, colour, says=name)
        for x, y in points:
            right.dot(x, y, colour, size=4, says=f"{name}, {x:g} heads: {y:.3g} ms")
    right.ends([(record.timings[-1][place], name, colour) for name, (colour, place) in lines.items()])
    second = LEFT + WIDTH + RIGHT
    marks += [
        svg_text(LEFT, top, f"Loss of width {record.width}", INK, is_bold=True, size=19),
        svg_text(second + LEFT, top, f"Time of a layer of width {record.wide}", INK, is_bold=True, size=19),
        *left.draw(0, top + 20),
        *right.draw(second, top + 20),
    ]
    title = "One wide head or many narrow ones"
    return picture(title, _captions(record), marks, second + LEFT + WIDTH + 130, top + 20 + HEIGHT + BOTTOM)


def _table(record: HeadsOrWidth) -> list[str]:
    columns = (0.0, 90.0, 230.0, 420.0, 660.0, 860.0)
    names = (
        "heads",
        f"of {record.wide}",
        "parameters of it",
        "numbers in its weights",
        f"of {record.width}",
        f"parameters, {record.depth} blocks",
    )
    marks = [svg_text(x, 18, name, QUIET) for x, name in zip(columns, names, strict=True)]
    for i, split in enumerate(record.splits):
        y = 18 + ROW * (i + 1)
        cells = (
            f"{split.heads}",
            f"{split.heads} × {record.wide // split.heads}",
            f"{split.attention_parameters:,}",
            f"{split.weights:,}",
            f"{split.heads} × {split.head_width}",
            f"{split.parameters:,}",
        )
        marks += [svg_text(x, y, cell, INK, is_bold=not x) for x, cell in zip(columns, cells, strict=True)]
        marks.append(f'<path d="M0 {y + 9:.0f}H{TABLE:.0f}" stroke="{LINE}"/>')
    return marks


def _captions(record: HeadsOrWidth) -> list[str]:
    w, v = record.width, record.vocab_size
    formula = 2 * v * w + 12 * record.depth * w * w
    is_same = {split.parameters for split in record.splits} == {formula}
    first, last = record.splits[0], record.splits[-1]
    low = min(record.splits, key=lambda split: split.mean)
    spread = max([max(split.losses) - min(split.losses) for split in record.splits])
    quick, slow = record.timings[0], record.timings[-1]
    said = [
        f"{record.source}. Parameters: 2 · {v} · {w} + 12 · {record.depth} · {w}² = {formula:,}"
        + (", the same however many heads there are, as counted." if is_same else "; that is not what was counted."),
        f"Dev loss with {count_of(first.heads, 'head')} {first.mean:.4f} and with {last.heads} {last.mean:.4f}; lowest "
        f"with {low.heads}, {low.mean:.4f}."
        + (
            f" Trainings that differ in their seed alone are up to {spread:.4f} apart." if len(first.losses) > 1 else ""
        ),
        f"Attention of width {record.wide} over {record.n_positions} positions: {first.heads} × "
        f"{record.wide // first.heads} takes {quick.forward_ms:.2g} ms and {last.heads} × "
        f"{record.wide // last.heads} {slow.forward_ms:.2g} ms; there and back {quick.both_ms:.2g} and "
        f"{slow.both_ms:.2g} ms. The weights are {first.weights:,} and {last.weights:,} numbers.",
    ]
    if record.best is not None:
        said.append(f"The best loss there is: {record.best:.4f} nats a token.")
    return said


LESSON = Lesson(
    name="heads-or-width",
    summary="One wide head against many narrow ones: equal parameters, measured loss and time.",
    measure=measure,
    draw=draw,
    knobs=HeadsOrWidthKnobs,
)
