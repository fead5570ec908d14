"""Which two numbers disagree where a forward stopped: what a layer was fed, and what it was made for.

They are read off the layer and what it was given. Only where a user's own forward failed, and no layer is to blame, the
operation of torch that raised is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.expression.modules import spell_module
from pellucid.inspection.instrument.specimen import tensors_in
from pellucid.inspection.shapes.attempts import Attempt, LayerStep, Shape, shape_words

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
CHANNEL_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.GroupNorm)
LAST_NORMS = (nn.LayerNorm, nn.RMSNorm)


class Cause(NamedTuple):
    """What came and what was wanted, in words, and as numbers where there is one of each."""

    kind: str  # what the repairs go by: "features", "channels", "rank", "index", "size", "type", "operation", ...
    fed: str
    wanted: str
    came: int = 0
    asked: int = 0


def cause_of(attempt: Attempt, given: Sequence[Shape]) -> Cause:
    """Why a forward stopped where it did. given: the shapes of the model's inputs.

    >>> from pellucid.inspection.shapes.attempts import attempt_forward
    >>> attempt = attempt_forward(nn.Sequential(nn.Flatten(), nn.Linear(120, 10)), (torch.ones(2, 16, 3, 3),))
    >>> cause_of(attempt, [(2, 16, 3, 3)]).fed
    '144 = 16·3·3 features'
    """
    module = attempt.module
    first = attempt.args[0] if attempt.args else None
    if isinstance(first, tuple | list) and isinstance(module, nn.Linear | nn.RNNBase | nn.Conv1d | nn.Conv2d):
        parts = ", ".join(shape_words(tuple(one.shape)) for one in tensors_in(first))
        return Cause("tuple", f"a {type(first).__name__} of {parts}", "one tensor")
    if isinstance(first, Tensor) and module is not None:
        for kinds, ask in _QUESTIONS.items():
            if isinstance(module, kinds) and (found := ask(module, first, attempt)):
                return _with_origin(found, attempt, given)
        if found := _small(attempt) or _type(module, first, attempt):
            return found
    return _of_operation(attempt)


def _with_origin(cause: Cause, attempt: Attempt, given: Sequence[Shape]) -> Cause:
    """144 features become 144 = 16·3·3 features, where that is how they were made."""
    if not cause.came:
        return cause
    origin = origin_of(cause.came, attempt.steps, given)
    product = origin.partition(" of ")[0] if "·" in origin or " + " in origin else ""
    if not product:
        return cause
    product = product.partition(" that ")[0]
    return cause._replace(fed=cause.fed.replace(str(cause.came), f"{cause.came} = {product}", 1))


def _features(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.dim() == 0 or x.shape[-1] == module.in_features:
        return None
    return Cause(
        "features",
        f"{x.shape[-1]:d} features",
        f"{module.in_features:d} features: in_features of {spell_module(module)}",
        x.shape[-1],
        module.in_features,
    )


def _channels(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    n_space = len(module.kernel_size)
    if x.dim() not in (n_space + 1, n_space + 2):
        return Cause(
            "rank", f"{x.dim()} dimensions {shape_words(tuple(x.shape))}", f"(batch, channels{', size' * n_space})"
        )
    came = x.shape[x.dim() - n_space - 1]
    if came != module.in_channels:
        return Cause(
            "channels",
            f"{came} channel{'s' * (came != 1)}",
            f"{module.in_channels} channel{'s' * (module.in_channels != 1)}: in_channels of {spell_module(module)}",
            came,
            module.in_channels,
        )
    return None


def _norm(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    asked = module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features
    found = re.search(r"expected (\d)D(?: or (\d)D)? input", attempt.said)
    if found:
        ranks = " or ".join(one for one in found.groups() if one)
        return Cause("rank", f"{x.dim()} dimensions {shape_words(tuple(x.shape))}", f"{ranks} dimensions")
    if x.dim() > 1 and x.shape[1] != asked:
        return Cause("norm", f"{x.shape[1]} channels", f"{asked} channels of {spell_module(module)}", x.shape[1], asked)
    if "more than 1 value per channel" in attempt.said:
        return Cause("one-row", f"one number for each channel {shape_words(tuple(x.shape))}", "at least two")
    return None


def _last_norm(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    asked = tuple(module.normalized_shape)
    came = tuple(x.shape[-len(asked) :])
    if came == asked:
        return None
    return Cause(
        "last-norm",
        f"{'·'.join(map(str, came))} features",
        f"{'·'.join(map(str, asked))} features of {spell_module(module)}",
        came[-1] if came else 0,
        asked[-1],
    )


def _index(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.is_floating_point() or x.dtype is torch.bool:
        return Cause("type", f"numbers of the type {_type_name(x)}", "whole numbers, of the type int64")
    if not x.numel() or x.device.type == "meta":
        return None
    low, high = int(x.min()), int(x.max())
    if low >= 0 and high < module.num_embeddings:
        return None
    wrong = low if low < 0 else high
    return Cause(
        "index",
        f"the number {wrong}",
        f"0 to {module.num_embeddings - 1}: num_embeddings of {spell_module(module)}",
        wrong,
        module.num_embeddings,
    )


def _recurrent(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.dim() not in (2, 3):
        return Cause("rank", f"{x.dim()} dimensions {shape_words(tuple(x.shape))}", "(batch, time, features)")
    if x.shape[-1] == module.input_size:
        return None
    return Cause(
        "recurrent",
        f"{x.shape[-1]} features",
        f"{module.input_size} features: input_size of {spell_module(module)}",
        x.shape[-1],
        module.input_size,
    )


def _attention(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.dim() in (2, 3) and x.shape[-1] != module.embed_dim:
        return Cause(
            "attention",
            f"{x.shape[-1]} features",
            f"{module.embed_dim} features: embed_dim of {spell_module(module)}",
            x.shape[-1],
            module.embed_dim,
        )
    return None


_QUESTIONS: Mapping[tuple[type[nn.Module], ...], Callable[[Any, Tensor, Attempt], Cause | None]] = {
    (nn.Linear,): _features,
    CONVOLUTIONS: _channels,
    CHANNEL_NORMS: _norm,
    LAST_NORMS: _last_norm,
    (nn.Embedding, nn.EmbeddingBag): _index,
    (nn.RNNBase, nn.RNNCellBase): _recurrent,
    (nn.MultiheadAttention,): _attention,
}


def _small(attempt: Attempt) -> Cause | None:
    """A window that is larger than what it should slide over."""
    module, said = attempt.module, attempt.said
    if "Kernel size can't be greater" not in said and "Output size is too small" not in said:
        return None
    x = attempt.args[0]
    window = getattr(module, "kernel_size", "")
    sizes = window if isinstance(window, tuple) else (window,) * (x.dim() - 2)
    return Cause(
        "size",
        f"{'×'.join(map(str, x.shape[2:]))} places of {shape_words(tuple(x.shape))}",
        f"at least {'×'.join(map(str, sizes))}: the window of {spell_module(module) if module else ''}",
    )


def _type(module: nn.Module, x: Tensor, attempt: Attempt) -> Cause | None:
    """Numbers of one type where the weights are of another."""
    weight = next(module.parameters(recurse=False), None)
    if weight is None or weight.dtype == x.dtype:
        return None
    return Cause("type", f"numbers of the type {_type_name(x)}", f"the type {_type_name(weight)} of its weights")


def _of_operation(attempt: Attempt) -> Cause:
    """What the operation of torch was given, where no layer can be asked."""
    shapes = [shape_words(tuple(one.shape)) for one in tensors_in(attempt.operands)]
    name = attempt.operation.strip("_")
    if not shapes:
        return Cause("other", "", "")
    numbers = re.findall(r"\d+", attempt.said)
    wanted = {
        "matmul": "the last size of the first equal to the last but one of the second",
        "mm": "the second size of the first equal to the first of the second",
        "bmm": "equal batches, and the last size of the first equal to the middle one of the second",
        "cat": "equal sizes in all dimensions but one",
        "stack": "equal sizes",
        "view": "the same number of numbers in both shapes",
        "reshape": "the same number of numbers in both shapes",
    }.get(name, "sizes that are equal, or one of them 1" if "must match the size" in attempt.said else "")
    asked = ""
    if name in ("view", "reshape", "unflatten", "expand"):
        sizes = [one for one in attempt.operands[1:] if not isinstance(one, Tensor)]
        asked = f" as {shape_words(tuple(_flat(sizes)))}"
    came, other = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)
    return Cause("operation", f"{' and '.join(shapes)} in {name}{asked}", wanted, came, other)


def _flat(sizes: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for one in sizes:
        found.extend(one) if isinstance(one, tuple | list | torch.Size) else found.append(one)
    return found


def _type_name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def origin_of(number: int, steps: Sequence[LayerStep], given: Sequence[Shape]) -> str:
    """How a number was made, in words behind it; "" where it cannot be told. given: the shapes of the model's inputs.

    >>> steps = [LayerStep("pool", "AvgPool2d", ((2, 16, 6, 6),), ((2, 16, 3, 3),))]
    >>> origin_of(144, steps, [(2, 1, 32, 32)])
    '16·3·3 of (2, 16, 3, 3) that pool puts out'
    """
    for step in reversed(steps[-3:]):
        for shape in (*step.outputs[:1], *step.inputs[:1]):
            if product := _product(number, shape):
                return f"{product} of {shape_words(shape)} {_who(step, shape)}"
    for step in reversed(steps):
        if step.outputs and number in step.outputs[0][1:]:
            # The state of a recurrent layer stands behind its outputs, one for each direction.
            halves = [shape[-1] for shape in step.outputs[1:2] if step.kind in ("RNN", "GRU", "LSTM")]
            both = f"2·{halves[0]} of both directions, " if halves and 2 * halves[0] == number else ""
            return f"{both}of {shape_words(step.outputs[0])} that {step.name} puts out"
    for shape in given:
        if product := _product(number, shape):
            return f"{product} of the input {shape_words(shape)}"
        if number in shape:
            return f"of the input {shape_words(shape)}"
    return _sum(number, steps)


def _who(step: LayerStep, shape: Shape) -> str:
    is_made = bool(step.outputs) and shape == step.outputs[0]
    return f"that {step.name} puts out" if is_made else f"that {step.name} is given"


def _product(number: int, shape: Shape) -> str:
    """The sizes behind the batch whose product it is, as 16·3·3; only where there are several."""
    sizes = shape[1:]
    return "·".join(map(str, sizes)) if len(sizes) > 1 and prod(sizes) == number and max(sizes) < number else ""


def _sum(number: int, steps: Sequence[LayerStep]) -> str:
    """Two layers whose outputs put side by side have that many features."""
    ends = [(step, step.outputs[0][1 if len(step.outputs[0]) == 4 else -1]) for step in steps if step.outputs]
    for place, (one, first) in reversed(list(enumerate(ends))):
        for other, second in reversed(ends[:place]):
            if first + second == number:
                return f"{second} + {first} that {other.name} and {one.name} put out"
    return ""
