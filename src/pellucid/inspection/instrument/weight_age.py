"""Whether weights are as they were drawn: a first loss is judged of such, a plateau of those that were trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.specimen import Specimen

_DRAWN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
FEWEST_STEPS = 10  # before which nobody could know anything
FEWEST_TO_TELL = 32  # of weights: with these, the largest of a layer as torch draws it is near its bound


def steps_taken(optimizer: torch.optim.Optimizer | None) -> int:
    """How many steps an optimizer remembers; 0 where it remembers none, or does not count, as SGD.

    >>> layer = nn.Linear(2, 1)
    >>> adam = torch.optim.Adam(layer.parameters())
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> before = steps_taken(adam)
    >>> adam.step()
    >>> before, steps_taken(adam)
    (0, 1)
    """
    states = optimizer.state.values() if optimizer is not None else ()
    return max((int(state["step"]) for state in states if "step" in state), default=0)


def is_fresh(specimen: Specimen) -> bool | None:
    """Whether nothing was learned yet; None where it cannot be told.

    Norms are born with ones and zeros, and a step leaves none of them alone. Linear layers and convolutions are drawn
    by torch within a bound that training crosses.

    >>> is_fresh(Specimen(nn.Linear(9, 9), ()))
    True
    """
    if specimen.optimizer is not None and any(specimen.optimizer.state.values()):
        return False
    return _looks_fresh(specimen.model)


def was_trained(specimen: Specimen) -> bool:
    """Whether it was trained for long enough to know something, as far as can be told."""
    steps = steps_taken(specimen.optimizer)
    if steps:
        return steps >= FEWEST_STEPS
    has_memory = specimen.optimizer is not None and any(specimen.optimizer.state.values())
    looks_fresh = _looks_fresh(specimen.model)
    return looks_fresh is False or (has_memory and looks_fresh is None)


def _looks_fresh(model: nn.Module) -> bool | None:
    signs = [sign for module in model.modules() for sign in _signs(module)]
    if any(sign is False for sign in signs):
        return False
    known = sum(sign is True for sign in signs)
    return True if known and known >= len(signs) / 2 else None


def is_as_drawn(weight: Tensor, fan_in: int) -> bool:
    """Whether a weight looks as torch draws it: within ±1/√fan_in, evenly up to the bound."""
    largest = float(weight.detach().abs().max()) * math.sqrt(fan_in) if weight.numel() else 0.0
    return weight.numel() >= FEWEST_TO_TELL and 0.8 < largest <= 1 + 1e-5


def _signs(module: nn.Module) -> list[bool | None]:
    """Of a part that can tell: fresh, trained, or not known."""
    if isinstance(module, _NORMS):
        weight, bias = module.weight, getattr(module, "bias", None)
        if weight is None or not weight.requires_grad:
            return []
        # The last norm of a residual branch is often begun with zeros.
        is_born_so = bool((weight == 1).all()) or bool((weight == 0).all())
        return [is_born_so and (bias is None or bool((bias == 0).all()))]
    if isinstance(module, _DRAWN) and isinstance(module.weight, Tensor) and module.weight.requires_grad:
        fan_in = module.weight[0].numel()
        # Many draw the weights in their own way, and leave the bias as torch drew it, or begin it with zeros.
        bias = module.bias if module.bias is not None and module.bias.numel() > 1 else None
        is_empty = bias is not None and bool((bias == 0).all())
        is_own = float(module.weight.detach().abs().max()) * math.sqrt(fan_in) > 1.5  # drawn, but not by torch
        is_drawn = is_as_drawn(bias, fan_in) if is_own and bias is not None else is_as_drawn(module.weight, fan_in)
        return [True if is_empty or is_drawn else None]
    return []
