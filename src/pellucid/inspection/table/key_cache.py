"""What a causal model must keep of every token that it read: keys and values of each of its attentions.

Attention is known by what is dispatched, whoever wrote it: torch's fused kernels, or a product whose softmax goes into
another product. That it is causal is told by its flag, or seen: no weight above the diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.table.flow import DispatchedOp, TensorMemory

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
