"""What the looks at a module mean: one judgement each, even where all is sound, and always with its numbers.

Training and the doctor judge by the same functions, so that one never calls ill what the other calls sound. The
thresholds are judgements. A layer is named where it is the worst of its kind.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pellucid.records import Finding, Health, LayerStats

SATURATED = 0.5  # of a squashing layer's values: from there on most of what could be learned is lost in it
SILENT = 0.95  # of a ReLU's or GELU's: half of them are by design
DEAD = 0.1  # of a layer's units
FADES = 100.0  # by how much a gradient may differ between the first and the last layer of a kind
MOVES = (1e-4, 1e-1)  # of a weight's own size in one step; about 1e-3 is usual

# The picture in which each is seen again.
PICTURED = {
    "saturated": "layer-histograms",
    "dead-units": "unit-maps",
    "gradients-over-depth": "gradient-norms",
    "update-ratio": "update-ratios",
}

_SQUASHING = ("Tanh", "Sigmoid", "RNN")
_CUTTING = ("ReLU", "SquaredReLU", "GELU")


def judged(health: Sequence[Health]) -> list[Finding]:
    """What all looks together tell, in no order of gravity.

    >>> judged([])
    []
    """
    if not health:
        return []
    last = health[-1]
    by_rule = {
        "saturated": saturation(last),
        "dead-units": dead_units(last),
        "gradients-over-depth": gradients_over_depth(health),
        "update-ratio": updates(health),
    }
    return [finding._replace(rule=rule) for rule, found in by_rule.items() for finding in found]


def saturation(look: Health) -> list[Finding]:
    """The most saturated layer of those that squash, and of those that cut off."""
    found = []
    for kinds, limit, fix in (
        (_SQUASHING, SATURATED, "shrink the weights before it (by the activation's gain), or put a norm before it"),
        (_CUTTING, SILENT, "lower the rate, or shrink the first weights and biases before it"),
    ):
        layers = [layer for layer in look.layers if layer.kind in kinds and layer.saturated is not None]
        if not layers:
            continue
        worst = max(layers, key=lambda layer: layer.saturated or 0.0)
        share = worst.saturated or 0.0
        seen = f"{100 * share:.1f} % of {worst.kind}'s values were where its slope is nearly 0"
        if share > limit:
            means = "there the gradient is multiplied by nearly 0, and what lies below learns little"
            found.append(Finding.suspicious(worst.path, seen, means, fix, step=look.step))
        else:
            found.append(Finding.sound(worst.path, seen, "gradients pass through every such layer", step=look.step))
    return found


def dead_units(look: Health) -> list[Finding]:
    layers = [(layer, layer.always_zero) for layer in look.layers if layer.always_zero is not None]
    if not layers:
        return []
    worst, n_dead = max(layers, key=lambda pair: pair[1] / pair[0].width)
    seen = f"{n_dead} of {worst.width} units of {worst.kind} were flat on all {worst.examples} examples"
    if n_dead == 0:
        return [Finding.sound(worst.path, seen, "every unit can still learn", step=look.step)]
    share = n_dead / worst.width
    severity = "broken" if n_dead == worst.width else "suspicious" if share >= DEAD else "note"
    means = "their incoming weights receive no gradient from these examples"
    return [Finding(severity, worst.path, seen, means, "lower the rate or shrink the first weights", look.step)]


class _Change(NamedTuple):
    """How the gradient's size changes between two layers of a kind at one look."""

    first: LayerStats
    last: LayerStats
    ratio: float
    step: int

    @property
    def size(self) -> float:
        return abs(math.log10(max(self.ratio, 1e-30)))


def _change(look: Health) -> _Change | None:
    """The largest change from the last layer of a kind down to the first, where there are several."""
    kinds: dict[str, list[LayerStats]] = defaultdict(list)
    for layer in look.layers:
        kinds[layer.kind].append(layer)
    changes = [
        _Change(layers[0], layers[-1], layers[0].gradient_deviation / layers[-1].gradient_deviation, look.step)
        for layers in kinds.values()
        if len(layers) > 1 and layers[-1].gradient_deviation > 0
    ]
    return max(changes, key=lambda change: change.size, default=None)


def gradients_over_depth(health: Sequence[Health]) -> list[Finding]:
    """The middle of all looks: where next to nothing is left to learn, the last gradients are mostly rounding."""
    changes = sorted([change for look in health if (change := _change(look))], key=lambda change: change.size)
    # A branch that starts at zero gets nothing at the first look, on purpose. Broken is what never gets anything.
    changes = [change for change in changes if change.ratio > 0] or changes
    if not changes:
        return []
    first, last, ratio, step = changes[len(changes) // 2]
    seen = (
        f"the gradient's deviation is {first.gradient_deviation:.2g} at {first.path} and "
        f"{last.gradient_deviation:.2g} at {last.path}, {ratio:.2g} times"
    )
    if ratio == 0:
        means, fix = "no gradient reaches the lower layers at all", "look for units that are flat, or a broken path"
        return [Finding.broken(first.path, seen, means, fix, step=step)]
    if ratio < 1 / FADES:
        means, fix = (
            "it vanishes on the way down",
            "draw the weights by the activation's gain, or add norms or residuals",
        )
        return [Finding.suspicious(first.path, seen, means, fix, step=step)]
    if ratio > FADES:
        means, fix = "it explodes on the way down", "shrink the weights by the activation's gain, or clip the gradient"
        return [Finding.suspicious(first.path, seen, means, fix, step=step)]
    return [Finding.sound(first.path, seen, "it neither vanishes nor explodes on the way down", step=step)]


def updates(health: Sequence[Health]) -> list[Finding]:
    """The matrices that move most and least. By the median of all looks: the rate goes up and down by plan."""
    moved: dict[str, list[float]] = defaultdict(list)
    for look in health:
        for weight in look.weights:
            if len(weight.shape) >= 2 and math.isfinite(weight.update_ratio):
                moved[weight.path].append(weight.update_ratio)
    if not moved:
        return []
    ratios = {path: statistics.median(each) for path, each in moved.items()}
    least, most = min(ratios, key=lambda path: ratios[path]), max(ratios, key=lambda path: ratios[path])
    step = health[-1].step
    found = []
    if ratios[most] > MOVES[1]:
        means = "it forgets much of itself in every step"
        found.append(Finding.suspicious(most, _moves(ratios[most]), means, "lower the rate", step=step))
    if ratios[least] < MOVES[0]:
        means = "it would need thousands of steps to change"
        found.append(Finding.suspicious(least, _moves(ratios[least]), means, "raise the rate", step=step))
    if not found:
        seen = f"updates were {ratios[least]:.1e} ({least}) to {ratios[most]:.1e} ({most}) of the weights' own size"
        found.append(Finding.sound("all matrices", seen, "each moves at a usual pace", step=step))
    return found


def _moves(ratio: float) -> str:
    return f"half of its updates were above {ratio:.1e} of its own size, where about 1e-3 is usual"
