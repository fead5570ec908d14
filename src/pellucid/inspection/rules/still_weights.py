"""After thirty real steps every weight that learns has moved: with its own optimizer, hooks and step, not on a copy.

A hook that multiplies gradients by 0, a group with a rate of 0, an optimizer that was made for other tensors, a step
too small for the last bit of a float16: each looks well from outside, and the weights stand still.
"""

import math

import torch

from pellucid.inspection.instrument.real_run import RealRun, real_run, trial_run
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.short_run import is_kept_from_learning, trainable_parameters
from pellucid.inspection.instrument.update_record import Settings
from pellucid.inspection.judgements import is_more_than_rounding, judge_still_weights
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen
from pellucid.inspection.rules.own_step import raised_finding

SWALLOWED = 0.5  # of a parameter's numbers, at an update
AGAIN = (
    "before = {n: p.detach().clone() for n, p in model.named_parameters()}; step(); "
    "print([n for n, p in model.named_parameters() if torch.equal(p, before[n])])"
)


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is not None and run.raised and run.n_steps and specimen.step is None:
        again = "for _ in range(2): optimizer.zero_grad(); loss(model(x), y).backward(); optimizer.step()"
        yield raised_finding(run, "the training")._replace(again=again)
    if run is None or not run.n_updates or run.raised:
        return  # a step of their own that does not come to its end, or to an update, has a rule of its own
    waiting = [path for path in run.idle if run.n_passes[path] and run.moved[path] == 0]
    swallowed = list(_swallowed(specimen, run))
    if waiting:
        yield _of_the_idle(run, waiting)
    yield from swallowed
    asked = [path for path in trainable_parameters(specimen.model) if not _is_kept(specimen, run, path)]
    still = [path for path in asked if run.moved[path] == 0]
    told = [path for path in still if has_gradient(run, path)]
    # Without a gradient in any of the steps there is nothing to follow; why, other rules say.
    if told:
        yield _finding(specimen, run, told, len(asked))
    elif not still and asked and not waiting and not swallowed:
        least = min(asked, key=lambda path: run.moved[path])
        yield Finding.sound(
            "the model",
            f"in {run.n_steps} steps of its own all {len(asked)} parameters moved; {least} the least, by "
            f"{run.moved[least]:.2g} of its size",
            "its own training reaches every weight that is to learn",
            again=AGAIN,
        )


def _is_kept(specimen: Specimen, run: RealRun, path: str) -> bool:
    """Whether it is kept from learning on purpose. In a step of their own every optimizer that steps counts."""
    if specimen.step is not None and any(path in inside for inside in run.groups.values()):
        return False
    return is_kept_from_learning(specimen, path)


def _of_the_idle(run: RealRun, waiting: list[str]) -> Finding:
    return Finding.broken(
        owner_name(waiting[0]),
        f"{len(waiting)} parameters ({first_few(waiting)}) are in an optimizer that made no step in {run.n_steps} "
        f"calls, while {run.n_updates} updates of others were made and gradients came to them",
        "this part is never trained",
        "call step() of its optimizer, too",
        again=AGAIN,
    )


def _swallowed(specimen: Specimen, run: RealRun) -> Findings:
    """Updates that are smaller than the last digit of the numbers that they are added to."""
    coarse = {
        path: share
        for path, share in run.swallowed.items()
        if specimen.model.get_parameter(path).dtype in (torch.float16, torch.bfloat16) and share > SWALLOWED
    }
    if not coarse:
        return
    worst = max(coarse, key=lambda path: coarse[path])
    kind = str(specimen.model.get_parameter(worst).dtype).removeprefix("torch.")
    fine = trial_run(specimen, Settings(in_float32=True)) if specimen.step is None else None
    gave = "" if fine is None else f"; the loss is {run.ends()[1]:.4g} in the end, in float32 {fine.ends()[1]:.4g}"
    yield Finding.suspicious(
        owner_name(worst),
        f"of the numbers of {worst} that get a gradient, {coarse[worst]:.0%} are the same after an update, and more "
        f"than half in {len(coarse)} of {len(run.swallowed)} parameters: they are {kind}{gave}",
        "most updates are smaller than the last digit, and are rounded away",
        "keep the weights in float32, and run the forward pass under torch.autocast",
        again="before = {n: p.detach().clone() for n, p in model.named_parameters()}; step(); "
        "print([(n, (p == before[n]).float().mean()) for n, p in model.named_parameters()])",
    )


def has_gradient(run: RealRun, path: str) -> bool:
    """Whether an optimizer was ever given a gradient for it that is more than the rounding of all others."""
    updates = zip(*run.gradients.values(), strict=True)
    return any(
        is_more_than_rounding(norm, norms) for norm, norms in zip(run.gradients[path], updates, strict=True) if norm > 0
    )


def _finding(specimen: Specimen, run: RealRun, still: list[str], n_asked: int) -> Finding:
    groups = specimen.optimizer.param_groups if specimen.optimizer is not None else []
    parameters = dict(specimen.model.named_parameters())
    ids = {id(parameters[path]) for path in still}
    rates = {float(group["lr"]) for group in groups if ids & {id(one) for one in group["params"]} and "lr" in group}
    largest = max(max([norm for norm in run.gradients[path] if not math.isnan(norm)]) for path in still)
    extra = f"; rate {min(rates):g}" if rates else ""
    found = judge_still_weights(still, n_asked, run.n_steps, largest, extra)._replace(again=AGAIN)
    if rates != {0.0}:
        return found
    fix = "set lr for this group, or take them out of the optimizer"
    return found._replace(means="their group has a learning rate of 0", try_next=fix)


RULE = DoctorRule(
    name="still-weights",
    proves="weights that get a gradient do not move in real steps of training, or these raise after the first",
    how="makes 30 steps of the model itself, with its own optimizer and hooks, in a forked process, and compares bits",
    check=check,
    cannot_see="weights that move and learn nothing, and steps after the thirtieth",
    follows=("not-in-optimizer", "no-gradient", "detached-path", "learning-rate", "own-step"),
)
