"""The rate is tried out: a few steps on a copy, at the optimizer's own rate, a tenth of it, and more.

Too high is where the loss rises, and falls at a tenth of the rate. Too low is where it hardly moves, and falls well at
a hundred times the rate. Between lie orders of magnitude, in which nothing is proven by five steps.
"""

import math

from pellucid.inspection.instrument.short_run import ShortRun, short_run
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen

STEPS = 5
RISES = 1.1  # times the first loss, at the end
HARDLY = 1e-4  # of the first loss, all steps together
CLEARLY = 1e-2


def check(specimen: Specimen) -> Findings:
    assert specimen.optimizer is not None
    rates = [float(group["lr"]) for group in specimen.optimizer.param_groups if "lr" in group]
    if not rates:
        return
    if not any(rates):
        yield _nothing(specimen)
        return
    now = short_run(specimen, steps=STEPS)
    if now is None or not math.isfinite(now.losses[0]) or abs(now.losses[0]) < 1e-8:
        return
    ends = f"from {now.losses[0]:.4g} to {now.losses[-1]:.4g}"
    n_made = len(now.losses) - 1
    told = f"at a rate of {max(rates):.2g} the loss goes {ends} in {n_made} step{'s' * (n_made != 1)}"
    told += f" ({now.growth.description})" if now.growth is not None else ""
    if _rises(now):
        yield from _too_high(specimen, told, max(rates))
    elif _fall(now) < HARDLY:
        yield from _too_low(specimen, told, max(rates))
    else:
        yield Finding.sound("the optimizer", told, "the rate is neither far too high nor far too low for this batch")


def _too_high(specimen: Specimen, told: str, rate: float) -> Findings:
    slower = short_run(specimen, factor=0.1, steps=STEPS)
    if slower is None or specimen.optimizer is None:
        return
    ends = f"{told}; at a tenth of it to {slower.losses[-1]:.4g}"
    if slower.losses[-1] < slower.losses[0]:
        means, fix = "each step goes past the lowest point, and lands higher up", f"lower the rate to {rate / 10:.2g}"
    elif _rises_everywhere(specimen):
        maximizes = any(group.get("maximize", False) for group in specimen.optimizer.param_groups)
        ends += f", and at a millionth of it the loss rises, too: maximize is {maximizes}"
        means, fix = "steps of any size lead uphill", "minimise the loss: maximize=False, and the loss's sign as it is"
    else:
        means, fix = "even a tenth of the rate goes past the lowest point", f"lower the rate to {rate / 100:.2g}"
    yield Finding.suspicious("the optimizer", ends, means, fix)


def _rises_everywhere(specimen: Specimen) -> bool:
    """Whether the smallest step that can be seen leads up."""
    runs = [short_run(specimen, factor=factor, steps=STEPS) for factor in (1e-6, 1e-3)]
    rises = [math.nan if one is None else one.losses[-1] - one.losses[0] for one in runs]
    return all(rise >= 0 for rise in rises) and any(rise > 0 for rise in rises)


def _too_low(specimen: Specimen, told: str, rate: float) -> Findings:
    for factor in (100.0, 1e4, 1e6):
        faster = short_run(specimen, factor=factor, steps=STEPS)
        if faster is None or _rises(faster):
            return
        if _fall(faster) > CLEARLY:
            yield Finding.suspicious(
                "the optimizer",
                f"{told}; at {factor:g} times the rate to {faster.losses[-1]:.4g}",
                "at this pace it would need thousands of steps to learn anything",
                f"raise the rate, towards {rate * factor / 10:.2g}",
            )
            return


def _nothing(specimen: Specimen) -> Finding:
    assert specimen.optimizer is not None
    aims = [group["initial_lr"] for group in specimen.optimizer.param_groups if group.get("initial_lr", 0.0) > 0]
    seen = "the rate is 0" + (f" now, and {max(aims):.2g} is aimed at" if aims else " in every group")
    means = "this step moves nothing" if aims else "nothing is ever moved"
    fix = "begin the warm-up above 0" if aims else "set lr, for Adam to 1e-3 or 3e-4"
    severity = "note" if aims else "suspicious"
    return Finding(severity, "the optimizer", seen, means, fix, again="optimizer.param_groups[0]['lr']")


def _rises(one: ShortRun) -> bool:
    """Whether it ends well above where it began, and did not only jump once."""
    first = one.losses[0]
    far = abs(first) * (RISES - 1)
    return not all(map(math.isfinite, one.losses)) or all(loss > first + far for loss in one.losses[-2:])


def _fall(one: ShortRun) -> float:
    return (one.losses[0] - one.losses[-1]) / abs(one.losses[0])


RULE = DoctorRule(
    name="learning-rate",
    proves="that the rate is too high or too low for this batch by orders of magnitude",
    how=f"takes {STEPS} steps on copies, with the optimizer's own settings and state, at several times the rate",
    check=check,
    cannot_see="rates that are too high or too low by less than an order of magnitude, and later in training",
    again="loss(model(*inputs), targets) before and after loss.backward(); optimizer.step(), five times on one batch",
    needs=("targets", "loss", "optimizer"),
    follows=ANY,
)
