"""How the cost of a forward grows with the length of what comes in, and where n² overtakes the rest.

FLOPs depend on shapes alone. A quick module is simply run on longer and shorter inputs. One that takes long is run
without numbers, on the device "meta": that costs no arithmetic and no memory, but torch takes a millisecond for what it
adds or compares there. A module that looks at its numbers cannot be run so; then shorter pieces of the inputs are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pellucid.inspection.instrument.isolation import fixed_rng, own_inputs
from pellucid.inspection.instrument.recording import InterceptOperators
from pellucid.inspection.table.trace import DispatchedOp, Flow, TensorMemory
from pellucid.records.inspection import CostScaling

ENOUGH_SECONDS = 1.0  # for one length: a recurrent layer is run step by step
FEWEST = 4  # lengths: through three goes a + b·n + c·n² whatever was counted
_NEAR = Fraction(1, 50)  # of what was counted: strides round lengths down


def cost_scaling(
    model: nn.Module, inputs: tuple[Any, ...], axes: Sequence[int | None], batch: int, is_quick: bool
) -> CostScaling | None:
    """FLOPs by operation at several lengths. axes: of each input the dimension that is time; None: it has none.

    None where no input has time, or no other length can be run.

    >>> cost_scaling(nn.Linear(4, 4), (torch.zeros(2, 8, 4),), axes=[1], batch=2, is_quick=True).polynomial
    (0.0, 32.0, 0.0)
    """
    lengths = {one.shape[axis] for one, axis in zip(inputs, axes, strict=True) if axis is not None}
    if len(lengths) != 1:
        return None
    n = lengths.pop()
    shorter = [n // 4, n // 2, 3 * n // 4, n]
    found = _costs(lambda length: _flops(model, inputs, axes, n, length, is_quick), [*shorter, 2 * n, 4 * n])
    if len(found) < FEWEST:
        found = _costs(lambda length: _flops(model, inputs, axes, n, length, has_numbers=True), shorter)
    if len(found) < FEWEST:
        return None
    whole = polynomial(found)
    if whole is None:
        return CostScaling(tuple(found), tuple(found.values()), None, None)
    a, b, c = (one / max(1, batch) for one in whole)
    return CostScaling(tuple(found), tuple(found.values()), (float(a), float(b), float(c)), overtaking_length(a, b, c))


def _costs(run: Callable[[int], int], lengths: Sequence[int]) -> dict[int, int]:
    """FLOPs at each length that can be run; a context that is too short for one is no reason to know nothing.

    A length that would take too long, by what shorter ones took, is left out.
    """
    found: dict[int, int] = {}
    took: list[tuple[int, float]] = []
    for length in sorted(set(lengths)):
        if length < 1 or _expected_seconds(took, length) > ENOUGH_SECONDS:
            continue
        start = process_time()
        try:
            found[length] = run(length)
        except Exception:  # whatever a forward raises on a length that it was not made for
            continue
        took.append((length, process_time() - start))
    return found


def _expected_seconds(took: Sequence[tuple[int, float]], length: int) -> float:
    """On from the first and the last run in a straight line; most modules take as long for any length.

    >>> _expected_seconds([(1, 0.25), (2, 0.5)], 8)
    2.0
    """
    if len(took) < 2:
        return 0.0
    (short, first), (long, last) = took[0], took[-1]
    return last + max(0.0, last - first) / (long - short) * (length - long)


def _flops(
    model: nn.Module, inputs: tuple[Any, ...], axes: Sequence[int | None], n: int, length: int, has_numbers: bool
) -> int:
    given = tuple(
        _resize(one, axis, n, length) if isinstance(one, Tensor) else one
        for one, axis in zip(inputs, axes, strict=True)
    )
    flow = Flow({})
    counting = InterceptOperators(flow.see)
    if has_numbers:
        with fixed_rng(), torch.no_grad(), counting:
            model(*own_inputs(given))
        return flow.flops
    tensors = (*nn.Module.named_parameters(model), *nn.Module.named_buffers(model))
    state = {name: one.detach().to("meta") for name, one in tensors}
    given = tuple(one.to("meta") if isinstance(one, Tensor) else one for one in given)
    # Tensors that a forward makes for itself, as positions, are made without numbers too.
    with fixed_rng(), torch.no_grad(), torch.device("meta"), counting:
        functional_call(model, state, given)
    return flow.flops


def _resize(one: Tensor, axis: int | None, n: int, length: int) -> Tensor:
    """The input at another length, cut off or repeated; of a mask, which is as wide as high, both sides are.

    >>> _resize(torch.tensor([[1, 2, 3]]), 1, n=3, length=5)
    tensor([[1, 2, 3, 1, 2]])
    """
    places = torch.arange(length, device=one.device) % n
    if axis is not None:
        return one.index_select(axis, places)
    is_mask = one.dim() >= 2 and tuple(one.shape[-2:]) == (n, n)
    return one.index_select(-1, places).index_select(-2, places) if is_mask else one


def polynomial(costs: dict[int, int]) -> tuple[Fraction, Fraction, Fraction] | None:
    """a, b and c of the a + b·n + c·n² that goes through these costs; None where none does.

    The shortest may lie beside it: where a stride rounds down, most is lost of the least.

    >>> [int(one) for one in polynomial({1: 6, 2: 11, 3: 18, 4: 27})]
    [3, 2, 1]
    """
    ns = sorted(costs)
    for x, y, z in [(ns[0], ns[len(ns) // 2], ns[-1]), (ns[-4], ns[-2], ns[-1])]:
        slope = Fraction(costs[y] - costs[x], y - x)
        c = (Fraction(costs[z] - costs[x], z - x) - slope) / (z - y)
        b = slope - c * (x + y)
        a = costs[x] - b * x - c * x * x
        if all(abs(a + b * n + c * n * n - costs[n]) <= _NEAR * costs[n] for n in ns if n >= x):
            return a, b, c
    return None


def overtaking_length(a: Fraction, b: Fraction, c: Fraction) -> int | None:
    """The first length n at which c·n² is more than a + b·n; None where c is nothing.

    >>> overtaking_length(Fraction(0), Fraction(600), Fraction(2))
    301
    """
    if round(c) <= 0:
        return None
    n = 1
    while c * n * n <= a + b * n:
        n *= 2
    return bisect_left(range(n), True, lo=n // 2 + 1, hi=n, key=lambda n: c * n * n > a + b * n)


# What a causal model must keep of every token that it read: keys and values of each of its attentions. Attention is
# known by what is dispatched, whoever wrote it: torch's fused kernels, or a product whose softmax goes into another
# product. That it is causal is told by its flag, or seen: no weight above the diagonal.

_SOFTMAX = ("_softmax", "_safe_softmax")
_HIDDEN = -1e4  # a score that is lower is meant to be hidden


class _Scores(NamedTuple):
    """A product that may become the weights of attention."""

    key_bytes: float  # for each position, over the whole batch
    are_weights: bool = False  # the softmax was taken
    is_causal: bool = False


class KeyCache:
    """Adds up the keys and values of every causal attention of a forward."""

    def __init__(self) -> None:
        self._scores: TensorMemory[_Scores] = TensorMemory()
        self._of_examples: list[float] = []  # bytes for each token of one example
        self._of_batches: list[float] = []  # the same where heads and examples were folded into one dimension

    def bytes_per_token(self, batch: int) -> int | None:
        """For one of so many examples; None where there is no causal attention that could be told."""
        if not self._of_examples and not (self._of_batches and batch):
            return None
        return round(sum(self._of_examples) + sum(self._of_batches) / max(1, batch))

    def see(self, operation: DispatchedOp) -> None:
        name = operation.name
        if name.startswith("_scaled_dot_product"):
            given = operation.arguments
            mask = given.get("attn_mask", given.get("attn_bias"))
            is_causal = bool(given.get("is_causal", False)) or (mask is not None and hides_later(mask))
            if is_causal:
                self._of_examples.append(_bytes_of_heads(given["key"]) + _bytes_of_heads(given["value"]))
        elif name in ("bmm", "baddbmm"):
            given = operation.arguments
            left, right = (given["self"], given["mat2"]) if name == "bmm" else (given["batch1"], given["batch2"])
            self._see_product(left, right, operation.out)
        elif self._scores:
            self._pass_on(operation)

    def _see_product(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        scores = self._scores.get(left)
        each = right.numel() * right.element_size()
        if scores is not None and scores.are_weights:
            if scores.is_causal:
                self._of_batches.append(scores.key_bytes + each / right.shape[1])
        elif out.shape[-1]:
            self._scores.put(out, _Scores(each / out.shape[-1]))

    def _pass_on(self, operation: DispatchedOp) -> None:
        """Scores stay scores while they are scaled, masked, reshaped or dropped, and become weights by a softmax."""
        found = [(one, tensor) for tensor in operation.tensors if (one := self._scores.get(tensor)) is not None]
        if not found:
            return
        scores, tensor = found[0]
        for out in operation.made:
            if out.numel() == tensor.numel():
                if operation.name in _SOFTMAX:
                    scores = scores._replace(are_weights=True, is_causal=gives_nothing_to_later(out))
                self._scores.put(out, scores)


def hides_later(mask: Tensor) -> bool:
    """Whether a mask, of yes and no or of what is added to scores, hides from each position all that come later.

    >>> hides_later(torch.ones(3, 3).tril().bool()), hides_later(torch.zeros(3, 3)), hides_later(torch.ones(1, 1))
    (True, False, False)
    """
    later = _later(mask)
    if later is None:
        return False
    hidden = ~mask if mask.dtype is torch.bool else mask < _HIDDEN
    return bool(hidden[..., later].all())


def gives_nothing_to_later(weights: Tensor) -> bool:
    """Whether weights of attention, (..., time, time), are all zero above the diagonal, and not all below it."""
    later = _later(weights)
    return later is not None and not bool(weights[..., later].any())


def _later(square: Tensor) -> Tensor | None:
    """Where a square of positions has later ones; None where it is no square, of one position, or without numbers."""
    if square.dim() < 2 or square.shape[-1] != square.shape[-2] or square.shape[-1] < 2 or square.is_meta:
        return None
    return torch.ones(square.shape[-2:], dtype=torch.bool, device=square.device).triu(1)


def _bytes_of_heads(tensor: Tensor) -> float:
    """Bytes of one position of one example: (batch, heads, time, width). Heads that repeat another are kept once."""
    heads, width = tensor.shape[1], tensor.shape[3]
    if not tensor.is_meta:
        heads -= sum(torch.equal(tensor[:, head], tensor[:, head - 1]) for head in range(1, heads))
    return float(heads * width * tensor.element_size())
