"""How well a network fits, from the curves of train and dev, with what to try next.

    over-fit    it learned what only train has: dev rose from its best while train went on falling, or lies far above it
    under-fit   it could learn more: train is no better than dev, or counting is better than it, or dev was falling fast
    good fit    dev is at its best, and train a little below it

The lines between them are judgements; the numbers stand in every sentence.
"""

from collections.abc import Sequence

from pellucid.records import Ending, Evaluation, Verdict
from pellucid.training.stopping import UNRESTS, best, unrest

ROSE = 0.01  # nats of dev above its best at the end
FAR_BELOW = 0.2  # of dev: so much lower train is memory
NEARLY_SOLVED = 0.2  # of guessing
SOLVED = 0.05  # of guessing: less is left than is worth a word
NO_BETTER = 0.02  # nats between train and dev within which nothing was learned by heart
STILL_FALLING = 0.05  # nats of dev over the last tenth; the last of a decaying rate alone brings about 0.01 to 0.02


def verdict(
    evaluations: Sequence[Evaluation],
    ending: Ending,
    best_count_dev: float | None = None,
    guessing: float = 0.0,
    simple: str = "counting",
) -> Verdict:
    """best_count_dev: the loss on dev of the best model that only counts or is simple; None: there is none.

    guessing: the loss of guessing; where dev is far below it, a small distance to train is no memory.
    simple: what those models are called.

    >>> curve = [Evaluation(0, 3.3, 3.3), Evaluation(500, 2.0, 2.05), Evaluation(1000, 1.82, 1.90)]
    >>> verdict(curve, Ending("budget", 1000, 1000, ""), best_count_dev=1.98).name
    'good fit'
    """
    kept, last = best(evaluations), evaluations[-1]
    gap = kept.dev - kept.train
    at_best = f"at step {kept.step:,} dev is {kept.dev:.3f} and train {kept.train:.3f}"
    rose = last.dev - kept.dev
    if ending.reason == "over-fit" or (rose > _margin(evaluations) and last.train < kept.train):
        return Verdict(
            "over-fit",
            f"dev was lowest at step {kept.step:,} with {kept.dev:.3f} and then rose to {last.dev:.3f}, "
            f"while train fell from {kept.train:.3f} to {last.train:.3f}; the weights of the best step were kept",
            f"Train about {max(1, kept.step):,} steps, or give it more data, dropout or a smaller size",
        )
    far = FAR_BELOW * max(kept.dev, NEARLY_SOLVED * guessing)
    if gap > far:
        return Verdict(
            "over-fit",
            f"{at_best}: {gap:.3f} below, so much of train is known by heart",
            "Give it more data, dropout or a smaller size",
        )
    if kept.dev < SOLVED * guessing:
        return Verdict("good fit", f"{at_best}: next to nothing is left to learn", "Try it on something harder")
    fell = _fell_at_the_end(evaluations)
    if fell > STILL_FALLING:
        return Verdict(
            "under-fit",
            f"dev fell by {fell:.3f} over the last tenth of the run, to {last.dev:.3f}, and had not come to rest",
            "Train longer: --minutes or --steps",
        )
    if best_count_dev is not None and kept.dev > best_count_dev and gap < far / 2:
        return Verdict(
            "under-fit",
            f"{at_best}, where {simple} alone {'reaches' if simple == 'counting' else 'reach'} {best_count_dev:.3f}",
            f"Give it {'more context, ' * (simple == 'counting')}a larger size or more time; or search its rate with "
            "pellucid rate",
        )
    if gap < NO_BETTER:
        return Verdict(
            "under-fit",
            f"{at_best}, {abs(gap):.3f} apart: nothing was learned by heart, so there is room to learn more",
            "Choose a larger size or train longer",
        )
    return Verdict(
        "good fit",
        f"{at_best}, {gap:.3f} apart, and dev did not rise again",
        "For less, give it more data; a larger size with dropout may earn a little",
    )


def _margin(evaluations: Sequence[Evaluation]) -> float:
    """How much dev must have risen to mean something: more than its own unrest, once the first steep fall is over."""
    return max(ROSE, UNRESTS / 2 * unrest([one.dev for one in evaluations[len(evaluations) // 2 :]]))


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
