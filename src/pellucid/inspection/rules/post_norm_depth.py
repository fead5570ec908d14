"""A transformer whose norms stand on the residual path has no clear way down for the gradient, and wants a warm-up.

Found in the graph, not by names: x = norm(x + f(x)) adds what an earlier norm put out. With the norm inside the branch,
x + f(norm(x)), the sum goes on untouched. (Xiong and others 2020: with the first kind, Adam without warm-up often fails
from about six blocks on; how the gradient changes over depth is measured and shown.)
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.inspection.instrument.recording import ModuleCall, is_norm, record
from pellucid.inspection.instrument.specimen import is_fresh
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 4  # blocks: below, it trains without
DEEP = 8


def check(specimen: Specimen) -> Findings:
    if (seen := record(specimen.copy(), with_loss=True)) is None:
        return
    norms = _on_the_path(seen.modules)
    n_blocks = (len(norms) + 1) // 2  # attention and feed-forward; before the first norm of all there is none
    all_norms = [call for call in seen.modules if is_norm(call.module)]
    if not norms and len(all_norms) > 1:
        seen_text = f"none of {len(all_norms)} norms stands on a residual path"
        means = "the gradient has a way around every norm, or there is no such path"
        yield Finding.sound("the model", seen_text, means)
    if n_blocks < 2 or is_fresh(specimen) is False:
        return  # what has learned already is past the danger
    first, last = _size(norms[0].gradient), _size(norms[-1].gradient)
    ratio = f", {last / first:.2g} times" if first else ""
    sizes = (
        f"{len(norms)} norms on the residual path, about {n_blocks} blocks; the gradient's norm is {first:.2g} at "
        f"{norms[0].path} and {last:.2g} at {norms[-1].path}{ratio}"
    )
    where = f"{norms[0].path} to {norms[-1].path}"
    warmth = _warmth(specimen)
    if n_blocks < FEWEST or warmth:
        yield Finding.sound(where, sizes, warmth or "so few blocks train without a warm-up")
        return
    yield Finding(
        "suspicious" if n_blocks >= DEEP and specimen.optimizer is not None else "note",
        where,
        f"{sizes}; no warm-up is known of",
        "every norm on the path rescales the gradient, and the first steps at full rate often throw it off",
        "warm the rate up over the first few hundred steps, or put the norms into the branches (norm_first=True)",
    )


def _on_the_path(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """Norms that read a sum of which one part is what an earlier norm put out."""
    found, earlier = [], set()
    for call in calls:
        if not is_norm(call.module) or call.given is None or call.made is None:
            continue
        added = call.given.grad_fn
        parts = added.next_functions if added is not None and added.name().startswith("AddBackward") else ()
        if any(part in earlier for part, _ in parts):
            found.append(call)
        if call.made.grad_fn is not None:
            earlier.add(call.made.grad_fn)
    return found


def _size(gradient: Tensor | None) -> float:
    return 0.0 if gradient is None else torch.linalg.vector_norm(gradient).item()


def _warmth(specimen: Specimen) -> str:
    """What a schedule left on the optimizer: it keeps the rate it aims at, or began with, beside the one of now."""
    groups = [] if specimen.optimizer is None else specimen.optimizer.param_groups
    rising = [(group["lr"], group["initial_lr"]) for group in groups if group["lr"] < group.get("initial_lr", 0.0)]
    return f"the rate is warmed up: {rising[0][0]:.2g} now, {rising[0][1]:.2g} later" if rising else ""


RULE = DoctorRule(
    name="post-norm-depth",
    proves="that the norms of a deep residual network stand on the path itself, and that no warm-up is set",
    how="follows the graph from each norm to the sum it reads, and measures the gradient at the first and the last",
    check=check,
    cannot_see="warm-ups that are made outside of the optimizer",
    again="loss(model(x), y).backward()\n"
    "print([(n, p.grad.norm()) for n, p in model.named_parameters() if p.grad is not None])",
    needs=("targets", "loss"),
)
