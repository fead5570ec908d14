"""Attention alone sees a bag of tokens: without positions, tokens in another order give the same outputs in that order.

A mask that hides what comes later also tells the order, a little, from the second layer on. So it is lifted in the
copy, and what then goes by the order alone are positions, whatever they are made of. A module that reads each position
by itself has nothing to put in order, and is not judged; nor is one whose labels a bag of tokens tells as well.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.loss_view import sequence_inputs
from pellucid.inspection.instrument.perturbation import draw_zero_matrices, perturb
from pellucid.inspection.instrument.recording import InterceptFunctions, function_name, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MASKED = -1e4
FEWEST = 3  # tokens of a row
FEWEST_LABELS = 24  # by which it can be told whether a bag of tokens tells them
MOST_KINDS = 2000  # of tokens, for which that is tried
SURE = 4.0  # deviations above chance
_ATTENTION = frozenset({"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"})


def lift_masks() -> InterceptFunctions:
    """Inside, nothing is masked from attention: scores are not filled with -inf, and no such mask is added to them.

    >>> with lift_masks():
    ...     torch.zeros(2).masked_fill(torch.tensor([True, False]), float("-inf"))
    tensor([0., 0.])
    """
    return InterceptFunctions(_call_without_mask)


def _call_without_mask(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    name = function_name(function)
    if name == "masked_fill" and _masks(named.get("value", args[-1])):
        return args[0]
    if name == "where" and len(args) == 3 and (_masks(args[1]) or _masks(args[2])):
        return args[2] if _masks(args[1]) else args[1]
    if name in ("add", "radd", "iadd") and len(args) == 2 and any(isinstance(each, Tensor) for each in args):
        args = tuple(_lift(each) for each in args)
    if name == "scaled_dot_product_attention":
        args = (*args[:3], *(() if len(args) < 4 else (_lift(args[3]), *args[4:5])))
        named |= {"is_causal": False} | ({"attn_mask": _lift(named["attn_mask"])} if "attn_mask" in named else {})
    if name == "multi_head_attention_forward":
        named |= {"is_causal": False, "attn_mask": _lift(named.get("attn_mask")), "key_padding_mask": None}
    return function(*args, **named)


def _masks(value: Any) -> bool:
    """Whether a value, or a tensor all over, masks what it is written on."""
    if isinstance(value, Tensor):
        return value.is_floating_point() and value.numel() > 0 and bool((value <= MASKED).all())
    return isinstance(value, float | int) and value <= MASKED


def _lift(mask: Any) -> Any:
    """A mask that hides nothing: one of yes and no goes, in one of numbers those that hide become 0."""
    if not isinstance(mask, Tensor):
        return mask
    if mask.dtype is torch.bool:
        return None
    return mask.masked_fill(mask <= MASKED, 0.0) if mask.is_floating_point() else mask


class _Order(NamedTuple):
    """How far outputs are from those that know no order, by their own size."""

    moved_along: float  # from the outputs in the new order
    stayed: float  # from the outputs as they were
    has_mixed: bool  # whether one token changes what is put out for others, or for the row as a whole


def check(specimen: Specimen) -> Findings:
    if (place := _sequence(specimen)) is None:
        return
    double = perturb(specimen, draw_zero_matrices, "eval").double()
    found = [order for is_lifted in (False, True) if (order := try_or_none(partial(_order, double, place, is_lifted)))]
    if not found or not any(order.has_mixed for order in found):
        return
    floats = (one.dtype for one in double.model.parameters() if one.is_floating_point())
    rounding = 1e5 * torch.finfo(next(floats, torch.float32)).eps
    blind = next((which for which, order in enumerate(found) if min(order[:2]) < rounding and order.has_mixed), None)
    if blind is None:
        moved = min(found[-1][:2])
        seen = f"with the tokens in another order the outputs differ by {moved:.2g} of their size, beyond that order"
        yield Finding.sound("the model", seen, "it sees the order")
        return
    order = found[blind]
    kept = "keeps" if order.stayed <= order.moved_along else "permutes"
    yield Finding(
        "suspicious" if blind == 0 and _asks_for_order(specimen, double) else "note",
        "the model",
        f"another order of the tokens {kept} the outputs, up to {min(order[:2]):.1g} of their size"
        + (" once the mask is lifted" if blind else ""),
        "it cannot tell one order from another" + (" but by its mask" if blind else ""),
        "add positions to the embeddings (learned, sinusoidal) or rotate queries and keys, if the order matters",
        again="order = torch.randperm(x.shape[1]); print((model.eval()(x[:, order]) - model(x)"
        f"{'' if kept == 'keeps' else '[:, order]'}).abs().max())",
    )


def _sequence(specimen: Specimen) -> int | None:
    """Which input is one, long enough and not all alike."""
    given = ((place, specimen.inputs[place]) for place in sequence_inputs(specimen))
    return next((place for place, one in given if one.shape[1] >= FEWEST and bool((one[:, :1] != one).any())), None)


def _asks_for_order(specimen: Specimen, double: Specimen) -> bool:
    """Whether a sequence is to be told, or attention reads tokens: a bag of words is read without."""
    if specimen.target is not None and specimen.target.dim() >= 2 and specimen.target.shape[1] >= FEWEST:
        return True
    seen = None if specimen.tokens is None else record(double, _ATTENTION)
    return seen is not None and bool(seen.functions) and not bag_tells_labels(specimen)


def bag_tells_labels(specimen: Specimen) -> bool:
    """Whether the labels of texts can be told by which tokens they have, whatever their order.

    Measured by a ridge regression on the counts of tokens that leaves out each row in turn, over all batches: it has to
    be right more often than the commonest label is, by far more than chance allows.

    >>> tokens = torch.tensor([[1, 2], [3, 4], [2, 1], [4, 3]]).repeat(16, 1)
    >>> bag_tells_labels(Specimen(torch.nn.Embedding(5, 2), (tokens,), (tokens[:, 0] > 2).long()))
    True
    >>> bag_tells_labels(Specimen(torch.nn.Embedding(5, 2), (tokens,), (tokens[:, 0] > tokens[:, 1]).long()))
    False
    """
    rows = [
        (one.tokens, one.target)
        for one in specimen.batches()
        if one.tokens is not None and one.target is not None and one.target.shape == one.tokens.shape[:1]
    ]
    if not rows or any(labels.is_floating_point() for _, labels in rows):
        return False
    n_tokens = 1 + max(int(tokens.max()) for tokens, _ in rows)
    counts = torch.cat([torch.nn.functional.one_hot(tokens.long(), n_tokens).sum(1) for tokens, _ in rows]).double()
    labels = torch.cat([labels.long() for _, labels in rows])
    if len(labels) < FEWEST_LABELS or n_tokens > MOST_KINDS or not bool((labels != labels[0]).any()):
        return False
    known = torch.nn.functional.one_hot(labels - labels.min()).double()
    counts = torch.cat([counts, torch.ones(len(counts), 1, dtype=torch.float64)], 1)
    hat = counts @ torch.linalg.solve(counts.T @ counts + torch.eye(n_tokens + 1, dtype=torch.float64), counts.T)
    own = hat.diagonal()[:, None]
    told = ((hat @ known - own * known) / (1 - own).clamp(min=1e-6)).argmax(1)
    right, chance = float((told == known.argmax(1)).double().mean()), float(known.mean(0).max())
    return right - chance > SURE * math.sqrt(chance * (1 - chance) / len(labels))


def _order(double: Specimen, place: int, is_lifted: bool) -> _Order:
    tokens = double.inputs[place]
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(0))
    if bool((order == torch.arange(len(order))).all()):
        order = order.flip(0)
    changed = tokens.clone()
    row, other = _two_unlike(tokens)
    changed[row, 0], changed[row, other] = tokens[row, other], tokens[row, other]
    plain = _run_reordered(double, place, tokens, is_lifted)
    permuted = _run_reordered(double, place, tokens[:, order], is_lifted)
    touched = _run_reordered(double, place, changed, is_lifted)
    size = plain.abs().max().clamp(min=1e-30)
    has_time = plain.dim() >= 2 and plain.shape[1] == tokens.shape[1]
    far = torch.tensor(float("inf"))
    along = (permuted - plain[:, order]).abs().max() / size if has_time else far
    change = (touched - plain)[row].abs()
    has_mixed = bool((change[1:] if has_time else change).max() > 1e-9 * size)
    return _Order(along.item(), ((permuted - plain).abs().max() / size).item(), has_mixed)


def _two_unlike(tokens: Tensor) -> tuple[int, int]:
    """A row, and a place in it whose token is not the first one's."""
    unlike = (tokens != tokens[:, :1]).flatten(2).any(-1) if tokens.dim() > 2 else tokens != tokens[:, :1]
    row, other = unlike.nonzero()[0].tolist()
    return row, other


def _run_reordered(double: Specimen, place: int, tokens: Tensor, is_lifted: bool) -> Tensor:
    inputs = (*double.inputs[:place], tokens, *double.inputs[place + 1 :])
    with lift_masks() if is_lifted else nullcontext():
        outputs = double.main_output(inputs)
    assert outputs is not None
    assert outputs.shape[:1] == tokens.shape[:1], "what is put out has no rows"
    return outputs


RULE = DoctorRule(
    name="no-positions",
    proves="that outputs go along with any order of the tokens, so that the order cannot matter",
    how="puts the tokens of a float64 copy in another order, with its masks and with them lifted",
    check=check,
    cannot_see="an order that is known and not used",
)
