"""A step of training of one's own: does it come to its end, does it update, and with which gradients?

It is run as it is, in a forked process. What every backward pass gives is held beside what the optimizer is given:
gradients of earlier steps that are still there, passes that were cleared away, updates that come before their backward
pass. The loss that it tells is held against differences: along the gradient that it uses, it has to change.
"""

import math
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pellucid.inspection.instrument.forking import measure_in_fork
from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.real_run import RealRun, number_of_loss, real_run
from pellucid.inspection.judgements import judge_old_gradients
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEW = 3  # steps, in which a sum of gradients shows
APART = 0.01  # of a share
ALIKE = 1 - 1e-6  # the cosine of what is the same but for rounding
OTHER = 0.99
NUDGE = 1e-3  # of the loss, by which it should change along the gradient
FOLLOWS = 0.1  # of what the gradient foretells
NEWEST = 0.5  # of the way to the newest weights, in one step
GROWS = 1.1  # times the operations of an early step, and by as many with each step
CHANGED = "modified by an inplace operation"
BROADCAST = "different to the input size"
SECOND_TIME = "backward through the graph a second time"


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is None:
        return
    if run.raised:
        yield raised_finding(run)
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
        n_passes = max(run.n_passes.values(), default=0)
        yield Finding.broken(
            "the step",
            f"at all {run.n_updates} updates every gradient is 0 or missing, after {n_passes} backward passes",
            "they were cleared after backward()"
            if n_passes
            else "no backward pass comes to the weights: the loss is a plain number or is detached before backward()",
            "clear them before backward(): zero_grad(), backward(), step()"
            if n_passes
            else "call backward() on the loss as the model made it, without item(), float() or detach()",
            again="step(); print([p.grad for p in model.parameters()])",
        )
        return
    found = [
        *_of_updates(run),
        *_of_old_gradients(specimen, run),
        *_of_the_mode(run),
        *_of_growth(run),
        *_of_averages(run),
        *_of_the_data(run),
    ]
    yield from found
    yield from _of_the_loss(specimen, run)
    for line in run.warned:
        if BROADCAST in line:
            yield Finding.suspicious(
                "the step",
                f"torch warns: {line}",
                "outputs and targets of different shapes are spread over each other: rows meet the targets of others",
                "give both one shape, with squeeze(-1) or unsqueeze(-1)",
                again="step()",
            )
            continue
        yield Finding.note(
            "the step", f"torch warns: {line}", "as torch says", "read the warning in full", again="step()"
        )


def raised_finding(run: RealRun, where: str = "the step") -> Finding:
    """Of a training that does not come to its end."""
    if SECOND_TIME in run.raised:
        return Finding.broken(
            where,
            run.raised,
            "something of an earlier step, as a hidden state, is used again with its graph",
            "detach what is carried over: hidden = hidden.detach()",
            again="step(); step()",
        )
    if CHANGED in run.raised:
        return Finding.broken(
            where,
            run.raised,
            "what backward() needs was changed in place after the forward pass, as weights are by optimizer.step()",
            "call backward() before step(), and detach what is carried over from the step before",
            again="step(); step()",
        )
    return Finding.broken(where, run.raised, "training does not come past it", "mend it first", again="step()")


def _of_updates(run: RealRun) -> Findings:
    """Passes of one update of which only the last counts, and updates that come before their backward pass."""
    own = [one for one in run.updates if one.optimizer == 0]
    if len(own) < run.n_updates:
        return  # several optimizers clear each other's gradients on purpose
    late = own[1:]
    if late and all(one.n_backward and not one.n_fresh and one.given > 0 for one in late):
        yield Finding.broken(
            "the step",
            f"in {len(late)} of {len(own)} updates no backward pass of the same call came before it",
            "each update is made of the gradient of the batch before, and the last one is never used",
            "call backward() before optimizer.step()",
            again="step()",
        )
    several = [one for one in own if one.n_backward > 1 and not one.has_moved and not math.isnan(one.with_sum)]
    dropped = [one for one in several if one.with_last > ALIKE and one.with_sum < OTHER]
    if several and len(dropped) > len(several) / 2:
        one = dropped[0]
        yield Finding.broken(
            "the step",
            f"of {one.n_backward} backward passes for an update only the last counts: what the optimizer is given has "
            f"a cosine of {one.with_last:.4f} with the gradient of the last, and of {one.with_sum:.4f} with their sum",
            "the gradients of the passes before it are cleared and lost",
            "call zero_grad() once before the first of them, not before each",
            again="step()",
        )


def _of_old_gradients(specimen: Specimen, run: RealRun) -> Findings:
    as_it_is, cleared = real_run(specimen, FEW), real_run(specimen, FEW, forget_gradients=True)
    if as_it_is is None or cleared is None or as_it_is.n_updates < 2 or as_it_is.n_updates != cleared.n_updates:
        return
    if any(not one.n_fresh for one in run.updates[1:]):
        return  # an update of the batch before has its own finding
    both = {"as it is": _norms_at(as_it_is, 1), "cleared": _norms_at(cleared, 1)}
    whole = {name: math.sqrt(sum(norm * norm for norm in norms.values())) for name, norms in both.items()}
    seen = (
        f"at the second update the gradients have a norm of {whole['as it is']:.4g}, and of {whole['cleared']:.4g} "
        f"where they were cleared before"
    )
    again = "for _ in range(2): step(); print([p.grad.norm() for p in model.parameters()])"
    yield judge_old_gradients("the step", seen, whole["as it is"], whole["cleared"])._replace(again=again)


def _norms_at(run: RealRun, update: int) -> Mapping[str, float]:
    return {path: norms[update] for path, norms in run.gradients.items() if not math.isnan(norms[update])}


def _of_the_mode(run: RealRun) -> Findings:
    """A model that is put into eval by the step, and never back: later passes are made in another mode."""
    modes = [one.is_training for one in run.updates if one.n_backward]
    if not modes or not modes[0] or all(modes) or any(modes[len(modes) // 2 :]):
        return
    since = modes.index(False) + 1
    if not run.modes_apart > 0:
        return  # both modes give the same
    yield Finding.broken(
        "the step",
        f"at update 1 the model is in training, and from update {since} to {len(modes)} in eval, where its outputs are "
        f"{run.modes_apart:.2g} of their size apart from those in training",
        "dropout and batch norms do nothing while it learns: something in the step calls eval() and nothing train()",
        "call model.train() at the beginning of each step",
        again="step(); print(model.training); step(); print(model.training)",
    )


def _of_growth(run: RealRun) -> Findings:
    """Steps that take more and more operations: a graph that is carried along."""
    counts = [n for _, n in run.operations]
    if len(counts) < 3 or counts[-1] < GROWS * counts[0]:
        return
    grown = [after - before for before, after in pairwise(counts)]
    # By as much each time: batches of other lengths would go up and down.
    if min(grown) <= 0 or max(grown) > 1.2 * min(grown):
        return
    first, last = run.operations[0], run.operations[-1]
    yield Finding.broken(
        "the step",
        f"step {first[0] + 1} takes {first[1]} operations and step {last[0] + 1} {last[1]}, "
        f"{grown[0] / (run.operations[1][0] - first[0]):.0f} more with each",
        "the graph of all steps before is kept and gone through again: time and memory grow without end",
        "detach what is carried from step to step, as hidden states and sums of losses",
        again="import time; [(step(), print(time.perf_counter())) for _ in range(30)]",
    )


def _of_the_data(run: RealRun) -> Findings:
    """What the step does to the data that it reads, and to numbers of different shapes."""
    share, far = run.written
    if share > 0:
        yield Finding.broken(
            "the data",
            f"after {run.n_steps} calls {share:.0%} of the rows of the stored data are changed, by {far:.2g} of their "
            "size in the middle",
            "the step writes into the data that it reads, and what it adds piles up from epoch to epoch",
            "work on a copy: x = x + noise in place of x += noise, or x.clone() first",
            again="step()  # then compare the data set with a copy of it made before",
        )
    if run.crossed:
        yield Finding.suspicious(
            "the step",
            f"it takes the difference of {run.crossed[0]}, which is a table of each with each",
            "every row is compared with all others: what is learned is their mean",
            "give both one shape, with squeeze(-1) or unsqueeze(-1)",
            again="step()  # print the shapes of what is subtracted in it",
        )


def _of_averages(run: RealRun) -> Findings:
    """Frozen copies of weights that learn: how far each step takes them to the newest."""
    if not run.follows:
        return
    nearest = max(run.follows, key=lambda path: run.follows[path][1])
    partner, share = run.follows[nearest]
    seen = f"{nearest} begins as {partner}, does not learn, and goes {share:.2%} of the way to it in a step"
    again = (
        "before = {n: p.clone() for n, p in model.named_parameters()}; step(); "
        "print([(n, (p - before[n]).norm()) for n, p in model.named_parameters()])"
    )
    if share > NEWEST:
        yield Finding.suspicious(
            nearest,
            seen,
            "it is no average and no slow target, but next to a copy of the newest weights",
            f"keep {share:.2g} of the old and take {1 - share:.2g} of the new: the two shares are likely swapped",
            again=again,
        )
    elif share == 0:
        means = "it never follows in these steps; a reference is meant to stay, and an average or a target is not"
        yield Finding.note(nearest, seen, means, "if it is to follow, update it in the step", again=again)


def _of_the_loss(specimen: Specimen, run: RealRun) -> Findings:
    """Whether the loss that the step tells changes along the gradient that it uses, by as much as that foretells."""
    if not run.losses or not math.isfinite(run.losses[0]) or specimen.step is None:
        return
    # Memory that a child writes to and the next one reads.
    used = {
        path: torch.zeros_like(one, memory_format=torch.contiguous_format).detach().share_memory_()  # type: ignore[no-untyped-call]
        for path, one in specimen.model.named_parameters()
        if one.is_floating_point() and one.requires_grad
    }
    at_rest = measure_in_fork(specimen.model, lambda: _loss_told(specimen, used))
    square = sum(float(one.double().square().sum()) for one in used.values())
    if at_rest is None or not square > 0 or not math.isfinite(square):
        return
    nudge = NUDGE * max(abs(at_rest), 1e-3) / square
    ahead, behind, repeated = (
        measure_in_fork(specimen.model, partial(_loss_told, specimen, used, far)) for far in (nudge, -nudge, 0.0)
    )
    if ahead is None or behind is None or repeated != at_rest:
        return  # what is not the same twice tells nothing
    share = (ahead - behind) / (2 * nudge * square)
    if not math.isfinite(share):
        return
    seen = (
        f"along the gradient that it uses, the loss that it returns changes by {share:.3g} of what that gradient "
        f"foretells"
    )
    again = "print(step())  # again after p.data += 1e-3 * p.grad for all weights"
    if abs(share) < FOLLOWS or share < 0:
        yield Finding.suspicious(
            "the step",
            seen,
            "what it returns is not what it makes smaller" if share >= 0 else "its updates make it larger",
            "return the loss on which backward() is called, or call backward() on the loss that is meant",
            again=again,
        )
        return
    n_passes = run.updates[0].n_backward
    if n_passes > 1 and abs(share * n_passes - 1) < APART:
        yield Finding.suspicious(
            "the step",
            f"{seen}, which is 1/{n_passes}, and an update has {n_passes} backward passes",
            f"their gradients are added and not divided: a step goes {n_passes} times too far",
            f"call (loss / {n_passes}).backward()",
            again=again,
        )
    elif abs(share - 1) < 10 * APART:
        yield Finding.sound("the step", seen, "the loss that it tells is the one that it makes smaller", again=again)


def _loss_told(specimen: Specimen, used: Mapping[str, Tensor], far: float | None = None) -> float:
    """In the child: the loss that the first call returns. The gradients of its update are written to `used`.

    far: how far along `used` the weights are moved before; None: they stay, and the gradients are asked for.
    """
    assert specimen.step is not None
    parameters = {path: one for path, one in specimen.model.named_parameters() if path in used}
    if far is not None:
        with torch.no_grad():
            for path, one in parameters.items():
                one.add_(used[path], alpha=far)
    is_first = [far is None]

    def keep(*_: object) -> None:
        for path, one in parameters.items():
            if is_first[0] and one.grad is not None:
                used[path].copy_(one.grad.to_dense())
        is_first[0] = False

    hook = register_optimizer_step_pre_hook(keep)
    try:
        with isolate():
            return number_of_loss(specimen.step())
    finally:
        hook.remove()


RULE = DoctorRule(
    name="own-step",
    proves="a training step raises, updates nothing or with other gradients than those of its loss",
    how="calls the step 30 times in a forked process, and holds what backward gives beside what the optimizer is given",
    check=check,
    cannot_see="batches that the step reads beside the one that was given",
    needs=("step",),
)
