"""What probes are made of: a run with dice of its own, a batch changed in one place, and how far the outputs moved."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.inspection.patient import Patient, tensor_of, unchanged_randomness

# Two ways to the same sum differ by rounding; in float32, over a deep network, by less than this share of the outputs.
ROUNDING = 1e-4


@contextmanager
def probing(seed: int = 0) -> Iterator[None]:
    """Inside, dice are thrown from this seed, gradients are on and warnings unheard; afterwards all is as before."""
    python, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with unchanged_randomness(seed), torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)


def fresh(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs of its own for one run, since a module may write into what it reads."""
    return tuple(one.detach().clone() if isinstance(one, Tensor) else one for one in inputs)


def answer(model: nn.Module, inputs: tuple[Any, ...], seed: int = 0) -> Tensor | None:
    """The main tensor that a module puts out, without its graph; None where it puts out none.

    >>> answer(nn.Flatten(), (torch.ones(2, 3, 4),)).shape
    torch.Size([2, 12])
    """
    with probing(seed), torch.no_grad():
        found = tensor_of(model(*fresh(inputs)))
    return None if found is None else found.detach()


def moved(before: Tensor, after: Tensor) -> float:
    """The largest change of one number. What is no number in both has not moved; a change of shape is infinite.

    >>> moved(torch.tensor([1.0, float("nan")]), torch.tensor([3.0, float("nan")]))
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


def batch_place(patient: Patient) -> int | None:
    """Which input is changed by probes: the first tensor of numbers that has rows; None where there is none.

    Only one, since a mask may be as long as the batch is, and belongs to all rows.
    """
    for place, one in enumerate(patient.inputs):
        if isinstance(one, Tensor) and one.dim() and one.numel() and one.dtype is not torch.bool:
            return place
    return None


def with_changed(inputs: tuple[Any, ...], place: int, where: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...] | None:
    """The inputs with other numbers at `where` of one of them, drawn from its own; None where they are all the same.

    Its own numbers are the only ones known to be allowed: a token has to be in the vocabulary.

    >>> rows, = with_changed((torch.tensor([[1, 2], [1, 2]]),), 0, (0,))
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


def wild(model: nn.Module, seed: int) -> nn.Module:
    """The module, which must be a copy, with other and larger weights: what then still holds, holds by construction."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                drawn = torch.randn(parameter.shape, generator=dice, dtype=torch.float32)
                parameter.copy_(drawn * (3 * size_of(parameter) + 0.1))
    return model


def under_other_weights(patient: Patient, times: int = 4) -> list[Tensor]:
    """What the module puts out with other weights, as long as it is finite."""
    copies = (wild(patient.copied().model.eval(), seed) for seed in range(times))
    found = [answer(model, patient.inputs) for model in copies]
    return [one for one in found if one is not None and bool(one.isfinite().all())]


def last_part(patient: Patient) -> str:
    """The path of the module that makes the main output; "the model" where that is made between modules."""
    model = patient.copied().model
    made: list[tuple[str, Tensor]] = []

    def saw(path: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, outputs: Any) -> None:
            tensor = tensor_of(outputs)
            if tensor is not None:
                made.append((path, tensor))

        return hook

    for path, module in model.named_modules():
        module.register_forward_hook(saw(path))
    with probing(), torch.no_grad():
        final = tensor_of(model(*fresh(patient.inputs)))
    return next((path for path, tensor in made if tensor is final and path), "the model")
