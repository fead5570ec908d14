"""What is measured of a network's layers and weights, and what it means; with its numbers, also where it is sound.

Training, `watch` and the doctor's rules judge by these functions, so that none calls ill what another calls sound. The
thresholds are judgements; those of the doctor were held against many healthy networks (docs/doctor-score.md).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.records import Finding, Health, Histogram, LayerStats, UnitMap, WeightStats

SATURATED = 0.5  # of a squashing layer's values: from there on most of what could be learned is lost in it
SILENT = 0.95  # of a ReLU's or GELU's: half of them are by design
DEAD = 0.1  # of a layer's units
HALF_DEAD = 0.5  # where inputs lie close together, a third is flat on all of them before any training
FEWEST_EXAMPLES = 16  # of fewer, nothing is proven
FADES = 1000.0  # by how much a gradient may differ between the first layers and the last
MOVES = (1e-4, 1e-1)  # of a weight's own size in one step; about 1e-3 is usual
FAR_OFF = (1e-5, 1.0)  # where even the matrix that moves most moves no farther; the whole of its own size

OLD_GRADIENTS = 0.01  # of a gradient's norm, by which those of earlier steps may change it
ROUNDING = 1e-6  # of the largest gradient of the same update: less is the rounding of the others
RUNS_AWAY = 1e3  # times its first size, of a running statistic

# The picture in which each is seen again.
PICTURED = {
    "saturated": "layer-histograms",
    "dead-units": "unit-maps",
    "gradients-over-depth": "gradient-norms",
    "update-ratio": "update-ratios",
}

_SQUASHING = ("Tanh", "Sigmoid", "RNN")
_CUTTING = ("ReLU", "SquaredReLU", "GELU")


def judge_saturation(where: str, seen: str, share: float, is_squashing: bool = True) -> Finding:
    """share: of a layer's values, those where its slope is nearly 0.

    >>> judge_saturation("act", "63 % of its values", 0.63).severity
    'suspicious'
    """
    if share <= (SATURATED if is_squashing else SILENT):
        return Finding.sound(where, seen, "gradients pass through every such layer")
    return Finding.suspicious(
        where,
        seen,
        "there the gradient is multiplied by nearly 0, and what lies before it learns little",
        "shrink the weights before it (by the activation's gain), or put a norm before it"
        if is_squashing
        else "lower the rate, or shrink the first weights and biases before it",
    )


def judge_dead_units(
    where: str, name: str, n_dead: int, n_units: int, n_examples: int, steepest: float = 0.0
) -> Finding:
    """n_dead: units whose slope is nearly 0, at most `steepest`, on every one of the examples."""
    share = n_dead / n_units
    seen = f"{n_dead} of {n_units} units of {name} were flat on all {n_examples} examples"
    if share < DEAD:
        return Finding.sound(where, seen, f"{'nearly ' if n_dead else ''}every unit can still learn")
    severity = "suspicious" if share >= HALF_DEAD and n_examples >= FEWEST_EXAMPLES else "note"
    if share == 1 and steepest == 0 and n_examples >= FEWEST_EXAMPLES:
        severity = "broken"  # proven: not one of these examples can teach anything through it
    return Finding(
        severity,
        where,
        seen,
        "the weights before them get no gradient from these examples"
        if steepest == 0
        else f"its slope there is at most {steepest:.2g}, so the weights before them get hardly any gradient",
        "lower the rate, or shrink the first weights and biases before it",
    )


def judge_gradient_ratio(where: str, seen: str, ratio: float, n_layers: int) -> Finding:
    """ratio: the gradient's size at the first layers by that at the last, so many layers above."""
    if 1 / FADES <= ratio <= FADES:
        return Finding.sound(where, seen, "it neither vanishes nor explodes on the way down")
    if ratio == 0:
        means, fix = "no gradient reaches the lower layers at all", "look for units that are flat, or a broken path"
        return Finding.broken(where, seen, means, fix)
    return Finding.suspicious(
        where,
        seen,
        f"it {'vanishes' if ratio < 1 else 'explodes'} on the way down, by a factor of "
        f"{ratio ** (1 / max(1, n_layers)):.2g} a layer",
        "draw the weights by the activation's gain, or add norms or residual paths"
        + ("" if ratio < 1 else ", or clip the gradient"),
    )


def judge_updates(ratios: Mapping[str, float]) -> list[Finding]:
    """The matrices that move most and least. ratios: of each matrix the size of an update by its own."""
    most, least = max(ratios, key=lambda path: ratios[path]), min(ratios, key=lambda path: ratios[path])
    middle = statistics.median(ratios.values())
    seen = "updates were {:.1e} of its own size, the middle of all matrices {:.1e}; about 1e-3 is usual"
    found = []
    if ratios[most] > MOVES[1]:
        severity = "suspicious" if ratios[most] > FAR_OFF[1] else "note"
        means, fix = "it forgets much of itself in every step", "lower the rate, or draw the first weights larger"
        found.append(Finding(severity, most, seen.format(ratios[most], middle), means, fix))
    if ratios[least] < MOVES[0]:
        severity = "suspicious" if ratios[most] < FAR_OFF[0] else "note"
        pace = f"{1 / ratios[least]:,.0f} steps like these would move it by its own size" if ratios[least] else ""
        means, fix = pace or "it does not move", "raise the rate, or look for what holds it back"
        found.append(Finding(severity, least, seen.format(ratios[least], middle), means, fix))
    if not found:
        reach = f"updates were {ratios[least]:.1e} ({least}) to {ratios[most]:.1e} ({most}) of the matrices' own size"
        found.append(Finding.sound("all matrices", reach, "each moves at a usual pace"))
    return found


def judge_old_gradients(where: str, seen: str, with_old: float, without: float) -> Finding:
    """with_old: the norm of what an update is made of; without: of what it would be if old gradients were cleared.

    >>> judge_old_gradients("the step", "3 and 1", 3.0, 1.0).severity
    'broken'
    """
    if abs(with_old - without) <= OLD_GRADIENTS * without:
        return Finding.sound(where, seen, "each update follows the gradients of its own batch")
    return Finding.broken(
        where,
        seen,
        "gradients of earlier batches are still there and are added to each new one",
        "call optimizer.zero_grad() in every step",
    )


def is_more_than_rounding(norm: float, norms: Iterable[float]) -> bool:
    """Whether a gradient is more than what rounding leaves of the others of the same update.

    A bias before a batch norm gets just that: what the norm takes out again is 0 but for the last digits.

    >>> is_more_than_rounding(1e-8, [1.0, 1e-8]), is_more_than_rounding(1e-3, [1.0, 1e-3])
    (False, True)
    """
    return norm > ROUNDING * max([one for one in norms if not math.isnan(one)], default=0.0)


def judge_still_weights(still: Sequence[str], n_asked: int, n_steps: int, largest: float, extra: str = "") -> Finding:
    """still: weights that did not change by a bit in so many steps, though gradients up to `largest` came."""
    named = ", ".join(still[:3]) + (f" and {len(still) - 3} more" if len(still) > 3 else "")
    is_all = len(still) == n_asked
    return Finding.broken(
        still[0].rpartition(".")[0] or still[0],
        f"in {n_steps} steps {len(still)} of {n_asked} parameters did not change by a bit, though gradients of norm up "
        f"to {largest:.2g} came: {named}{extra}",
        "no step changes anything" if is_all else "they are never trained, while the rest is",
        "look whether the step is skipped, or too small for these numbers"
        if is_all
        else "look for what puts them back after each step, for a rate too small for their type, and for other tensors "
        "in the optimizer",
    )


def judge_statistics(sizes: Mapping[str, Sequence[float]], n_steps: int, unmoved: Sequence[str]) -> list[Finding]:
    """sizes: of each running statistic at several moments; unmoved: those that did not change by a bit in between.

    >>> [one.severity for one in judge_statistics({"norm.running_var": [1.0, 1.2]}, 30, [])]
    ['sound']
    """
    if not sizes:
        return []
    found = []
    if unmoved:
        found.append(
            Finding.suspicious(
                unmoved[0].rpartition(".")[0] or unmoved[0],
                f"{len(unmoved)} of {len(sizes)} running statistics did not move by a bit in {n_steps} steps, as "
                f"{unmoved[0]}",
                "in eval it norms by what was there before any data, and in training by the batch: two functions",
                "give batch norms a momentum above 0, and train in training mode",
            )
        )
    farthest = max(sizes, key=lambda path: _growth_of(sizes[path]))
    if _growth_of(sizes[farthest]) > RUNS_AWAY:
        first, last = sizes[farthest][0], sizes[farthest][-1]
        found.append(
            Finding.suspicious(
                farthest.rpartition(".")[0] or farthest,
                f"in {n_steps} steps {farthest} went from a size of {first:.3g} to {last:.3g}",
                "what is normed by it grows without bound, and eval is thrown off first",
                "lower the rate, or put a norm before what grows",
            )
        )
    if not found:
        seen = f"{len(sizes)} running statistics moved in {n_steps} steps, none past {RUNS_AWAY:g} times its size"
        found.append(Finding.sound("running statistics", seen, "they follow what goes through"))
    return found


def _growth_of(sizes: Sequence[float]) -> float:
    if not all(map(math.isfinite, sizes)):
        return math.inf
    return max(sizes[-1], 1e-30) / max(sizes[0], 1.0)


def judge_health(health: Sequence[Health]) -> list[Finding]:
    """What all looks at a training together tell, in no order of gravity.

    >>> judge_health([])
    []
    """
    if not health:
        return []
    last = health[-1]
    by_rule = {
        "saturated": _saturation(last),
        "dead-units": _dead_units(last),
        "gradients-over-depth": _gradients_over_depth(health),
        "update-ratio": _updates(health),
    }
    return [
        finding._replace(rule=rule, step=finding.step or last.step)
        for rule, found in by_rule.items()
        for finding in found
    ]


def _saturation(look: Health) -> list[Finding]:
    """The most saturated layer of those that squash, and of those that cut off."""
    found = []
    for kinds in (_SQUASHING, _CUTTING):
        shares = [(layer.saturated, layer) for layer in look.layers if layer.kind in kinds]
        measured = [(share, layer) for share, layer in shares if share is not None]
        if measured:
            share, worst = max(measured, key=lambda pair: pair[0])
            seen = f"{100 * share:.2f} % of {worst.kind}'s values were where its slope is nearly 0"
            found.append(judge_saturation(worst.path, seen, share, kinds is _SQUASHING))
    return found


def _dead_units(look: Health) -> list[Finding]:
    layers = [(layer, layer.always_zero) for layer in look.layers if layer.always_zero is not None]
    if not layers:
        return []
    worst, n_dead = max(layers, key=lambda pair: pair[1] / pair[0].width)
    return [judge_dead_units(worst.path, worst.kind, n_dead, worst.width, worst.examples)]


class _Change(NamedTuple):
    """How the gradient's size changes between two layers of a kind at one look."""

    first: LayerStats
    last: LayerStats
    ratio: float
    step: int
    n_layers: int

    @property
    def size(self) -> float:
        return abs(math.log10(max(self.ratio, 1e-30)))


def _change(look: Health) -> _Change | None:
    """The largest change from the last layer of a kind down to the first, where there are several."""
    kinds: dict[str, list[LayerStats]] = defaultdict(list)
    for layer in look.layers:
        kinds[layer.kind].append(layer)
    changes = [
        _Change(same[0], same[-1], same[0].gradient_deviation / same[-1].gradient_deviation, look.step, len(same) - 1)
        for same in kinds.values()
        if len(same) > 1 and same[-1].gradient_deviation > 0
    ]
    return max(changes, key=lambda change: change.size, default=None)


def _gradients_over_depth(health: Sequence[Health]) -> list[Finding]:
    """The middle of all looks: where next to nothing is left to learn, the last gradients are mostly rounding."""
    changes = sorted([change for look in health if (change := _change(look))], key=lambda change: change.size)
    # A branch that starts at zero gets nothing at the first look, on purpose. Broken is what never gets anything.
    changes = [change for change in changes if change.ratio > 0] or changes
    if not changes:
        return []
    first, last, ratio, step, n_layers = changes[len(changes) // 2]
    seen = (
        f"the gradient's deviation is {first.gradient_deviation:.2g} at {first.path} and "
        f"{last.gradient_deviation:.2g} at {last.path}, {ratio:.2g} times"
    )
    return [judge_gradient_ratio(first.path, seen, ratio, n_layers)._replace(step=step)]


def _updates(health: Sequence[Health]) -> list[Finding]:
    """By the median of all looks: the rate goes up and down by plan."""
    moved: dict[str, list[float]] = defaultdict(list)
    for look in health:
        for weight in look.weights:
            if len(weight.shape) >= 2 and math.isfinite(weight.update_ratio):
                moved[weight.path].append(weight.update_ratio)
    return judge_updates({path: statistics.median(each) for path, each in moved.items()}) if moved else []


# What the numbers of one layer say. Values and gradients come as (examples, units). A unit is flat on an example
# where its slope there is nearly zero: what the loss would teach the weights below it is multiplied by that slope.

N_BINS = 60
MOST_BINNED = 1 << 12  # values of a histogram: its shape is as clear, and a look is cheap
MAP_EXAMPLES = 32
MAP_UNITS = 200

_TANH_SATURATED = 0.97
NEARLY_ZERO = 1 - _TANH_SATURATED**2  # its slope there; the other activations are flat where theirs is no larger
_SIGMOID_SATURATED = math.sqrt(1 - 4 * NEARLY_ZERO)  # |2y - 1| where y(1 - y) is NEARLY_ZERO
_GELU_TAIL = -2.2509235996281576  # left of it |Φ(x) + xφ(x)| < NEARLY_ZERO; a test solves for it

# Where each activation is flat, by what went in and what came out. What is not here has a slope everywhere.
Flatness = Callable[[Tensor, Tensor], Tensor]
FLAT: Mapping[type[nn.Module], Flatness] = MappingProxyType(
    {
        nn.Tanh: lambda into, out: out.abs() > _TANH_SATURATED,
        nn.RNN: lambda into, out: out.abs() > _TANH_SATURATED,
        nn.Sigmoid: lambda into, out: (2 * out - 1).abs() > _SIGMOID_SATURATED,
        nn.ReLU: lambda into, out: out == 0,
        nn.GELU: lambda into, out: into < _GELU_TAIL,
    }
)
# The same for those that torch has not, by the names of their classes.
FLAT_BY_NAME: Mapping[str, Flatness] = MappingProxyType({"SquaredReLU": lambda into, out: out == 0})


def flatness(module: nn.Module) -> Flatness | None:
    """How to tell where this layer is flat; None where it never is, or where it cannot be told.

    >>> flatness(nn.Tanh())(torch.zeros(3), torch.tensor([-0.98, 0.0, 0.98]))
    tensor([ True, False,  True])
    """
    if isinstance(module, nn.RNN) and module.nonlinearity != "tanh":
        return None
    return FLAT.get(type(module)) or FLAT_BY_NAME.get(type(module).__name__)


def layer_stats(path: str, kind: str, values: Tensor, gradients: Tensor, flat: Tensor | None) -> LayerStats:
    """values, gradients, flat: (examples, units); the gradients are of the loss with respect to the values.

    >>> stats = layer_stats("act", "ReLU", torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.zeros(2, 2), None)
    >>> stats.width, stats.examples, stats.mean
    (2, 2, 0.5)
    """
    mean, deviation = _mean_and_deviation(values)
    gradient_mean, gradient_deviation = _mean_and_deviation(gradients)
    return LayerStats(
        path=path,
        kind=kind,
        width=values.shape[1],
        examples=values.shape[0],
        mean=mean,
        deviation=deviation,
        saturated=None if flat is None else flat.count_nonzero().item() / flat.numel(),
        always_zero=None if flat is None else int(flat.all(0).count_nonzero().item()),
        gradient_mean=gradient_mean,
        gradient_deviation=gradient_deviation,
        values=histogram(values),
        gradients=histogram(gradients),
    )


def _mean_and_deviation(values: Tensor) -> tuple[float, float]:
    """Written out, because torch's std is ten times slower over a whole tensor."""
    mean = values.mean()
    return mean.item(), torch.linalg.vector_norm(values - mean).item() / math.sqrt(values.numel())


def histogram(values: Tensor) -> Histogram:
    """How the finite values are spread, by an even sample where there are many.

    >>> histogram(torch.tensor([1.0, 2.0, 2.0])).counts[-1]
    2
    """
    flat = values.detach().reshape(-1)
    if len(flat) > MOST_BINNED:
        flat = flat[:: -(-len(flat) // MOST_BINNED) | 1]  # an odd stride, so that no unit is always passed over
    # What is not a number has no place among them; the loop stops on it and names the layer.
    low, high = (end.item() for end in flat.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        flat = flat[flat.isfinite()]
        low, high = (end.item() for end in flat.aminmax()) if len(flat) else (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(flat, N_BINS, low, high)
    return Histogram(low, high, tuple(int(count) for count in counts.tolist()))


def unit_map(path: str, kind: str, flat: Tensor, gradients: Tensor) -> UnitMap:
    """The first examples and units as letters. flat, gradients: (examples, units), the gradients that are passed on.

    >>> flat, gradients = torch.tensor([[True, False, False]]), torch.tensor([[0.0, -4.0, 1.0]])
    >>> unit_map("act", "Tanh", flat, gradients)
    UnitMap(path='act', kind='Tanh', values=('900',), gradients=('095',))
    """
    flat, sizes = flat[:MAP_EXAMPLES, :MAP_UNITS], gradients[:MAP_EXAMPLES, :MAP_UNITS].abs().double()
    largest = sizes.max().item() if sizes.numel() else 0.0
    # By the root of the size: gradients have long tails, and by the size itself nearly all would be 0.
    levels = (10 * (sizes / largest).sqrt()).clamp(max=9).int() if largest > 0 else sizes.int()
    return UnitMap(
        path,
        kind,
        values=tuple("".join("9" if one else "0" for one in row) for row in flat.tolist()),
        gradients=tuple("".join(map(str, row)) for row in levels.tolist()),
    )


def weight_stats(path: str, before: Tensor, after: Tensor, gradient_norm: float) -> WeightStats:
    """One parameter before and after a step. The ratio is nan where all numbers of the parameter were alike.

    >>> weight_stats("w", torch.tensor([-1.0, 1.0]), torch.tensor([-1.5, 1.5]), 0.1).update_ratio
    0.5
    """
    _, deviation = _mean_and_deviation(before)
    _, update = _mean_and_deviation(after.detach() - before)
    ratio = update / deviation if deviation > 0 else math.nan
    return WeightStats(path, tuple(before.shape), deviation, gradient_norm, ratio)
