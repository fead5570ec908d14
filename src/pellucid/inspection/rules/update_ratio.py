"""How far one step moves a matrix, by its own size: about a thousandth is usual.

More than its own size forgets everything; a millionth changes nothing. By the farthest of real steps: behind a branch
that begins at zero nothing moves in the first one. What looks too far or too short is tried at another rate, and is
only called suspicious where that learns better. So are groups of weights whose rate is orders below that of others.
"""

import math
import statistics

from pellucid.inspection.instrument.real_run import RealRun, real_run, trial_run
from pellucid.inspection.instrument.recording import first_few
from pellucid.inspection.instrument.update_record import Settings
from pellucid.inspection.judgements import FAR_OFF, MOVES, judge_updates
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen

STARVES = 1e-3  # of the rate of another group
CUT = 0.01  # of a gradient, that is left of it
BETTER = 0.01  # of the first loss


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is None or run.raised or not all(map(math.isfinite, run.losses)):
        return
    ratios = {path: max(each) for path, each in run.ratios.items() if any(each) and all(map(math.isfinite, each))}
    if not ratios:
        return  # what is not moved at all has rules of its own
    starving = [*_starving(specimen, run), *_cut_down(specimen, run)]
    yield from starving
    most = max(ratios.values())
    factor = 0.1 if most > FAR_OFF[1] else 100.0 if most < FAR_OFF[0] else 1.0
    for found in judge_updates(ratios):
        if found.severity == "sound" and starving:
            continue
        yield _confirmed(specimen, run, found, factor) if found.severity == "suspicious" else found


def _confirmed(specimen: Specimen, run: RealRun, found: Finding, factor: float) -> Finding:
    """The finding with what another rate gave; a note where that learns no better."""
    other = trial_run(specimen, Settings(factor=factor))
    if other is None or not other.losses:
        return found._replace(severity="note")
    n_steps = min(run.n_steps, other.n_steps)
    ends = f"after {n_steps} steps the loss is {run.ends(n_steps)[1]:.4g}, at {factor:g} times the rate "
    helps = other.fall(n_steps) > run.fall(n_steps) + max(BETTER, 2 * run.noise)
    return found._replace(
        seen=f"{found.seen}; {ends}{other.ends(n_steps)[1]:.4g}",
        severity="suspicious" if helps else "note",
        means=found.means if helps else f"{found.means}, and another rate learns no better in these steps",
    )


def _starving(specimen: Specimen, run: RealRun) -> Findings:
    """Groups whose rate is so far below another's that their weights hardly move."""
    rates: dict[str, float] = {}
    for update in run.updates:
        for place, rate in enumerate(update.rates):
            name = f"{update.optimizer}.{place}"
            rates[name] = max(rates.get(name, 0.0), rate)
    largest = max(rates.values(), default=0.0)
    for name, rate in rates.items():
        inside = [path for path in run.groups[name] if run.ratios[path]]
        pace = max([statistics.median(run.ratios[path]) for path in inside], default=math.nan)
        if not 0 < rate < STARVES * largest or not pace < MOVES[0] / 10:
            continue
        even = trial_run(specimen, Settings(evens_rates=True))
        if even is None or not even.losses:
            continue
        n_steps = min(run.n_steps, even.n_steps)
        helps = even.fall(n_steps) > run.fall(n_steps) + max(BETTER, 2 * run.noise)
        yield Finding(
            "suspicious" if helps else "note",
            inside[0],
            f"a group of {len(run.groups[name])} parameters ({first_few(inside)}) has a rate of {rate:.2g}, another "
            f"{largest:.2g}: its matrices move by at most {pace:.1e} of their size a step; after {n_steps} steps the "
            f"loss is {run.ends(n_steps)[1]:.4g}, and {even.ends(n_steps)[1]:.4g} with {largest:.2g} for all",
            "this part hardly learns while the rest does"
            if helps
            else "this part hardly moves, and costs nothing here",
            "give this group a rate nearer to the others'",
            again="print([(group['lr'], len(group['params'])) for group in optimizer.param_groups])",
        )


def _cut_down(specimen: Specimen, run: RealRun) -> Findings:
    """Clipping, in the step or by hooks on weights, that cuts nearly every gradient down to next to nothing."""
    kept = [one.given / one.came for one in run.updates if one.came > 0]
    share = statistics.median(kept) if kept else 1.0
    cut = statistics.median(run.cut.values()) if len(run.cut) > len(run.ratios) / 2 else 1.0
    whole = share * cut
    pace = max([statistics.median(each) for each in run.ratios.values() if each], default=1.0)
    if not 0 < whole < CUT:
        return
    # A loss that was scaled, and its gradients scaled back, is cut as much, and learns no better without.
    ways = {"where the optimizer gets what backward gave": Settings(uncut=True)}
    if pace <= MOVES[0]:  # what hooks cut is not known to be given back
        ways |= {f"with {times / whole:.2g} times the rate": Settings(factor=times / whole) for times in (1, 0.1)}
    tried = [(way, trial_run(specimen, settings)) for way, settings in ways.items()]
    enough = run.fall() + max(BETTER, 3 * run.noise)
    better = [(one.fall(), way, one) for way, one in tried if one is not None and one.fall() > enough]
    if not better:
        return
    _, way, best = max(better, key=lambda each: each[0])
    yield Finding.suspicious(
        "the gradients",
        f"of what backward gives, the optimizer gets {whole:.1e} (the middle of {run.n_updates} updates); the loss is "
        f"{run.ends()[1]:.4g} after {run.n_steps} steps, and {best.ends()[1]:.4g} {way}",
        "clipping cuts nearly every step down to next to nothing",
        "clip at the size that gradients usually have, and only the few that are larger",
        again="step(); print([p.grad.norm() for p in model.parameters()])  # what the optimizer was given\n"
        "model.zero_grad(); loss(model(x), y).backward(); print([p.grad.norm() for p in model.parameters()])"
        if specimen.has_loss
        else "step(); print([p.grad.norm() for p in model.parameters()])  # what the optimizer was given",
    )


RULE = DoctorRule(
    name="update-ratio",
    proves="that steps change a matrix by more than its size or next to nothing, and another rate learns better",
    how="makes 30 real steps in a forked process, measures each update beside the matrix, and tries other rates",
    check=check,
    cannot_see="how far steps go later in training",
    again="before = {n: p.detach().clone() for n, p in model.named_parameters()}; step(); "
    "print([(n, (p - before[n]).std() / before[n].std()) for n, p in model.named_parameters() if p.dim() > 1])",
    follows=ANY,
)
