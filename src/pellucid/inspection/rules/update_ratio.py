"""How far one step moves a matrix, by its own size: about a thousandth is usual.

More than its own size forgets everything; a millionth changes nothing. By the farthest of a few steps on a copy: behind
a branch that begins at zero nothing moves in the first one.
"""

import math

from pellucid.inspection.instrument.short_run import short_run
from pellucid.inspection.judgements import judge_updates
from pellucid.inspection.rules import ANY, DoctorRule, Findings, Specimen

STEPS = 3


def check(specimen: Specimen) -> Findings:
    tried = short_run(specimen, steps=STEPS)
    if tried is None or not all(map(math.isfinite, tried.losses)):
        return
    ratios = {path: max(each) for path, each in tried.updates.items() if any(each) and all(map(math.isfinite, each))}
    # What is not moved at all has rules of its own.
    yield from judge_updates(ratios) if ratios else []


RULE = DoctorRule(
    name="update-ratio",
    proves="that a step changes a matrix by more than its own size, or by next to nothing",
    how=f"takes {STEPS} steps on a copy and measures each update beside the matrix",
    check=check,
    cannot_see="how far steps go later in training",
    again="before = p.detach().clone(); optimizer.step(); print((p - before).std() / before.std())",
    needs=("targets", "loss", "optimizer"),
    follows=ANY,
)
