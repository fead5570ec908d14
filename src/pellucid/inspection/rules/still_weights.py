"""After thirty real steps every weight that learns has moved: with its own optimizer, hooks and step, not on a copy.

A hook that multiplies gradients by 0, a group with a rate of 0, an optimizer that was made for other tensors, a step
too small for the last bit of a float16: each looks well from outside, and the weights stand still.
"""

import math

from pellucid.inspection.instrument.real_run import RealRun, real_run
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.short_run import is_kept_from_learning, trainable_parameters
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

AGAIN = (
    "before = {n: p.detach().clone() for n, p in model.named_parameters()}; step(); "
    "print([n for n, p in model.named_parameters() if torch.equal(p, before[n])])"
)


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is None or not run.n_updates or run.raised:
        return  # a step that does not come to its end, or to an update, has a rule of its own
    asked = [path for path in trainable_parameters(specimen.model) if not is_kept_from_learning(specimen, path)]
    still = [path for path in asked if run.moved[path] == 0]
    told = [path for path in still if has_gradient(run, path)]
    # Without a gradient in any of the steps there is nothing to follow; why, other rules say.
    if told:
        yield _finding(specimen, run, told, len(asked))
    elif not still and asked:
        least = min(asked, key=lambda path: run.moved[path])
        yield Finding.sound(
            "the model",
            f"in {run.n_steps} steps of its own all {len(asked)} parameters moved; {least} the least, by "
            f"{run.moved[least]:.2g} of its size",
            "its own training reaches every weight that is to learn",
            again=AGAIN,
        )


def has_gradient(run: RealRun, path: str) -> bool:
    """Whether an optimizer was ever given a gradient for it that is not 0."""
    return any(norm > 0 for norm in run.gradients[path] if not math.isnan(norm))


def _finding(specimen: Specimen, run: RealRun, still: list[str], n_asked: int) -> Finding:
    groups = specimen.optimizer.param_groups if specimen.optimizer is not None else []
    parameters = dict(specimen.model.named_parameters())
    ids = {id(parameters[path]) for path in still}
    rates = {float(group["lr"]) for group in groups if ids & {id(one) for one in group["params"]} and "lr" in group}
    largest = max(max([norm for norm in run.gradients[path] if not math.isnan(norm)]) for path in still)
    seen = (
        f"in {run.n_steps} steps of its own {len(still)} of {n_asked} parameters did not change by a bit, though "
        f"gradients of norm up to {largest:.2g} came: {first_few(still)}"
    )
    if rates == {0.0}:
        means, fix = "their group has a learning rate of 0", "set lr for this group, or take them out of the optimizer"
    elif len(still) == n_asked:
        means, fix = "no step changes anything", "look whether the step is skipped, or too small for these numbers"
    else:
        means = "they are never trained, while the rest is"
        fix = (
            "look for what puts them back after each step, for a rate too small for their type, and for other tensors "
        )
        fix += "in the optimizer"
    return Finding.broken(
        owner_name(still[0]), f"{seen}; rate {min(rates):g}" if rates else seen, means, fix, again=AGAIN
    )


RULE = DoctorRule(
    name="still-weights",
    proves="weights that get a gradient do not move in real steps of training",
    how="makes 30 steps of the model itself, with its own optimizer and hooks, in a forked process, and compares bits",
    check=check,
    cannot_see="weights that move and learn nothing, and steps after the thirtieth",
    follows=("not-in-optimizer", "no-gradient", "detached-path", "learning-rate", "own-step"),
)
