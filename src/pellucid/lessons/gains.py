"""Gains: activations and gradients layer by layer, for first weights of the right size and of wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pellucid.figures.charts.layer_maps import column_height, ridge_column
from pellucid.figures.charts.svg import BLUE, ORANGE, move_marks
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent, rough
from pellucid.lessons.lesson import Lesson, name_batches, new_mlp, probe_health, seed_knob, split_names
from pellucid.options import check_options, option
from pellucid.records import LayerStats

WIDTH, NOTES, LABELS, GAP = 260.0, 96.0, 88.0, 22.0
Stack = tuple[float, tuple[LayerStats, ...]]


class GainStudy(NamedTuple):
    """A deep stack of layers with one activation, for several gains of the first weights."""

    source: str
    activation: str
    best_gain: float  # 1 / sqrt(E[f(Z)^2])
    stacks: tuple[tuple[float, tuple[LayerStats, ...]], ...]  # each gain and its layers from the input up


@dataclass(frozen=True)
class GainKnobs:
    seed: int = seed_knob()
    activation: str = option(
        "tanh", "Activation of every layer", choices=("tanh", "relu", "leaky_relu", "gelu", "sigmoid")
    )
    depth: int = option(6, "Layers.", minimum=2, maximum=12)
    hidden: int = option(100, "Units of each layer.", minimum=2, maximum=1000)
    factors: tuple[float, ...] = option(
        (0.5, 1.0, 3.0), "Multiples of the right gain that are tried.", minimum=0, is_minimum_open=True, maximum=100
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: GainKnobs) -> GainStudy:
    """A deep stack on one batch before any training, its weights drawn by multiples of the activation's gain."""
    import torch
    from torch import nn

    from pellucid.layers.feed_forward import gain

    seed, activation, depth = knobs.seed, knobs.activation, knobs.depth
    sides = split_names()
    batch = name_batches(sides, seed).batch(1)
    best = gain(activation)
    stacks = []
    for factor in knobs.factors:
        model = new_mlp(sides, seed, activation, depth, hidden=knobs.hidden)
        with torch.no_grad():
            for path, layer in model.named_modules():
                # The first layer reads embeddings, which have variance 1 already.
                if isinstance(layer, nn.Linear) and path.startswith("layers.") and not path.startswith("layers.0."):
                    layer.weight.mul_(factor)
        layers = tuple(layer for layer in probe_health(model, batch).layers if layer.path.endswith(".activation"))
        stacks.append((factor * best, layers))
    return GainStudy(f"names, {depth} layers of {knobs.hidden} units, seed {seed}", activation, best, tuple(stacks))


def draw(record: GainStudy) -> Picture:
    """A column for each gain: above what the layers put out, below the gradients that come back to them."""
    marks: list[str] = []
    left = 0.0
    for i, (gain, layers) in enumerate(record.stacks):
        is_best = _is_best(record, gain)
        labels = LABELS if i == 0 else 12.0
        is_right = "right" if is_best else "too small" if gain < record.best_gain else "too large"
        named = [("" if i else f"layer {n}", layer) for n, layer in enumerate(layers, start=1)]
        column = ridge_column(named, f"gain {rough(gain)}: {is_right}", BLUE if is_best else ORANGE, WIDTH, labels)
        marks += move_marks(column, left, 0)
        left += labels + WIDTH + NOTES + GAP
    title = f"Histograms of a deep {record.activation} network, for gains that are right and that are not"
    return picture(title, _captions(record), marks, left - GAP, column_height(len(record.stacks[0][1])))


def _is_best(record: GainStudy, gain: float) -> bool:
    nearest = min([abs(each - record.best_gain) for each, _ in record.stacks])
    return abs(gain - record.best_gain) == nearest


def _captions(record: GainStudy) -> list[str]:
    lines = [
        f"{record.source}. The right gain of {record.activation} is 1/√E[f(Z)²] = {record.best_gain:.4f}. "
        f"σ: the deviation; each ridge is scaled to its peak."
    ]
    for gain, layers in record.stacks:
        first, last = layers[0], layers[-1]
        saturated = "" if last.saturated is None else f"; in the last {percent(last.saturated)} saturated"
        lines.append(
            f"Gain {rough(gain)}, first to last layer: activations σ {first.deviation:.3g} to {last.deviation:.3g}, "
            f"gradients σ {first.gradient_deviation:.2g} to {last.gradient_deviation:.2g}{saturated}."
        )
    return lines


LESSON = Lesson(
    name="gains",
    summary="Histograms of activations and gradients in each layer of a deep network, for good and bad first weights.",
    measure=measure,
    draw=draw,
    knobs=GainKnobs,
    figure_of_run="layer-histograms",
)
