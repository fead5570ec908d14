"""A parameter that the loss does not lead to is never trained, however long it runs.

A layer that forward forgets, a head whose answer is thrown away, weights frozen before they learned anything. Weights
may start at zero and get no gradient at first, as in ReZero; so it is asked again with weights that were nudged, and
after a few steps.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.perturbation import jitter_weights, perturb
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.short_run import (
    copy_in_training,
    is_kept_from_learning,
    objective_gradients,
    trainable_parameters,
)
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FAINT = 1e-20  # of the largest; rounding alone, where the true one is 0, leaves far more
STEPS = 3  # downhill, after which no weight should be where none can learn


def check(specimen: Specimen) -> Findings:
    yield from _frozen(specimen)
    copied = copy_in_training(specimen)
    parameters = trainable_parameters(copied.model)
    if not parameters:
        return
    found = objective_gradients(copied, parameters)
    if found is None:
        return
    if not found:
        yield Finding.broken(
            "loss",
            f"none of {len(parameters)} parameters gets a gradient",
            "the loss is cut off from the weights, so nothing can be learned",
            "look for detach(), .data, .item(), argmax, no_grad() or numpy between the weights and the loss",
        )
        return
    silent = {path for path in parameters if path not in found or not found[path].any()}
    never = set(silent)
    for seed in (1, 2):
        if never:
            never -= _reached_parameters(perturb(copied, partial(jitter_weights, seed=seed)))
    stuck = silent - never
    if stuck:
        stuck -= _reached_parameters(_after_steps(copied))
    silent = never | stuck
    if not silent:
        yield _of_sizes(found)
        return
    for paths, severity, means, fix in _sort_by_meaning(specimen, parameters, never, stuck):
        n_weights = sum(parameters[path].numel() for path in paths)
        yield Finding(
            severity,
            owner_name(paths[0]),
            f"{len(paths)} of {len(parameters)} parameters ({n_weights} weights) get no gradient: {first_few(paths)}",
            means,
            fix,
        )


def _of_sizes(slopes: dict[str, Tensor]) -> Finding:
    """Whether every gradient that comes is large enough to be one: beside the largest, it may have faded to nothing."""
    norms = {path: float(slope.double().norm()) for path, slope in slopes.items() if bool(slope.any())}
    least, most = min(norms.values(), default=0.0), max(norms.values(), default=0.0)
    reach = f"the norms reach from {least:.2g} to {most:.2g}"
    faint = [path for path, norm in norms.items() if norm < FAINT * most]
    if not faint:
        seen = f"all {len(slopes)} parameters get a gradient; {reach}"
        return Finding.sound("the model", seen, "every weight is trained")
    return Finding.suspicious(
        owner_name(faint[0]),
        f"{len(faint)} of {len(norms)} parameters get next to no gradient: {first_few(faint)}; {reach}",
        "it has faded away on its way down to them: they learn nothing from this batch",
        "shorten the way, as by skips, or look for steps, such as padding, that it need not go through",
        again="loss(model(x), y).backward(); print({n: p.grad.norm() for n, p in model.named_parameters()})",
    )


def _sort_by_meaning(
    specimen: Specimen, parameters: dict[str, nn.Parameter], never: set[str], stuck: set[str]
) -> Iterator[tuple[list[str], str, str, str]]:
    """Those without a gradient by what that means: the paths, how grave it is, what it means, what to do."""
    meant = {path for path in never if is_kept_from_learning(specimen, path)}
    # A bias that cancels, as in a difference or before a norm, is wasted and does no harm.
    idle = {path for path in never - meant if path.endswith("bias") and path[:-4] + "weight" not in never}
    unused = "with any weights, nothing of the loss of this batch reaches them"
    kinds = (
        (never - meant - idle, "suspicious", unused, "use them in forward, or take them out, unless other batches do"),
        (idle, "note", f"{unused}: what they add cancels", "leave these biases out (bias=False)"),
        (meant, "note", unused, "nothing, if another network is followed by them"),
        (
            stuck,
            "suspicious",
            f"they begin at a point that {STEPS} steps did not leave, though other weights would learn",
            "draw the first weights at random, and not all as 0",
        ),
    )
    for chosen, severity, means, fix in kinds:
        if chosen:
            yield [path for path in parameters if path in chosen], severity, means, fix


def _reached_parameters(specimen: Specimen) -> set[str]:
    """The parameters of a copy that get a gradient."""
    found = objective_gradients(specimen, trainable_parameters(specimen.model)) or {}
    return {path for path, slope in found.items() if bool(slope.any())}


def _after_steps(specimen: Specimen) -> Specimen:
    """A copy that went a few steps downhill, each as long as a hundredth of its weights or so."""
    moved = specimen.copy()
    parameters = trainable_parameters(moved.model)
    for _ in range(STEPS):
        slopes = objective_gradients(moved, parameters) or {}
        with torch.no_grad():
            for path, slope in slopes.items():
                parameters[path].sub_(0.01 * slope / (slope.abs().max() + 1e-12))
    return moved


def _frozen(specimen: Specimen) -> Findings:
    """Weights that ask for no gradient: meant, unless an optimizer was given them to move."""
    frozen = {path: one for path, one in specimen.model.named_parameters() if not one.requires_grad}
    n_all = sum(1 for _ in specimen.model.parameters())
    if not frozen:
        return
    held = specimen.held_by_optimizer
    waiting = [path for path, one in frozen.items() if id(one) in held]
    n_weights = sum(one.numel() for one in frozen.values())
    yield Finding(
        "suspicious" if waiting else "note",
        (waiting or list(frozen))[0].rpartition(".")[0] or "the model",
        f"{len(frozen)} of {n_all} parameters ({n_weights} weights) are frozen: {first_few(list(frozen))}"
        + (f"; {len(waiting)} of them are in the optimizer" if waiting else ""),
        "the optimizer was given them to move, and they get no gradient" if waiting else "they stay as they are",
        "call requires_grad_(True) on them, or give the optimizer only what is to learn",
        again="print([n for n, p in model.named_parameters() if not p.requires_grad])",
    )


RULE = DoctorRule(
    name="no-gradient",
    proves="parameters get no gradient from the loss of this batch, or are frozen in the optimizer",
    how="runs the loss backward for these weights, for nudged ones, and after a few steps downhill",
    check=check,
    cannot_see="weights that learn from other batches alone, and gradients that come and are wrong",
    again="loss(model(x), y).backward(); print([n for n, p in model.named_parameters() if p.grad is None])",
    follows=("detached-path", "dead-units", "symmetry", "nan-origin"),
)
