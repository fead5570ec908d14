"""How the cost of a forward grows with the length of what comes in, and where n² overtakes the rest.

FLOPs depend on shapes alone, so other lengths are run without numbers, on the device "meta": that costs no arithmetic
and no memory. A module that looks at its numbers cannot be run so; then shorter pieces of the real inputs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pellucid.inspection.borrowing import own_inputs
from pellucid.inspection.flow import Flow
from pellucid.inspection.patient import unchanged_randomness
from pellucid.records.inspection import CostScaling

ENOUGH_SECONDS = 2.0  # after so long no further length is run
_NEAR = Fraction(1, 50)  # of what was counted: strides round lengths down


def cost_scaling(
    model: nn.Module, inputs: tuple[Any, ...], axes: Sequence[int | None], batch: int
) -> CostScaling | None:
    """FLOPs by operation at several lengths. axes: of each input the dimension that is time; None: it has none.

    None where no input has time, or no other length can be run.

    >>> cost_scaling(nn.Linear(4, 4), (torch.zeros(2, 8, 4),), axes=[1], batch=2).says
    'a sequence of n costs 32·n FLOPs: in proportion to its length'
    """
    lengths = {one.shape[axis] for one, axis in zip(inputs, axes, strict=True) if axis is not None}
    if len(lengths) != 1:
        return None
    n = lengths.pop()
    found = _costs(lambda length: _without_numbers(model, inputs, axes, n, length), [n // 4, n // 2, n, 2 * n, 4 * n])
    if len(found) < 3:
        found = _costs(lambda length: _shortened(model, inputs, axes, n, length), [n // 4, n // 2, 3 * n // 4, n])
    if len(found) < 3:
        return None
    return CostScaling(tuple(found), tuple(found.values()), scaling_in_words(found, max(1, batch)))


def _costs(run: Callable[[int], int], lengths: Sequence[int]) -> dict[int, int]:
    """FLOPs at each length that can be run; a context that is too short for one is no reason to know nothing."""
    start = process_time()
    found = {}
    for length in lengths:
        if length < 1 or process_time() - start > ENOUGH_SECONDS:
            continue
        try:
            found[length] = run(length)
        except Exception:  # whatever a forward raises on a length that it was not made for
            continue
    return found


def _without_numbers(model: nn.Module, inputs: tuple[Any, ...], axes: Sequence[int | None], n: int, length: int) -> int:
    state = {name: one.detach().to("meta") for name, one in _named_tensors(model).items()}
    given = []
    for one, axis in zip(inputs, axes, strict=True):
        if isinstance(one, Tensor):
            one = torch.empty(_resized(one.shape, axis, n, length), dtype=one.dtype, device="meta")
        given.append(one)
    flow = Flow({})
    # Tensors that a forward makes for itself, as positions, are made without numbers too.
    with unchanged_randomness(), torch.no_grad(), torch.device("meta"), flow:
        functional_call(model, state, tuple(given))
    return flow.flops


def _resized(shape: Sequence[int], axis: int | None, n: int, length: int) -> list[int]:
    """The shape at another length; a mask, which is as wide as high, changes both."""
    sizes = list(shape)
    if axis is not None:
        sizes[axis] = length
    elif sizes[-2:] == [n, n]:
        sizes[-2:] = [length, length]
    return sizes


def _shortened(model: nn.Module, inputs: tuple[Any, ...], axes: Sequence[int | None], n: int, length: int) -> int:
    given = []
    for one, axis in zip(inputs, axes, strict=True):
        if isinstance(one, Tensor):
            sizes = _resized(one.shape, axis, n, length)
            one = one[tuple(slice(size) for size in sizes)]
        given.append(one)
    flow = Flow({})
    with unchanged_randomness(), torch.no_grad(), flow:
        model(*own_inputs(tuple(given)))
    return flow.flops


def _named_tensors(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(nn.Module.named_parameters(model)), **dict(nn.Module.named_buffers(model))}


def polynomial(costs: dict[int, int]) -> tuple[Fraction, Fraction, Fraction] | None:
    """a, b and c of the a + b·n + c·n² that goes through these costs; None where none does.

    The shortest may lie beside it: where a stride rounds down, most is lost of the least.

    >>> [int(one) for one in polynomial({1: 6, 2: 11, 3: 18, 4: 27})]
    [3, 2, 1]
    """
    ns = sorted(costs)
    for x, y, z in [(ns[0], ns[len(ns) // 2], ns[-1]), tuple(ns[-3:])]:
        slope = Fraction(costs[y] - costs[x], y - x)
        c = (Fraction(costs[z] - costs[x], z - x) - slope) / (z - y)
        b = slope - c * (x + y)
        a = costs[x] - b * x - c * x * x
        if all(abs(a + b * n + c * n * n - costs[n]) <= _NEAR * costs[n] for n in ns if n >= x):
            return a, b, c
    return None


def scaling_in_words(costs: dict[int, int], batch: int = 1) -> str:
    """
    >>> scaling_in_words({n: 600 * n + 2 * n * n for n in (1, 2, 3)})
    'a sequence of n costs 600·n + 2·n² FLOPs: n² overtakes the rest from n = 301'
    """
    found = polynomial(costs)
    if found is None:
        return "the cost does not follow a + b·n + c·n²"
    a, b, c = (one / batch for one in found)
    terms = [f"{float(one):,.0f}{name}" for one, name in ((a, ""), (b, "·n"), (c, "·n²")) if round(one)]
    says = f"a sequence of n costs {' + '.join(terms) or '0'} FLOPs".replace("+ -", "- ")
    if round(c) <= 0:
        return f"{says}: in proportion to its length" if round(b) and not round(a) else says
    n = 1
    while c * n * n <= a + b * n:
        n *= 2
    low = n // 2
    while n - low > 1:
        middle = (low + n) // 2
        low, n = (middle, n) if c * middle * middle <= a + b * middle else (low, middle)
    return f"{says}: n² overtakes the rest from n = {n:,}"
