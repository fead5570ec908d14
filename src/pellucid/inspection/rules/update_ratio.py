"""How far one step moves a matrix, by its own size: about a thousandth is usual.

More than its own size forgets everything; a millionth changes nothing. By the farthest of a few steps on a copy: behind
a branch that begins at zero nothing moves in the first one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from pellucid.inspection.instrument.short_run import short_run
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.judgements import MOVES
from pellucid.inspection.rules import Rule
from pellucid.records import Finding

STEPS = 3
WILDLY = 1.0  # the whole of its own size in one step
HARDLY = 1e-5  # where even the matrix that moves most moves no farther
_AGAIN = "before = p.detach().clone(); optimizer.step(); print((p - before).std() / before.std())"


def check(specimen: Specimen) -> Iterator[Finding]:
    tried = short_run(specimen, steps=STEPS)
    if tried is None:
        return
    ratios = {path: max(each) for path, each in tried.updates.items() if any(each) and all(map(math.isfinite, each))}
    if not ratios:
        return  # what is not moved at all has rules of its own
    most, least = max(ratios, key=lambda path: ratios[path]), min(ratios, key=lambda path: ratios[path])
    middle = statistics.median(ratios.values())
    if ratios[most] > MOVES[1]:
        severity = "suspicious" if ratios[most] > WILDLY else "note"
        means = "it forgets much of itself in every step"
        yield _finding(severity, most, ratios[most], middle, means, "lower the rate, or draw the first weights larger")
    if ratios[least] < MOVES[0]:
        severity = "suspicious" if ratios[most] < HARDLY else "note"
        means = "it would need thousands of steps to change"
        yield _finding(severity, least, ratios[least], middle, means, "raise the rate, or look for what holds it back")
    if MOVES[0] <= ratios[least] and ratios[most] <= MOVES[1]:
        seen = f"updates are {ratios[least]:.1e} ({least}) to {ratios[most]:.1e} ({most}) of the matrices' own size"
        yield Finding.sound("all matrices", seen, "each moves at a usual pace", again=_AGAIN)


def _finding(severity: str, path: str, ratio: float, middle: float, means: str, fix: str) -> Finding:
    seen = f"a step moves it by {ratio:.1e} of its own size, the middle of all matrices by {middle:.1e}; 1e-3 is usual"
    return Finding(severity, path, seen, means, fix, again=_AGAIN)


RULE = Rule(
    name="update-ratio",
    proves="that a step changes a matrix by more than its own size, or by next to nothing",
    how=f"takes {STEPS} steps on a copy and measures each update beside the matrix",
    check=check,
    needs=("targets", "loss", "optimizer"),
)
