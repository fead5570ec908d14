"""When a run should end: at its budget, on a plateau, or when it over-fits.

A pure function of what the log holds, so that a resumed run ends where the uninterrupted one does.

A plateau is told by looking ahead. As long as the rate will still fall, a flat stretch may be the unrest of the high
rate, and the best is yet to come: so the fall of the loss over the last evaluations is drawn on to the end of the plan,
at the upper end of what their scatter allows, and twice over. If even that would earn next to nothing, on train as on
dev, the rest is spared. Before half of the plan nothing is called a plateau: networks stand still before they find
something. In its last tenth nothing is spared any more: there is little left to spare.
"""

import math
from collections.abc import Sequence

from pellucid.records import Ending, Evaluation, Plan
from pellucid.training.schedule import rate_factor

WORTH_IT = 0.003  # nats; less than two seeds of one network differ by
FEWEST = 8  # evaluations before a plateau can be told
BENDS = 2.0  # a loss may fall this much faster than it did: it bends down while the rate goes to 0
NEARLY_DONE = 0.9  # of the plan
RISEN = 0.02  # nats above the best, and
UNRESTS = 4.0  # deviations of the evaluations' own scatter, until
IN_A_ROW = 4  # evaluations were so, while train fell: over-fit


def ending_of(evaluations: Sequence[Evaluation], plan: Plan) -> Ending | None:
    """Why the run ends after these evaluations, or None: go on.

    >>> plan = Plan(10, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1)
    >>> ending_of([Evaluation(0, 3.3, 3.3), Evaluation(5, 2.5, 2.5)], plan)
    >>> ending_of([Evaluation(0, 3.3, 3.3), Evaluation(5, 2.5, 2.5), Evaluation(10, 2.2, 2.3)], plan).reason
    'budget'
    """
    if not evaluations:
        return None
    last, kept = evaluations[-1], best(evaluations)
    if last.step >= plan.steps:
        return Ending("budget", last.step, kept.step, f"All {plan.steps:,} steps of the plan are done.")
    seen = [one for one in evaluations if one.step > plan.warm_up]
    if last.step > NEARLY_DONE * plan.steps or not seen:
        return None
    if not all(math.isfinite(one.dev) and math.isfinite(one.train) for one in seen):
        return None
    if plan.decay == "step" and _factor(last.step, plan) != _factor(plan.steps, plan):
        return None  # the loss falls by a leap where the rate does, and nothing before tells how deep
    if _over_fits(seen):
        says = (
            f"dev rose to {last.dev:.4f} from its best, {kept.dev:.4f} at step {kept.step:,}, "
            f"while train fell from {kept.train:.4f} to {last.train:.4f}"
        )
        return Ending("over-fit", last.step, kept.step, f"It over-fits: {says}.")
    gain = gain_ahead(seen, plan)
    if gain is not None and gain < WORTH_IT:
        says = f"dev has stood at {last.dev:.4f}; the {plan.steps - last.step:,} steps left"
        ahead = f"would earn at most {gain:.4f} nats" if gain > 0 else "would earn nothing"
        return Ending("plateau", last.step, kept.step, f"A plateau: {says} {ahead} at the pace seen.")
    return None


def _factor(step: int, plan: Plan) -> float:
    return rate_factor(step, plan.steps, plan.warm_up, plan.decay)


def best(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The one with the least loss on dev; of equals the first.

    >>> best([Evaluation(0, 3.0, 3.0), Evaluation(5, 1.0, 2.0), Evaluation(10, 0.5, 2.0)]).step
    5
    """
    return min(evaluations, key=lambda one: one.dev)


def gain_ahead(evaluations: Sequence[Evaluation], plan: Plan) -> float | None:
    """The most that train or dev may still fall by to the end of the plan; None where that cannot be told yet.

    >>> plan = Plan(20, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "constant", 1, 1, 1, 1, 1, 1)
    >>> falling = [Evaluation(step, 3.0, 3.0 - 0.01 * step) for step in range(1, 17)]
    >>> round(gain_ahead(falling, plan), 4)  # 0.01 for each of 4 steps, twice over
    0.08
    """
    recent = evaluations[len(evaluations) // 2 :]
    if len(recent) < FEWEST or recent[-1].step < plan.steps / 2:
        return None
    steps, left = [one.step for one in recent], plan.steps - recent[-1].step
    # While train falls the network still learns, whatever dev says; a lower rate may yet make it count.
    return BENDS * left * max(_fall(steps, [one.dev for one in recent]), _fall(steps, [one.train for one in recent]))


def _fall(steps: Sequence[int], losses: Sequence[float]) -> float:
    """How fast the losses fall with the steps, by least squares and two standard errors more; never below 0."""
    middle, mean = sum(steps) / len(steps), sum(losses) / len(losses)
    spread = sum((step - middle) ** 2 for step in steps)
    slope = sum((step - middle) * (loss - mean) for step, loss in zip(steps, losses, strict=True)) / spread
    rest = sum((loss - mean - slope * (step - middle)) ** 2 for step, loss in zip(steps, losses, strict=True))
    return max(0.0, 2 * math.sqrt(rest / (len(steps) - 2) / spread) - slope)


def _over_fits(evaluations: Sequence[Evaluation]) -> bool:
    """Whether dev left its best behind and stayed away, by more than its own unrest, while train went on falling."""
    kept = best(evaluations)
    after = [one for one in evaluations if one.step > kept.step][-IN_A_ROW:]
    margin = max(RISEN, UNRESTS * unrest([one.dev for one in evaluations]))
    is_away = len(after) == IN_A_ROW and all(one.dev > kept.dev + margin for one in after)
    return is_away and after[-1].train < kept.train


def unrest(losses: Sequence[float]) -> float:
    """The deviation of the losses around their own course, by the second differences of the last of them.

    A straight or gently bent course has none, and of noise with deviation σ they have √6 σ.

    >>> unrest([3.0, 2.0, 1.0, 0.0])
    0.0
    """
    recent = losses[-16:]
    bends = sorted(abs(a - 2 * b + c) for a, b, c in zip(recent, recent[1:], recent[2:], strict=False))
    # The median, which a single leap does not move; of normal noise it is 0.6745 deviations.
    return bends[len(bends) // 2] / 0.6745 / math.sqrt(6) if bends else 0.0
