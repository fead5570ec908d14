"""Changes to a copy's batch or weights, and how far the outputs move for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

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


def relative_change(before: Tensor, after: Tensor) -> float:
    """The largest change of one number, by the largest number."""
    return ((after - before).abs().max() / before.abs().max().clamp(min=1e-30)).item()


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

    Its own numbers are the only ones known to be allowed: a token has to be in the vocabulary. Yes becomes no.

    >>> rows, = change_input((torch.tensor([[1, 2], [1, 2]]),), 0, (0,))
    >>> rows.tolist()
    [[2, 1], [1, 2]]
    """
    tensor: Tensor = inputs[place]
    if tensor.dtype is torch.bool:
        flipped = tensor.detach().clone()
        flipped[where] = ~flipped[where]
        return (*inputs[:place], flipped, *inputs[place + 1 :])
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


def perturb(specimen: Specimen, change: Callable[[nn.Module], object], mode: str = "") -> Specimen:
    """A copy on whose module a change was made.

    >>> zeroed = perturb(Specimen(nn.Linear(2, 1), (torch.ones(1, 2),)), lambda model: model.weight.zero_())
    >>> bool(zeroed.model.weight.any())
    False
    """
    copied = specimen.copy(mode)
    with torch.no_grad(), fixed_rng():
        change(copied.model)
    return copied


def redraw_weights(model: nn.Module, seed: int) -> None:
    """Other and larger weights: what then still holds, holds by construction. For `perturb`."""
    for parameter, noise in _noise_for(model, seed):
        parameter.copy_(noise * (3 * size_of(parameter) + 0.1))


def jitter_weights(model: nn.Module, seed: int) -> None:
    """Each weight nudged by about a tenth: what was 0 only because weights begin at 0, no longer is. For `perturb`."""
    for parameter, noise in _noise_for(model, seed):
        parameter.add_(noise.to(parameter) * (0.1 * size_of(parameter) + 0.01))


def draw_zero_matrices(model: nn.Module) -> None:
    """Small numbers in every matrix that is all zeros, as heads and branches that begin at zero are. For `perturb`.

    Behind such a matrix nothing shows: all outputs are the same, and no gradient comes through.
    """
    for parameter, noise in _noise_for(model, 0, lambda one: one.dim() >= 2 and not bool(one.any())):
        parameter.copy_(noise / max(1, parameter[0].numel()) ** 0.5)


def _noise_for(
    model: nn.Module, seed: int, is_chosen: Callable[[Tensor], bool] = lambda _: True
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter that is chosen, and as many normal numbers, one after the other from the seed."""
    rng = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.is_floating_point() and not parameter.is_meta and is_chosen(parameter):
            yield parameter, torch.randn(parameter.shape, generator=rng, dtype=torch.float32)


def outputs_under_other_weights(specimen: Specimen, times: int = 4) -> list[Tensor]:
    """What the module puts out with other weights, as long as it is finite."""
    copies = (perturb(specimen, partial(redraw_weights, seed=seed), "eval") for seed in range(times))
    found = [copied.main_output() for copied in copies]
    return [one for one in found if one is not None and bool(one.isfinite().all())]
