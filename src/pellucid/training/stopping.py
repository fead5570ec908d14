"""When a run should end: at its budget, on a plateau, or when it over-fits.

A pure function of what the log holds, so that a resumed run ends where the uninterrupted one does.

A plateau is told by looking ahead. As long as the rate will still fall, a flat stretch may be the noise of the high
rate, and the best is yet to come: so the fall of the loss over the last evaluations is drawn on to the end of the plan,
at the upper end of what their scatter allows, and twice over. If even that would earn next to nothing, on train as on
dev, the rest is spared. Before half of the plan nothing is called a plateau: networks stand still before they find
something. In its last tenth nothing is spared any more: there is little left to spare.

At the end the same curves tell how well the network fits:

    over-fit    it learned what only train has: dev rose from its best while train went on falling, or lies far above it
    under-fit   it could learn more: train is no better than dev, or counting is better than it, or dev was falling fast
    good fit    dev is at its best, and train a little below it
    not known   nothing was held out, so that there is no dev

The lines between them are judgements; the numbers stand in every sentence that is made of them.
"""

import math
from collections.abc import Sequence

from pellucid.records import Ending, Evaluation, Ladder, Plan, Rung, Verdict
from pellucid.training.optimizers import planned_rate_factor

WORTH_IT = 0.003  # nats; less than two seeds of one network differ by. Of a loss below 1, this share of it
FEWEST = 8  # evaluations before a plateau can be told
BENDS = 2.0  # a loss may fall this much faster than it did: it bends down while the rate goes to 0
NEARLY_DONE = 0.9  # of the plan
RISEN = 0.02  # nats above the best, and
NOISES = 4.0  # deviations of the evaluations' own scatter, until
IN_A_ROW = 4  # evaluations were so, while train fell: over-fit

ROSE = 0.01  # for the verdict: nats of dev above its best at the end
FAR_BELOW = 0.2  # of dev: so much lower train is memory
NEARLY_SOLVED = 0.2  # of guessing
SOLVED = 0.05  # of guessing: less is left than is worth a word
NO_BETTER = 0.02  # nats between train and dev within which nothing was learned by heart
STILL_FALLING = 0.05  # nats of dev over the last tenth; the last of a decaying rate alone brings about 0.01 to 0.02


def check_ending(evaluations: Sequence[Evaluation], plan: Plan) -> Ending | None:
    """Why the run ends after these evaluations, or None: go on.

    >>> plan = Plan(10, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1)
    >>> check_ending([Evaluation(0, 3.3, 3.3), Evaluation(5, 2.5, 2.5)], plan)
    >>> check_ending([Evaluation(0, 3.3, 3.3), Evaluation(5, 2.5, 2.5), Evaluation(10, 2.2, 2.3)], plan).reason
    'budget'
    """
    if not evaluations:
        return None
    last, kept = evaluations[-1], best_evaluation(evaluations)
    if last.step >= plan.steps:
        return Ending("budget", last.step, kept.step)
    seen = [one for one in evaluations if one.step > plan.warmup]
    if last.step > NEARLY_DONE * plan.steps or not seen:
        return None
    if not all(math.isfinite(one.judged) and math.isfinite(one.train) for one in seen):
        return None
    if plan.schedule == "step" and planned_rate_factor(plan, last.step) != planned_rate_factor(plan, plan.steps):
        return None  # the loss falls by a leap where the rate does, and nothing before tells how deep
    if _over_fits(seen):
        return Ending("over-fit", last.step, kept.step)
    gain = gain_ahead(seen, plan)
    if gain is not None and gain < WORTH_IT * min(1.0, abs(last.judged)):
        return Ending("plateau", last.step, kept.step, gain)
    return None


def best_evaluation(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The one with the least loss on dev, or on train where nothing was held out; of equals the first.

    >>> best_evaluation([Evaluation(0, 3.0, 3.0), Evaluation(5, 1.0, 2.0), Evaluation(10, 0.5, 2.0)]).step
    5
    """
    return min(evaluations, key=lambda one: one.judged)


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
    judged, train = [one.judged for one in recent], [one.train for one in recent]
    return BENDS * left * max(_fall(steps, judged), _fall(steps, train))


def _fall(steps: Sequence[int], losses: Sequence[float]) -> float:
    """How fast the losses fall with the steps, by least squares and two standard errors more; never below 0."""
    middle, mean = sum(steps) / len(steps), sum(losses) / len(losses)
    spread = sum((step - middle) ** 2 for step in steps)
    slope = sum((step - middle) * (loss - mean) for step, loss in zip(steps, losses, strict=True)) / spread
    rest = sum((loss - mean - slope * (step - middle)) ** 2 for step, loss in zip(steps, losses, strict=True))
    return max(0.0, 2 * math.sqrt(rest / (len(steps) - 2) / spread) - slope)


def _over_fits(evaluations: Sequence[Evaluation]) -> bool:
    """Whether dev left its best behind and stayed away, by more than its own noise, while train went on falling."""
    kept = best_evaluation(evaluations)
    after = [one for one in evaluations if one.step > kept.step][-IN_A_ROW:]
    margin = max(RISEN, NOISES * loss_noise([one.dev for one in evaluations]))
    is_away = len(after) == IN_A_ROW and all(one.dev > kept.dev + margin for one in after)
    return is_away and after[-1].train < kept.train


def loss_noise(losses: Sequence[float]) -> float:
    """The deviation of the losses around their own course, by the second differences of the last of them.

    A straight or gently bent course has none, and of noise with deviation σ they have √6 σ.

    >>> loss_noise([3.0, 2.0, 1.0, 0.0])
    0.0
    """
    recent = losses[-16:]
    bends = sorted(abs(a - 2 * b + c) for a, b, c in zip(recent, recent[1:], recent[2:], strict=False))
    # The median, which a single leap does not move; of normal noise it is 0.6745 deviations.
    return bends[len(bends) // 2] / 0.6745 / math.sqrt(6) if bends else 0.0


def judge_fit(
    evaluations: Sequence[Evaluation],
    ending: Ending,
    best_count_dev: float | None = None,
    guessing: float = 0.0,
    *,
    whole: Evaluation | None = None,
    is_behind: bool = False,
    says_one_thing: bool = False,
    is_all_right: bool = False,
    harder: float = 0.0,
    random_loss: float | None = None,
) -> Verdict:
    """best_count_dev: the loss on dev of the best model that only counts or is simple; None: there is none.

    guessing: the loss of guessing; where dev is far below it, a small distance to train is no memory. whole: the best
    evaluation on more of both sides than those on the way, which tell where the curve went. is_behind: by what the
    models are judged by. says_one_thing: whatever it reads. is_all_right: every answer on dev. harder: by
    how much dev costs the simplest model more than train, so that as much of the distance is no memory either.
    random_loss: on dev, of what was drawn at random, where that is known: who has learned the rest has about that.

    >>> curve = [Evaluation(0, 3.3, 3.3), Evaluation(500, 2.0, 2.05), Evaluation(1000, 1.82, 1.90)]
    >>> judge_fit(curve, Ending("budget", 1000, 1000), best_count_dev=1.98).name
    'good fit'
    """
    kept, last = best_evaluation(evaluations), evaluations[-1]
    rose = last.dev - kept.dev
    if kept.step == 0 and last.step:
        return Verdict("over-fit" if last.train < kept.train - ROSE else "under-fit", "nothing learned")
    if says_one_thing:
        return Verdict("under-fit", "same answer")
    if math.isnan(kept.dev):
        return Verdict("not known", "nothing held out")
    if ending.reason == "over-fit" or (rose > _margin(evaluations) and last.train < kept.train):
        return Verdict("over-fit", "dev rose")
    kept = whole or kept
    gap = kept.dev - kept.train
    far = FAR_BELOW * max(kept.dev, NEARLY_SOLVED * guessing)
    if gap - harder > far:
        return Verdict("over-fit", "by heart")
    if kept.dev < SOLVED * guessing and not is_behind:
        return Verdict("good fit", "solved")
    if random_loss is not None and kept.dev < random_loss + NO_BETTER:
        return Verdict("good fit", "rest is random", random_loss=random_loss)
    if is_all_right:
        return Verdict("good fit", "all right")
    fell = _fell_at_the_end(evaluations)
    if fell > STILL_FALLING:
        return Verdict("under-fit", "still falling", fell)
    if is_behind or (best_count_dev is not None and kept.dev > best_count_dev):
        return Verdict("under-fit", "behind simple models")
    if gap < NO_BETTER:
        return Verdict("under-fit", "nothing by heart")
    return Verdict("good fit", "at rest", harder=harder if gap > far else 0.0)


def is_behind(ladder: Ladder, rung: Rung) -> bool:
    """Whether it is behind the best simple model by the metric, beyond chance where that is known."""
    gain = rung.gain("dev")
    if not ladder.measure.metric:
        return False  # then the loss says it
    return gain.verdict == "behind" if gain is not None and math.isfinite(gain.low) else ladder.gap(rung) < 0


def harder_dev(rungs: Sequence[Rung]) -> float:
    """By how much dev costs the simplest model more than train: one that keeps so little that it knows none by heart.

    Guessing costs the same everywhere, and so tells nothing.
    """
    telling = [one for one in rungs if math.isfinite(one.train) and math.isfinite(one.dev) and one.train != one.dev]
    simplest = min(telling, key=lambda one: one.parameters, default=None)
    return max(0.0, simplest.dev - simplest.train) if simplest else 0.0


def _margin(evaluations: Sequence[Evaluation]) -> float:
    """How much dev must have risen to mean something: more than its own noise, once the first steep fall is over."""
    return max(ROSE, NOISES / 2 * loss_noise([one.dev for one in evaluations[len(evaluations) // 2 :]]))


def _fell_at_the_end(evaluations: Sequence[Evaluation]) -> float:
    """By how much dev fell over the last tenth of the steps, by the evaluation nearest before it.

    >>> curve = [Evaluation(step, 3.0, 3.0 - step / 100) for step in range(0, 101, 5)]
    >>> round(_fell_at_the_end(curve), 3)
    0.1
    """
    last = evaluations[-1]
    before = [one for one in evaluations if one.step <= 0.9 * last.step]
    if not before or before[-1].step == 0:
        return 0.0  # a single evaluation tells nothing of where the curve was going
    share = (last.step - before[-1].step) / (0.1 * last.step)
    return (before[-1].dev - last.dev) / share
