"""Changes to a copy's batch or weights, and how far the outputs move for them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.specimen import Specimen, run_module

# Two ways to the same sum differ by rounding; in float32, over a deep network, by less than this share of the outputs.
ROUNDING = 1e-4


def largest_change(before: Tensor, after: Tensor) -> float:
    """The largest change of one number. What is no number in both has not moved; a change of shape is infinite.

    >>> largest_change(torch.tensor([1.0, float("nan")]), torch.tensor([3.0, float("nan")]))
    2.0
    """
    if before.shape != after.shape:
        return math.inf
    if not before.numel():
        return 0.0
    apart = (before.double() - after.double()).abs()
    # inf - inf is no number either, and has not moved.
    apart[(before == after) | (before.isnan() & after.isnan())] = 0
    return float(apart.nan_to_num(nan=math.inf).max())


def size_of(tensor: Tensor) -> float:
    """The root of the mean square, of what is finite; 0 where nothing is."""
    finite = tensor.detach().double()
    finite = finite[finite.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def is_beyond_rounding(change: float, tensor: Tensor) -> bool:
    """Whether a change is more than two ways of adding up the same numbers could make."""
    return change > ROUNDING * max(size_of(tensor), 1e-6)


def batch_input(specimen: Specimen) -> int | None:
    """Which input is changed by probes: the first tensor of numbers that has rows; None where there is none.

    Only one, since a mask may be as long as the batch is, and belongs to all rows.
    """
    for place, one in enumerate(specimen.inputs):
        if isinstance(one, Tensor) and one.dim() and one.numel() and one.dtype is not torch.bool:
            return place
    return None


def change_input(inputs: tuple[Any, ...], place: int, where: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...] | None:
    """The inputs with other numbers at `where` of one of them, drawn from its own; None where they are all the same.

    Its own numbers are the only ones known to be allowed: a token has to be in the vocabulary.

    >>> rows, = change_input((torch.tensor([[1, 2], [1, 2]]),), 0, (0,))
    >>> rows.tolist()
    [[2, 1], [1, 2]]
    """
    tensor: Tensor = inputs[place]
    known = tensor.detach().reshape(-1).unique()  # type: ignore[no-untyped-call]
    changed = tensor.detach().clone()
    old = changed[where]
    if len(known) < 2:
        return None
    # Each number becomes another of the known ones: a step around their circle, never all the way.
    order = torch.searchsorted(known, old.contiguous())
    steps = torch.randint(1, len(known), old.shape, generator=torch.Generator().manual_seed(seed))
    changed[where] = known[(order + steps) % len(known)]
    return (*inputs[:place], changed, *inputs[place + 1 :])


def redraw_weights(model: nn.Module, seed: int) -> nn.Module:
    """The module, which must be a copy, with other and larger weights: what then still holds, holds by construction."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                drawn = torch.randn(parameter.shape, generator=rng, dtype=torch.float32)
                parameter.copy_(drawn * (3 * size_of(parameter) + 0.1))
    return model


def outputs_under_other_weights(specimen: Specimen, times: int = 4) -> list[Tensor]:
    """What the module puts out with other weights, as long as it is finite."""
    copies = (redraw_weights(specimen.copy("eval").model, seed) for seed in range(times))
    found = [run_module(model, specimen.inputs) for model in copies]
    return [one for one in found if one is not None and bool(one.isfinite().all())]


def draw_zero_matrices(copied: Specimen) -> Specimen:
    """The copy with small numbers in every matrix that is all zeros, as heads and branches that begin at zero are.

    Behind such a matrix nothing shows: all outputs are the same, and no gradient comes through.

    >>> zero = nn.Linear(2, 2)
    >>> _ = nn.init.zeros_(zero.weight)
    >>> bool(draw_zero_matrices(Specimen(zero, ())).model.weight.any())
    True
    """
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in copied.model.parameters():
            if parameter.is_meta or not parameter.is_floating_point():
                continue
            if parameter.dim() >= 2 and not bool(parameter.any()):
                drawn = torch.randn(parameter.shape, generator=rng, dtype=torch.float32)
                parameter.copy_(drawn / max(1, parameter[0].numel()) ** 0.5)
    return copied


def jitter_weights(model: nn.Module, seed: int) -> nn.Module:
    """A copy with each weight nudged by about a tenth: what was 0 only because weights begin at 0, no longer is."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                nudge = torch.randn(parameter.shape, generator=rng).to(parameter)
                parameter.add_(nudge * (0.1 * size_of(parameter) + 0.01))
    return model
