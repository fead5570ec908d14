"""Targets that belong to another row: what is learned from them is learned better when they are moved.

A model learns what its inputs tell it faster than what they do not. So it is trained for a few steps with the targets
as they are, moved by a row each way, and turned round, and with rows drawn at random, which tell nothing. Where the
targets as they are teach no better than those drawn at random and others do, they are not of these inputs. Moves in
time are not tried: a target that is the input itself is learned soonest, and says nothing.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.short_run import overfit_allowance, overfit_run
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

STEPS = 30
RATE = 1e-2
FEWEST_ROWS = 8
DRAWS = 4  # of targets at random, by which chance is measured
FAR = 5.0  # deviations of these draws, by which another order has to be better
MARGIN = 0.05  # of what is learned at random in these steps, at least

Move = Callable[[Tensor], Tensor]
MOVES: dict[str, Move] = {
    "moved down by a row": lambda one: one.roll(1, 0),
    "moved up by a row": lambda one: one.roll(-1, 0),
    "in the opposite order": lambda one: one.flip(0),
}


def check(specimen: Specimen) -> Findings:
    targets = tensors_in(specimen.targets)
    n_rows = specimen.n_rows
    if not specimen.has_loss or not targets or n_rows < FEWEST_ROWS:
        return
    if any(not one.dim() or len(one) != n_rows for one in targets) or all(_is_constant(one) for one in targets):
        return
    if specimen.is_rebuilding:
        return  # what is asked for is the input itself, row by row
    allowance = try_or_none(lambda: overfit_allowance(specimen))  # scripted parts cannot be counted
    if allowance is None or allowance.specimen.n_rows < n_rows:
        return
    as_it_is = _learned(specimen, lambda one: one)
    if as_it_is is None:
        return
    tried = {name: found for name, move in MOVES.items() if (found := _learned(specimen, move)) is not None}
    best = min(tried, key=lambda name: tried[name][1], default="")
    first, mean = as_it_is
    if not best or not tried[best][1] < mean:
        yield Finding.sound(
            "targets",
            f"over {STEPS} steps the mean loss is {mean:.4g} with the targets as they are, and no less with them "
            + ", ".join(f"{name} ({tried[name][1]:.4g})" for name in tried),
            "no neighbour's target fits better",
        )
        return
    orders = [torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)) for seed in range(DRAWS)]
    drawn = [
        found[1]
        for order in orders
        if (found := _learned(specimen, lambda one, at=order: one[at])) is not None  # type: ignore[misc]
    ]
    if len(drawn) < 2:
        return
    chance, spread = statistics.fmean(drawn), statistics.stdev(drawn)
    gain = chance - tried[best][1]
    is_chance = mean > chance - max(0.25 * gain, 0.0)
    if is_chance and gain > max(FAR * spread, MARGIN * abs(first - chance)):
        yield Finding.suspicious(
            "targets",
            f"over {STEPS} steps the mean loss is {mean:.4g} with the targets as they are, {chance:.4g} ± {spread:.2g} "
            f"with targets of other rows drawn at random, and {tried[best][1]:.4g} with them {best}",
            f"the targets tell no more of their inputs than any others would, and those {best} do: they are out of "
            "line",
            "look where inputs and targets are sorted, shuffled, padded or cut apart from each other, and at an axis "
            "turned round in the loss",
            again=_again(best),
        )


def _learned(specimen: Specimen, move: Move) -> tuple[float, float] | None:
    """The first loss, and the mean of those of a few steps, with targets moved; None where one is no number.

    The mean, for in the end a small batch may be known by heart, whatever its targets.
    """
    run = overfit_run(replace(specimen, targets=map_tensors(move, specimen.targets)), RATE, STEPS, -math.inf)
    if run is None or len(run.losses) <= STEPS or not all(map(math.isfinite, run.losses)):
        return None
    return run.losses[0], statistics.fmean(run.losses[1:])


def _is_constant(targets: Tensor) -> bool:
    return bool((targets == targets[:1]).all())


def _again(best: str) -> str:
    move = {
        "moved down by a row": "y.roll(1, 0)",
        "moved up by a row": "y.roll(-1, 0)",
        "in the opposite order": "y.flip(0)",
    }[best]
    return (
        "import copy\n"
        f"for wanted in (y, {move}):\n"
        "    tried = copy.deepcopy(model)\n"
        f"    optimizer = torch.optim.Adam(tried.parameters(), lr={RATE})\n"
        "    values = []\n"
        f"    for _ in range({STEPS}):\n"
        "        optimizer.zero_grad()\n"
        "        value = loss(tried(x), wanted)\n"
        "        value.backward()\n"
        "        optimizer.step()\n"
        "        values.append(value.item())\n"
        "    print(sum(values) / len(values))"
    )


RULE = DoctorRule(
    name="misaligned-targets",
    proves="that the targets teach no more than those of other rows at random, and those of a neighbour do",
    how=f"trains copies for {STEPS} steps with the targets as they are, moved by a row, turned round, and drawn at "
    "random",
    check=check,
    cannot_see="targets that belong to rows farther off than the next, and batches in which nothing can be learned",
    needs=("targets", "loss"),
)
