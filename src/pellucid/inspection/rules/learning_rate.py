"""The rate is tried out: real steps at the optimizer's own rate, and where these do not help, at others.

Too high is where the loss rises, and falls at a lower rate. Too low is where it hardly moves, and falls well at a
hundred times the rate. Sound is where it falls by a hundredth at least; between the two nothing is said. Nothing is
advised that was not tried: each finding says what every rate gave. Where no rate helps it is not the rate, and the
finding names what the gradient meets on its way. Schedules are looked at as they run: a rate that is gone within thirty
updates, or grows without bound, is held beside one that stays.
"""

import math

from pellucid.inspection.instrument.gradient_growth import gradient_growth
from pellucid.inspection.instrument.real_run import RealRun, real_run, trial_run
from pellucid.inspection.instrument.short_run import short_run
from pellucid.inspection.instrument.update_record import Settings
from pellucid.inspection.judgements import MOVES
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen

RISES = 0.1  # of the first loss
HARDLY = 1e-4  # of the first loss, all steps together
CLEARLY = 1e-2
LOWER, HIGHER = (0.1, 0.01, 0.001), (100.0, 1e4, 1e6)
GONE, GROWN = 0.01, 100.0  # times the largest, or the first rate
BETTER = 0.05  # of the first loss, by which a rate that is held has to be better
OTHERS = {"Adam at 0.001": Settings(optimizer="Adam", factor=0.1), "SGD at 0.01": Settings(optimizer="SGD")}


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if specimen.optimizer is not None and specimen.step is None:
        rates = [float(group["lr"]) for group in specimen.optimizer.param_groups if "lr" in group]
        if rates and not any(rates):
            yield _nothing(specimen)
            return
    if run is None or run.raised or not run.n_updates or not run.losses:
        return
    rate, first = _rate_of(run), run.ends()[0]
    if math.isnan(rate) or not math.isfinite(first) or abs(first) < 1e-8:
        return
    if found := list(_of_schedule(specimen, run)):
        yield from found
        return
    told = f"at a rate of {rate:.2g} {_told(run)} in {run.n_steps} real steps{_growth_words(specimen, run)}"
    if _rises(run) or _rose(run):
        yield from _too_high(specimen, run, told, rate)
    elif _hardly_moves(run):
        yield from _too_low(specimen, run, told, rate)
    elif run.fall() > CLEARLY:
        yield Finding.sound("the optimizer", told, "the rate is neither far too high nor far too low for these steps")


def _growth_words(specimen: Specimen, run: RealRun) -> str:
    """The weight that grew past all measure before the loss was no number, as far as a copy shows it."""
    if all(map(math.isfinite, run.losses)) or specimen.optimizer is None:
        return ""
    copied = short_run(specimen, steps=5)
    return f" ({copied.growth.description})" if copied is not None and copied.growth is not None else ""


def _rate_of(run: RealRun) -> float:
    return max([rate for rate in run.updates[0].rates if not math.isnan(rate)], default=math.nan)


def _told(run: RealRun, steps: int | None = None) -> str:
    """Where the loss went, with the places where it was no number."""
    first, last = run.ends(steps)
    broke = next((step for step, loss in enumerate(run.losses, start=1) if not math.isfinite(loss)), 0)
    return f"the loss is no number at step {broke}" if broke else f"the loss goes from {first:.4g} to {last:.4g}"


def _rises(run: RealRun) -> bool:
    """Whether it ends well above where it began."""
    first, last = run.ends()
    far = max(RISES, 3 * run.noise) * abs(first)
    if not all(map(math.isfinite, run.losses)):
        return True
    return last > first + far and (run.period > 1 or min(run.losses[-2:]) > first + far)


def _rose(run: RealRun) -> bool:
    """Whether the first steps led up, and only what came later led down again."""
    early = run.losses[4:6]
    return not run.noise and bool(early) and min(early) > run.ends()[0] + RISES * abs(run.ends()[0])


def _hardly_moves(run: RealRun) -> bool:
    if not run.noise:
        return run.fall() < HARDLY
    # Steps that draw their batches hide a slow fall in noise; then the weights have to stand nearly still, too.
    middle = [sorted(each)[len(each) // 2] for each in run.ratios.values() if each]
    return run.fall() < 2 * run.noise and bool(middle) and max(middle) < MOVES[0]


def _too_high(specimen: Specimen, run: RealRun, told: str, rate: float) -> Findings:
    tried = {factor: trial_run(specimen, Settings(factor=factor)) for factor in LOWER}
    made = {factor: one for factor, one in tried.items() if one is not None and one.losses}
    if not made:
        return
    gave = "; ".join(f"at {rate * factor:.2g} {_told(one)}" for factor, one in made.items())
    helped = {factor: one for factor, one in made.items() if one.fall() > 2 * one.noise and not _rises(one)}
    if helped:
        best = max(helped, key=lambda factor: helped[factor].fall())
        # It recovered by itself: then a lower rate must have been better, or nothing is wrong with it.
        if not _rises(run) and not helped[best].fall() > run.fall():
            return
        yield Finding.suspicious(
            "the optimizer",
            f"{told}; tried: {gave}",
            "each step goes past the lowest point, and lands higher up",
            f"lower the rate to {rate * best:.2g}: there the loss fell by {helped[best].fall():.0%}",
        )
        return
    if not _rises(run):
        return
    if _rises_everywhere(specimen):
        groups = specimen.optimizer.param_groups if specimen.optimizer is not None else []
        maximizes = any(group.get("maximize", False) for group in groups)
        seen = f"{told}; tried: {gave}; at a millionth of it the loss rises, too: maximize is {maximizes}"
        means, fix = "steps of any size lead uphill", "minimise the loss: maximize=False, and the loss's sign as it is"
        yield Finding.suspicious("the optimizer", seen, means, fix)
        return
    grown = gradient_growth(specimen)
    place = f"; {grown.description}" if grown is not None else ""
    yield Finding.suspicious(
        grown.path if grown is not None else "the optimizer",
        f"{told}; tried: {gave}{place}",
        "no lower rate helps, so that it is not the rate",
        "tame what grows there: smaller first weights, a norm, or clipping"
        if grown is not None
        else "look at the loss",
    )


def _rises_everywhere(specimen: Specimen) -> bool:
    """Whether the smallest step that can be seen leads up."""
    runs = [trial_run(specimen, Settings(factor=factor)) for factor in (1e-6, 1e-3)]
    rises = [math.nan if one is None else -one.fall() for one in runs]
    return all(rise >= 0 for rise in rises) and any(rise > 0 for rise in rises)


def _too_low(specimen: Specimen, run: RealRun, told: str, rate: float) -> Findings:
    gave = []
    for factor in HIGHER:
        faster = trial_run(specimen, Settings(factor=factor))
        if faster is None or not faster.losses:
            return
        gave.append(f"at {rate * factor:.2g} {_told(faster)}")
        if faster.fall() > max(CLEARLY, 4 * run.noise):
            yield Finding.suspicious(
                "the optimizer",
                f"{told}; tried: {'; '.join(gave)}",
                "at this pace it would need thousands of steps to learn anything",
                f"raise the rate towards {rate * factor / 10:.2g}, or look for what makes its steps so small",
            )
            return
        if _rises(faster):
            break
    # With weights that move and a loss that stays, it may be the optimizer's other settings.
    for name, settings in OTHERS.items():
        other = trial_run(specimen, settings)
        if other is not None and other.fall() > 10 * CLEARLY and max(run.moved.values(), default=0.0) > 0:
            yield Finding.suspicious(
                "the optimizer",
                f"{told}; tried: {'; '.join(gave)}; with {name} {_told(other)}",
                "no rate of this optimizer helps, and another optimizer does",
                f"use {name}, or look at the other settings of this one (eps, betas, momentum)",
            )
            return


def _of_schedule(specimen: Specimen, run: RealRun) -> Findings:
    """A rate that is planned so that it is gone, or grows without bound, within these few updates."""
    for place in range(len(run.updates[0].rates)):
        rates = [one.rates[place] for one in run.updates if one.optimizer == 0 and len(one.rates) > place]
        peak = max(range(len(rates)), key=lambda step: rates[step])
        falls = all(after <= before for before, after in zip(rates[peak:], rates[peak + 1 :], strict=False))
        if rates[peak] > 0 and falls and rates[-1] < GONE * rates[peak]:
            yield from _held(specimen, run, rates, "largest")
        elif rates[0] > 0 and rates[-1] > GROWN * rates[0] and peak == len(rates) - 1:
            yield from _held(specimen, run, rates, "first")


def _held(specimen: Specimen, run: RealRun, rates: list[float], which: str) -> Findings:
    held = trial_run(specimen, Settings(holds_rates=which))
    if held is None or not held.losses:
        return
    n_steps = min(held.n_steps, run.n_steps)
    if not held.fall(n_steps) > (run.fall(n_steps) if math.isfinite(run.fall(n_steps)) else 0.0) + BETTER:
        return
    way = "falls" if which == "largest" else "grows"
    peak = max(rates) if which == "largest" else rates[0]
    yield Finding.suspicious(
        "the schedule",
        f"within {len(rates)} updates the rate {way} from {peak:.2g} to {rates[-1]:.2g}: {_told(run, n_steps)}; held "
        f"at {peak:.2g} {_told(held, n_steps)}",
        "the schedule is over before anything is learned" if which == "largest" else "the rate grows without bound",
        "step the scheduler once an epoch, or give it the number of all batches as its length",
        again="for _ in range(30): step(); print([group['lr'] for group in optimizer.param_groups])",
    )


def _nothing(specimen: Specimen) -> Finding:
    assert specimen.optimizer is not None
    aims = [group["initial_lr"] for group in specimen.optimizer.param_groups if group.get("initial_lr", 0.0) > 0]
    seen = "the rate is 0" + (f" now, and {max(aims):.2g} is aimed at" if aims else " in every group")
    means = "this step moves nothing" if aims else "nothing is ever moved"
    fix = "begin the warm-up above 0" if aims else "set lr, for Adam to 1e-3 or 3e-4"
    severity = "note" if aims else "suspicious"
    return Finding(severity, "the optimizer", seen, means, fix, again="optimizer.param_groups[0]['lr']")


RULE = DoctorRule(
    name="learning-rate",
    proves="that the rate, or its schedule, is wrong for these steps by orders of magnitude",
    how="makes 30 real steps in a forked process; where the loss rises or stays, again at other rates and optimizers",
    check=check,
    cannot_see="rates that are off by less than an order of magnitude, and later in training",
    again="for _ in range(30): optimizer.zero_grad(); l = loss(model(x), y); l.backward(); optimizer.step(); print(l)",
    follows=ANY,
)
