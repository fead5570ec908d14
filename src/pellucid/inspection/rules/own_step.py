"""A step of training of one's own: does it come to its end, does it update, and are old gradients gone by then?

It is run as it is, in a forked process, once as it stands and once with the gradients cleared before each call. Where
that changes the gradients that the optimizer is given, the step adds those of earlier batches to each.
"""

import math
from collections.abc import Mapping

from pellucid.inspection.instrument.real_run import RealRun, real_run
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEW = 3  # steps, in which a sum of gradients shows
APART = 0.01  # of a norm


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is None:
        return
    if run.raised:
        yield Finding.broken("the step", run.raised, "training does not come past it", "mend it first", again="step()")
        return
    if not run.n_updates:
        yield Finding.broken(
            "the step",
            f"in {run.n_steps} calls no optimizer made a step",
            "nothing is ever updated",
            "call optimizer.step() after backward()",
            again="step()",
        )
        return
    largest = [max([norm for norm in norms if not math.isnan(norm)], default=0.0) for norms in run.gradients.values()]
    if not max(largest, default=0.0):
        yield Finding.broken(
            "the step",
            f"at all {run.n_updates} updates every gradient is 0 or missing",
            "they were cleared after backward(), or backward() was not called",
            "clear them before backward(): zero_grad(), backward(), step()",
            again="loss.backward(); print([p.grad for p in model.parameters()]); optimizer.step()",
        )
        return
    yield from _of_old_gradients(specimen)
    for line in run.warned:
        yield Finding.note(
            "the step", f"torch warns: {line}", "as torch says", "read the warning in full", again="step()"
        )


def _of_old_gradients(specimen: Specimen) -> Findings:
    as_it_is, cleared = real_run(specimen, FEW), real_run(specimen, FEW, forget_gradients=True)
    if as_it_is is None or cleared is None or as_it_is.n_updates < 2 or as_it_is.n_updates != cleared.n_updates:
        return
    both = {"as it is": _norms_at(as_it_is, 1), "cleared": _norms_at(cleared, 1)}
    whole = {name: math.sqrt(sum(norm * norm for norm in norms.values())) for name, norms in both.items()}
    apart = abs(whole["as it is"] - whole["cleared"])
    seen = (
        f"at the second update the gradients have a norm of {whole['as it is']:.4g}, and of {whole['cleared']:.4g} "
        f"where they were cleared before"
    )
    again = "for _ in range(2): step(); print([p.grad.norm() for p in model.parameters()])"
    if apart > APART * whole["cleared"]:
        yield Finding.broken(
            "the step",
            seen,
            "gradients of earlier batches are still there and are added to each new one",
            "call optimizer.zero_grad() in every step",
            again=again,
        )
    else:
        yield Finding.sound("the step", seen, "each update follows the gradients of its own batch", again=again)


def _norms_at(run: RealRun, update: int) -> Mapping[str, float]:
    return {path: norms[update] for path, norms in run.gradients.items() if not math.isnan(norms[update])}


RULE = DoctorRule(
    name="own-step",
    proves="a training step raises, updates nothing, or adds up the gradients of several batches",
    how="calls the step 30 times in a forked process, and again with gradients cleared before each call",
    check=check,
    cannot_see="batches that the step reads beside the one that was given",
    needs=("step",),
)
