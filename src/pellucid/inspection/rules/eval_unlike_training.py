"""What was learned must still be there in eval: after real steps the loss in both modes is compared.

Batch norms whose statistics never move, a dropout that is only undone in one mode, a branch that eval leaves out: in
training all is well, and what is used afterwards is another function. Statistics that only follow slowly are given the
time: the batches go through again without updates. Statistics that keep nothing but the last batch are measured too.
"""

import math

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.real_run import RealRun, real_run
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.specimen import is_fresh
from pellucid.inspection.judgements import judge_statistics
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LEARNED = 0.2  # of the first loss: less is too little to lose
LOST = 0.5  # of what was learned
LOST_BY_STATISTICS = 0.1  # where the cause is seen, too: statistics that did not move
SETTLES = 0.9  # of the gap: what is left of it after more passes, where statistics are slow
MOVED = 1e-3  # of the outputs' size
STATISTICS = ("running_mean", "running_var")  # as torch's norms call them
WARM = 3  # passes before one whose share is measured: a mean over all batches has then 1/4 of the last
FORGETS = 0.9  # of the way to the last batch, in one pass
AGAIN = "model.train(); print(loss(model(x), y)); model.eval(); print(loss(model(x), y))"


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    found = list(_of_the_last_batch(specimen))
    if run is not None and not run.raised and run.losses:
        found += [*_of_the_frozen(specimen, run), *(_of_losses(run) if specimen.has_loss else _of_answers(run))]
    yield from [one for one in found if one.severity != "sound"] or found


def _of_losses(run: RealRun) -> Findings:
    first, training, in_eval = run.ends()[0], run.in_training, run.in_eval
    if not all(map(math.isfinite, (first, training, in_eval))) or not first - training > LEARNED * abs(first):
        return
    lost = (in_eval - training) / (first - training)
    still = _unmoved_statistics(run)
    seen = (
        f"after {run.n_steps} real steps the loss of the same batch, {first:.4g} at first, is {training:.4g} in "
        f"training and {in_eval:.4g} in eval"
    )
    if lost <= (LOST_BY_STATISTICS if still else LOST):
        yield Finding.sound("the model", seen, "what these steps learned in training is there in eval", again=AGAIN)
        return
    later = (run.settled - training) / (first - training)
    if later < SETTLES * lost and not still:
        yield Finding.note(
            "the model",
            f"{seen}; after {2 * run.n_steps} more passes without updates it is {run.settled:.4g}",
            "running statistics follow slowly, and are not there yet",
            "train for longer before it is used in eval, or raise the momentum of the batch norms",
            again=AGAIN,
        )
        return
    cause = f"; {len(still)} running statistics did not move, as {still[0]}" if still else ""
    yield Finding.suspicious(
        "the model",
        seen + cause,
        f"in eval {min(lost, 1):.0%} of what was learned is gone: it is another function than the one that learns",
        "give batch norms a momentum above 0" if still else "look at what training and eval do differently",
        again=AGAIN,
    )


def _of_answers(run: RealRun) -> Findings:
    """Of a step of someone's own the loss is not known, and what it puts out is."""
    in_training, in_eval = run.answers_moved
    again = "model.eval(); before = model(x); [step() for _ in range(30)]; model.eval(); print(model(x) - before)"
    if not in_training > MOVED or math.isnan(in_eval):
        return
    seen = (
        f"in {run.n_steps} real steps the outputs in training moved by {in_training:.2g} of their size, and those in "
        f"eval by {in_eval:.2g}"
    )
    if in_eval == 0:
        yield Finding.suspicious(
            "the model",
            seen,
            "nothing of what is learned is there in eval: other weights or other statistics are used, and never follow",
            "look at what eval uses in place of the weights that are trained, and update it in the step",
            again=again,
        )
    elif still := _unmoved_statistics(run):
        kept = {path: (1.0, 1.0) for path in run.statistics if path.endswith(STATISTICS)}
        again = "before = {n: b.clone() for n, b in model.named_buffers()}; step(); print(dict(model.named_buffers()))"
        yield judge_statistics(kept, run.n_steps, still)[0]._replace(again=again)
    else:
        yield Finding.sound("the model", seen, "what moves in training moves in eval, too", again=again)


def _unmoved_statistics(run: RealRun) -> list[str]:
    return [path for path, far in run.statistics.items() if far == 0 and path.endswith(STATISTICS)]


def _of_the_frozen(specimen: Specimen, run: RealRun) -> Findings:
    """Statistics that go on moving in parts that were learned before, and whose weights are kept as they are."""
    if is_fresh(specimen) is True:
        return
    drifting = []
    for path, module in specimen.model.named_modules():
        weights = list(module.parameters(recurse=False))
        inside = [f"{path}.{name}" if path else name for name, _ in module.named_buffers(recurse=False)]
        is_kept = bool(weights) and not any(one.requires_grad for one in weights)
        was_used = any(bool((one != one.flatten()[0]).any()) for one in module.buffers(recurse=False) if one.dim())
        drifting += [name for name in inside if is_kept and was_used and run.statistics[name] > MOVED]
    if not drifting:
        return
    farthest = max(drifting, key=lambda name: run.statistics[name])
    yield Finding.suspicious(
        owner_name(farthest),
        f"in {run.n_steps} real steps {len(drifting)} statistics of frozen parts moved: {first_few(drifting)}; "
        f"{farthest} by {run.statistics[farthest]:.2g} of its size",
        "their weights are kept as they were learned, and in eval they meet statistics that they were not learned with",
        "put the frozen parts into eval() whenever train() is called",
        again="before = {n: b.clone() for n, b in model.named_buffers()}; model(x); "
        "print([n for n, b in model.named_buffers() if not torch.equal(b, before[n])])",
    )


def _of_the_last_batch(specimen: Specimen) -> Findings:
    """How far one pass takes the running statistics to those of its own rows alone."""
    shares = try_or_none(lambda: _shares_of_last(specimen))
    if not shares:
        return
    farthest = max(shares, key=lambda path: shares[path])
    if shares[farthest] > FORGETS:
        yield Finding.suspicious(
            farthest,
            f"one pass takes its running mean {shares[farthest]:.0%} of the way to that of its own rows",
            "in eval it norms by the last batch alone, and all batches before it are forgotten",
            f"lower the momentum: here it is the share of the new batch; {1 - shares[farthest]:.2g} may be meant",
            again="print([module.momentum for module in model.modules() if hasattr(module, 'momentum')])",
        )


def _shares_of_last(specimen: Specimen) -> dict[str, float]:
    """Of each batch norm that keeps statistics, the share of the last batch in them."""
    copied = specimen.copy("training")
    norms = {
        path: module
        for path, module in copied.model.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None
    }
    if not norms:
        return {}
    means: dict[str, Tensor] = {}

    def keep(path: str, given: Tensor) -> None:
        means[path] = given.detach().transpose(0, 1).flatten(1).mean(1)

    hooks = [
        one.register_forward_pre_hook(lambda _, given, path=path: keep(path, given[0])) for path, one in norms.items()
    ]
    before: dict[str, Tensor] = {}
    with isolate(), torch.no_grad():
        for turn in range(WARM + 1):
            if turn == WARM:
                # From far away, so that the way is long enough to be measured.
                for path, one in norms.items():
                    assert one.running_mean is not None
                    one.running_mean.add_(10 * one.running_mean.abs().max() + 1)
                    before[path] = one.running_mean.clone()
            copied.model(*own_inputs(specimen.inputs))
    for hook in hooks:
        hook.remove()
    shares = {}
    for path, one in norms.items():
        assert one.running_mean is not None
        if path in means:
            way = (means[path] - before[path]).norm()
            shares[path] = float((one.running_mean - before[path]).norm() / way)
    return shares


RULE = DoctorRule(
    name="eval-unlike-training",
    proves="what real steps of training learn is gone in eval, or eval norms by statistics that belong to nothing",
    how="makes 30 real steps in a forked process, and compares loss or outputs in both modes and the statistics",
    check=check,
    cannot_see="what differs between the modes without costing anything on these batches",
    follows=("wrong-mode", "dropout-odd", "batch-mixing", "non-determinism", "own-step"),
)
