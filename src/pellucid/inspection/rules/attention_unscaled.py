"""Without 1/√width the scores of attention grow with the width, and before anything is learned one key has it all.

Told by the entropy of the weights, of the most there could be over the keys that are allowed: near 1 is undecided, near
0 is one-hot, where a softmax is flat. Only what has learned nothing yet is judged; later, attention may be sure.
"""

import inspect
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.recording import FunctionCall, ModuleCall, Recording, part_name, record
from pellucid.inspection.instrument.specimen import is_fresh
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NEARLY_ONE_HOT = 0.5  # of the entropy there could be
SPREAD = 1.0  # deviation of scores over the keys; divided by √width it is below this where weights are fresh
BARRED = -1e4  # masks write such scores or lower ones
FEWEST_KEYS = 4
_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "einsum"})
_GIVE_ON = frozenset({"dropout", "to", "type", "type_as", "float", "view", "reshape", "expand", "contiguous"})
_NAMES = frozenset({"softmax", "scaled_dot_product_attention"}) | _PRODUCTS | _GIVE_ON


class AttentionScores(NamedTuple):
    """One call of attention, by its scores. scores: (..., queries, keys)."""

    path: str
    scores: Tensor
    width: int | None  # of queries and keys
    is_unscaled: bool  # proven: the scores are products of projections as they are


def check(specimen: Specimen) -> Findings:
    # In eval: dropout would set weights to 0 that are none.
    if (seen := record(specimen.copy("eval"), _NAMES)) is None:
        return
    with torch.no_grad():
        found = [
            (attention, share)
            for attention in (*_scores_by_hand(seen), *_scores_of_fused(seen), *_scores_of_torch(seen))
            if (share := entropy_share(attention.scores)) is not None
        ]
        if not found or is_fresh(specimen) is False:
            return
        attention, share = min(found, key=lambda pair: pair[1])
        unscaled = [pair for pair in found if pair[0].is_unscaled]
        if share >= NEARLY_ONE_HOT and unscaled:
            attention, share = unscaled[0]
        yield _finding(attention, share)


def _finding(attention: AttentionScores, share: float) -> Finding:
    spread = _spread(attention.scores)
    root = math.sqrt(attention.width) if attention.width else 1.0
    divided = entropy_share(attention.scores / root)
    numbers = (
        f"the entropy of its weights is {share:.2f} of the most there could be, the scores deviate by {spread:.2g}"
    )
    where = part_name(attention.path)
    if share >= NEARLY_ONE_HOT and not attention.is_unscaled:
        return Finding.sound(where, numbers, "attention starts undecided")
    if attention.is_unscaled:
        numbers += f"; divided by √{attention.width} = {root:.2g} it would be {divided:.2f}"
    return Finding(
        "suspicious" if share < NEARLY_ONE_HOT or spread > SPREAD else "note",
        where,
        numbers,
        "it is nearly decided before it has learned anything, and where softmax is that sure it passes little gradient"
        if share < NEARLY_ONE_HOT
        else "queries times keys are not divided by √width, so the wider a head is the surer it starts",
        f"divide the scores by √{attention.width}"
        if attention.is_unscaled
        else "shrink what attention reads: put a norm before it, or draw the first weights smaller",
    )


def entropy_share(scores: Tensor) -> float | None:
    """The mean entropy of the softmax of scores, by the logarithm of how many keys are allowed; barred ones are not.

    scores: (..., queries, keys). None where no query has keys enough to choose from.

    >>> entropy_share(torch.zeros(1, 8)), entropy_share(torch.tensor([[99.0] + [0.0] * 7]))
    (1.0, 0.0)
    """
    allowed = scores > BARRED
    n_keys = allowed.sum(-1)
    rows = n_keys >= FEWEST_KEYS
    if not rows.any() or not bool(scores[allowed].isfinite().all()):
        return None
    logs = scores.double().masked_fill(~allowed, -math.inf).log_softmax(-1)[rows]
    entropy = -(logs.exp() * logs.masked_fill(~allowed[rows], 0.0)).sum(-1)
    return round((entropy / n_keys[rows].double().log()).mean().item(), 9) + 0.0


def _spread(scores: Tensor) -> float:
    """The deviation over the allowed keys of a query, in the mean."""
    allowed = scores > BARRED
    n = allowed.sum(-1).clamp(min=1)
    kept = scores.double().masked_fill(~allowed, 0.0)
    mean = kept.sum(-1) / n
    return (((kept - mean[..., None]).square() * allowed).sum(-1) / n).sqrt().mean().item()


def _scores_by_hand(seen: Recording) -> Iterator[AttentionScores]:
    """Softmaxes over the last dimension whose weights are multiplied with something: those of attention."""
    waiting: dict[int, tuple[FunctionCall, FunctionCall | None]] = {}
    product: FunctionCall | None = None
    for call in seen.functions:
        tensors = [each for each in _flat(call.arguments) if isinstance(each, Tensor)]
        if call.name in _GIVE_ON and tensors and id(tensors[0]) in waiting:
            waiting[id(call.made)] = waiting[id(tensors[0])]
        elif call.name == "softmax" and call.given is not None and call.given.dim() >= 3:
            if call.value_of("dim", 1, None) in (-1, call.given.dim() - 1):
                waiting[id(call.made)] = call, product
        elif call.name in _PRODUCTS:
            product = call
            for tensor in tensors:
                if (pair := waiting.pop(id(tensor), None)) is not None and pair[0].given is not None:
                    scores, made = pair[0].given, pair[1]
                    width = None if made is None or made.given is None else made.given.shape[-1]
                    yield AttentionScores(pair[0].path, scores, width, _is_unscaled(seen, made, scores))


def _flat(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for each in arguments:
        if isinstance(each, tuple | list):
            yield from each
        else:
            yield each


def _is_unscaled(seen: Recording, product: FunctionCall | None, scores: Tensor) -> bool:
    """Whether scores are the very products of two projections: no factor in what was multiplied, none after."""
    if product is None or not isinstance(product.made, Tensor) or product.made.numel() != scores.numel():
        return False
    raw = product.made.detach().reshape(scores.shape)
    allowed = scores > BARRED
    factors = [each for each in _flat(product.arguments) if isinstance(each, Tensor)][-2:]
    return (
        bool(torch.allclose(raw[allowed], scores[allowed], rtol=1e-5))
        and product.given is not None
        and product.given.shape[-1] > 1
        and len(factors) == 2
        and all(_is_projection(seen, factor) for factor in factors)
    )


def _is_projection(seen: Recording, tensor: Tensor) -> bool:
    """Whether it lies in the memory that a linear layer wrote: a view of it, nothing computed."""
    memory = tensor.untyped_storage().data_ptr()
    return any(
        isinstance(call.module, nn.Linear)
        and call.made is not None
        and call.made.untyped_storage().data_ptr() == memory
        for call in seen.modules
    )


def _scores_of_fused(seen: Recording) -> Iterator[AttentionScores]:
    for call in seen.functions:
        if call.name != "scaled_dot_product_attention":
            continue
        queries, keys = call.value_of("query", 0, None), call.value_of("key", 1, None)
        mask, is_causal = call.value_of("attn_mask", 3, None), call.value_of("is_causal", 5, False)
        asked = call.named.get("scale")
        if not isinstance(queries, Tensor) or not isinstance(keys, Tensor):
            continue
        scale = 1 / math.sqrt(queries.shape[-1]) if asked is None else float(asked)
        if keys.dim() == 4 and queries.dim() == 4 and keys.shape[1] not in (1, queries.shape[1]):
            keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)  # heads that share keys
        scores = scale * (queries @ keys.mT)
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
        if isinstance(mask, Tensor):
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
        is_raw = scale == 1 and queries.shape[-1] > 1
        is_unscaled = is_raw and _is_projection(seen, queries) and _is_projection(seen, keys)
        yield AttentionScores(call.path, scores, queries.shape[-1], is_unscaled)


def _scores_of_torch(seen: Recording) -> Iterator[AttentionScores]:
    """nn.MultiheadAttention hands its weights out when asked; their logarithms are scores."""
    for call in seen.modules:
        if isinstance(call.module, nn.MultiheadAttention):
            scores = try_or_none(partial(_log_weights, call))
            if scores is not None:
                yield AttentionScores(call.path, scores, call.module.head_dim, is_unscaled=False)


def _log_weights(call: ModuleCall) -> Tensor:
    arguments, named = call.arguments
    given = inspect.signature(call.module.forward).bind(*arguments, **named).arguments
    weights: Tensor = call.module(**{**given, "need_weights": True, "average_attn_weights": False})[1]
    is_masked = given.get("attn_mask") is not None or given.get("key_padding_mask") is not None
    # Without a mask no key is barred, and a weight of 0 is one too small to be written.
    return (weights if is_masked else weights.clamp(min=torch.finfo(weights.dtype).tiny)).log()


RULE = DoctorRule(
    name="attention-unscaled",
    proves="that attention is nearly decided before it has learned anything, or that its scores grow with the width",
    how="measures the entropy of every softmax whose weights are multiplied with values, also of fused ones",
    check=check,
    cannot_see="attention that is written without a softmax, or whose weights meet no values",
    again="class Seen(torch.overrides.TorchFunctionMode):\n"
    "    def __torch_function__(self, function, types, args=(), kwargs=None):\n"
    "        out = function(*args, **(kwargs or {}))\n"
    "        if 'softmax' in function.__name__:\n"
    "            print(-(out * out.log()).nansum(-1).mean() / math.log(out.shape[-1]))\n"
    "        return out\n"
    "with Seen():\n"
    "    model(x)",
)
