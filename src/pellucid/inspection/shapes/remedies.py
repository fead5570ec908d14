"""Small changes to a module or its inputs, and for every cause those that usually mend it, the likeliest first.

Whether one does is found by trying it on a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.expression.modules import is_of_torch, rebuild_module, spell_module
from pellucid.inspection.shapes.causes import Attempt, Cause, fact
from pellucid.records import RepairChange, Statement


@dataclass
class ChangedCopy:
    """A copy of a module and its inputs, on which changes are made."""

    model: nn.Module
    inputs: tuple[Any, ...]
    instead: dict[str, Callable[..., Any]] = field(default_factory=dict)  # of functions of torch that raise

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A function of torch; where it raises, what is to stand in its place."""
        try:
            return function(*args, **named)
        except Exception:
            instead = self.instead.get(getattr(function, "__name__", ""))
            if instead is None:
                raise
            return instead(*args, **named)


class Change(NamedTuple):
    """One change: what it is, and how it is made."""

    told: RepairChange
    make: Callable[[ChangedCopy], None]
    group: str = ""  # of changes that are the same but for a number, the first that works is enough


def replace_arguments(path: str, module: nn.Module, **arguments: Any) -> Change:
    """Another module of the same kind, with other arguments."""
    return exchange_module(path, module, rebuild_module(module, **arguments))


def exchange_module(path: str, module: nn.Module, other: nn.Module) -> Change:
    """Another module in its place."""

    def make(trial: ChangedCopy) -> None:
        set_module(trial, path, other)

    new, old = spell_module(other), spell_module(module)
    return Change(RepairChange(path, fact("replace", new=new, old=old), (new,)), make)


def insert_before(
    path: str,
    layer: str,
    code: str,
    change: Callable[[Any], Any],
    *,
    writes: tuple[str, ...] = (),
    reason: Statement | None = None,
) -> Change:
    """Something done to what a module is given, before it is. layer: how the module is written; code: the change."""

    def make(trial: ChangedCopy) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (change(args[0]), *args[1:]) if args else args

        trial.model.get_submodule(path).register_forward_pre_hook(hook)

    return Change(RepairChange(path, fact("before", new=code, layer=layer), writes, reason), make)


def flatten_before(path: str, module: nn.Module, **arguments: Any) -> Change:
    """nn.Flatten() before a module, which may need other arguments then."""
    other = rebuild_module(module, **arguments)

    def make(trial: ChangedCopy) -> None:
        set_module(trial, path, other)
        insert_before(path, "", "", lambda x: x.flatten(1)).make(trial)

    layer, changed = spell_module(module), spell_module(other)
    change = fact("before", new="nn.Flatten()", layer=layer)
    if arguments:
        change = fact("flatten-and-replace", new=changed, layer=layer)
    return Change(RepairChange(path, change, ("nn.Flatten()", changed)), make)


def change_inputs(
    told: Statement, change: Callable[[Tensor], Tensor], *, reason: Statement | None = None, group: str = ""
) -> Change:
    """Something done to every tensor that the model is given."""

    def make(trial: ChangedCopy) -> None:
        trial.inputs = tuple(change(one) if isinstance(one, Tensor) else one for one in trial.inputs)

    return Change(RepairChange("", told, reason=reason), make, group)


def change_operation(told: Statement, path: str, name: str, instead: Callable[..., Any]) -> Change:
    """Another operation wherever torch's own of that name raises."""

    def make(trial: ChangedCopy) -> None:
        trial.instead[name] = instead

    return Change(RepairChange(path, told), make)


def set_module(trial: ChangedCopy, path: str, module: nn.Module) -> None:
    """Put a module in the place of the one at that path, and wherever else the same one is held."""
    if not path:
        trial.model = module
        return
    old = trial.model.get_submodule(path)
    for holder in trial.model.modules():
        for name, child in holder._modules.items():
            if child is old:
                holder._modules[name] = module


Changes = Iterator[Change]


def remedies(cause: Cause, attempt: Attempt, model: nn.Module) -> Changes:
    """What could mend a cause. model: the whole, to find the layer that made the number."""
    module = attempt.module
    if module is None:
        return
    if cause.kind in _REMEDIES and (cause.kind in ("operation", "tuple", "type") or is_of_torch(module)):
        yield from _REMEDIES[cause.kind](cause, attempt, module)
    if cause.came and cause.asked:
        yield from _before_block(cause, attempt, model)
        yield from _of_producer(cause, attempt, model)
    if not attempt.steps:
        yield change_inputs(fact("code", new="x.unsqueeze(0)"), lambda x: x.unsqueeze(0), reason=fact("batch-of-one"))


def _features(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    x = attempt.args[0]
    row = prod(x.shape[1:])
    if x.dim() > 2 and row == module.in_features:
        yield flatten_before(attempt.path, module)
    elif x.dim() > 3:
        yield flatten_before(attempt.path, module, in_features=row)
    yield from _transpose(attempt, module, module.in_features)
    if x.dim() < 4:
        yield replace_arguments(attempt.path, module, in_features=cause.came)
    if x.dim() == 3 and row != module.in_features:
        yield flatten_before(attempt.path, module, in_features=row)


def _transpose(attempt: Attempt, module: nn.Module, wanted: int) -> Changes:
    """The wanted size is there, but in another dimension."""
    x = attempt.args[0]
    if x.dim() >= 2 and x.shape[-2] == wanted:
        said = "x.T" if x.dim() == 2 else "x.transpose(-1, -2)"
        yield insert_before(attempt.path, spell_module(module), said, lambda x: x.transpose(-1, -2))


def _channels(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    x, wanted, path, layer = attempt.args[0], module.in_channels, attempt.path, spell_module(module)
    n_space = len(module.kernel_size)
    if wanted == 1 and x.dim() == n_space + 1:
        yield insert_before(path, layer, "x.unsqueeze(1)", lambda x: x.unsqueeze(1), reason=fact("channel"))
    if x.shape[-1] == wanted and x.dim() == n_space + 2:
        order = (0, x.dim() - 1, *range(1, x.dim() - 1))
        reason = fact("channels-last")
        yield insert_before(path, layer, f"x.permute{order}", lambda x: x.permute(order), reason=reason)
    if cause.came % module.groups == 0:
        yield replace_arguments(path, module, in_channels=cause.came)
    elif cause.came == module.out_channels:
        yield replace_arguments(path, module, in_channels=cause.came, groups=1)


def _rank(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    x, path, layer = attempt.args[0], attempt.path, spell_module(module)
    if type(module).__name__.startswith("BatchNorm"):
        meant = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}.get(x.dim())
        if meant is not None:
            yield exchange_module(path, module, meant(x.shape[1]))
        return
    if isinstance(module, nn.RNNBase):
        return
    n_space, channels = len(module.kernel_size), module.in_channels
    if x.dim() == n_space and channels == 1:
        reason = fact("batch-and-channel")
        yield insert_before(path, layer, "x[None, None]", lambda x: x[None, None], reason=reason)
    side = isqrt(x.shape[-1] // channels)
    if x.dim() == 2 and n_space == 2 and channels * side * side == x.shape[-1]:
        sizes = (channels, side, side)
        code = f"nn.Unflatten(1, {sizes})"
        yield insert_before(path, layer, code, lambda x: x.unflatten(1, sizes), writes=(code, layer))


def _norm(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    if isinstance(module, nn.GroupNorm):
        groups = next(one for one in range(module.num_groups, 0, -1) if cause.came % one == 0)
        yield replace_arguments(attempt.path, module, num_channels=cause.came, num_groups=groups)
    else:
        yield replace_arguments(attempt.path, module, num_features=cause.came)


def _last_norm(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    x, asked = attempt.args[0], tuple(module.normalized_shape)
    came = tuple(x.shape[-len(asked) :])
    if len(asked) == 1:
        yield from _transpose(attempt, module, asked[0])
    yield replace_arguments(attempt.path, module, normalized_shape=came[0] if len(came) == 1 else came)


def _index(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    indices: Tensor = attempt.args[0]
    if cause.came < 0:
        return
    n = module.num_embeddings
    if torch.equal(indices.reshape(-1)[: indices.shape[-1]], torch.arange(indices.shape[-1])):
        # 0, 1, 2, ...: these are positions, so that the sequence may be what is too long.
        yield change_inputs(fact("fewer-positions", n=n), lambda x: x[:, :n] if x.dim() > 1 else x[:n])
    yield replace_arguments(attempt.path, module, num_embeddings=cause.came + 1)


def _recurrent(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    yield from _transpose(attempt, module, module.input_size)
    yield replace_arguments(attempt.path, module, input_size=cause.came)


def _attention(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    came = cause.came
    heads = next(one for one in range(module.num_heads, 0, -1) if came % one == 0)
    yield replace_arguments(attempt.path, module, embed_dim=came, kdim=came, vdim=came, num_heads=heads)


def _before_block(cause: Cause, attempt: Attempt, model: nn.Module) -> Changes:
    """Where a part of one of torch's own blocks fails, the whole block wants another width."""
    parts = attempt.path.split(".")
    for length in range(len(parts)):
        path = ".".join(parts[:length])
        block = model.get_submodule(path)
        if is_of_torch(block) and not isinstance(block, nn.Sequential | nn.ModuleList | nn.ModuleDict):
            bridge = nn.Linear(cause.came, cause.asked)
            yield insert_before(path, type(block).__name__, f"nn.Linear({cause.came}, {cause.asked})", bridge)
            return


def _tuple(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    layer = spell_module(module)
    whose = attempt.steps[-1].name if attempt.steps else ""
    yield insert_before(attempt.path, layer, "x[0]", lambda x: x[0], reason=fact("several-outputs", layer=whose))
    reason = fact("last-step", layer=whose)
    yield insert_before(attempt.path, layer, "outputs[:, -1]", lambda x: x[0][:, -1], reason=reason)


def _type(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if bool((attempt.args[0] == attempt.args[0].round()).all()):
            yield insert_before(attempt.path, spell_module(module), "x.long()", lambda x: x.long())
        yield change_inputs(fact("whole-inputs"), lambda x: x.long() * 0, reason=fact("such-as", example="2,16:int"))
        return
    weight = next(module.parameters(recurse=False))
    name = {"float32": "float", "float64": "double", "int64": "long", "float16": "half"}
    kind = str(weight.dtype).removeprefix("torch.")
    call = f"{name[kind]}()" if kind in name else f"to(torch.{kind})"
    yield insert_before(attempt.path, spell_module(module), f"x.{call}", lambda x: x.to(weight.dtype))


def _size(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    first = attempt.steps[0].inputs[0] if attempt.steps and attempt.steps[0].inputs else tuple(attempt.args[0].shape)
    for times in (1.25, 1.5, 2.0, 3.0, 4.0):
        sizes = [int(size * times) for size in first[2:]]

        def larger(x: Tensor, sizes: list[int] = sizes) -> Tensor:
            return nn.functional.interpolate(x, sizes) if x.dim() == len(sizes) + 2 and x.is_floating_point() else x

        yield change_inputs(fact("larger-input", shape=(*first[:2], *sizes)), larger, group="larger")
    space = attempt.args[0].shape[2:]
    if space and min(space) >= 1:
        yield replace_arguments(attempt.path, module, kernel_size=min(space))


def _one_row(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    yield change_inputs(fact("more-rows"), lambda x: x.repeat(2, *[1] * (x.dim() - 1)))

    def evaluate(trial: ChangedCopy) -> None:
        trial.model.eval()

    yield Change(RepairChange("", fact("code", new="model.eval()"), reason=fact("statistics")), evaluate)


def _operation(cause: Cause, attempt: Attempt, module: Any) -> Changes:
    name = attempt.operation
    tensors = [one for one in attempt.operands if isinstance(one, Tensor)]
    if name in ("view", "reshape") and tensors[0].dim() > 2:
        told = fact("replace", new="x.flatten(1)", old=f"x.{name}({', '.join(map(str, cause.sizes))})")
        if len(cause.sizes) == 2:
            yield change_operation(told, attempt.path, attempt.operation, lambda x, *_: x.flatten(1))
    if name in ("matmul", "mm", "bmm", "__matmul__") and len(tensors) == 2 and tensors[1].dim() > 1:
        one, other = tensors
        if one.shape[-1] == other.shape[-1]:
            yield change_operation(fact("code", new="x @ y.mT"), attempt.path, name, lambda x, y: x @ y.mT)
    yield from _heads(attempt, module)


def _heads(attempt: Attempt, module: nn.Module) -> Changes:
    """A number of heads that divides the width, where the module's own does not."""
    numbers = {name: one for name, one in vars(module).items() if isinstance(one, int) and not isinstance(one, bool)}
    widths = {x.shape[-1] for x in attempt.operands if isinstance(x, Tensor) and x.dim()} | set(numbers.values())
    for name, heads in numbers.items():
        if "head" not in name or heads < 1 or "dim" in name or "size" in name:
            continue
        for width in sorted(width for width in widths if width > heads and width % heads):
            better = min((one for one in range(1, width + 1) if width % one == 0), key=lambda one: abs(one - heads))

            def make(
                trial: ChangedCopy, name: str = name, heads: int = heads, better: int = better, width: int = width
            ) -> None:
                held = trial.model.get_submodule(attempt.path)
                for other, number in numbers.items():
                    if number == width // heads and other != name:
                        setattr(held, other, width // better)
                setattr(held, name, better)

            told = fact("divisor", name=name, new=better, width=width, old=heads)
            yield Change(RepairChange(attempt.path, told), make)


# The argument that says how many numbers a layer makes.
_WIDTHS: Mapping[type[nn.Module] | tuple[type[nn.Module], ...], str] = {
    nn.Linear: "out_features",
    (nn.Conv1d, nn.Conv2d, nn.Conv3d): "out_channels",
    nn.Embedding: "embedding_dim",
    nn.RNNBase: "hidden_size",
}


def _of_producer(cause: Cause, attempt: Attempt, model: nn.Module) -> Changes:
    """The layer before made the number that came: it could make the one that is wanted."""
    for step in reversed(attempt.steps[-4:]):
        producer: Any = model.get_submodule(step.path)
        width = next((name for kinds, name in _WIDTHS.items() if isinstance(producer, kinds)), "")
        if width and is_of_torch(producer) and getattr(producer, width) == cause.came:
            if cause.asked % getattr(producer, "groups", 1) == 0:
                yield replace_arguments(step.path, producer, **{width: cause.asked})
            return


_REMEDIES: Mapping[str, Callable[[Cause, Attempt, Any], Changes]] = {
    "features": _features,
    "channels": _channels,
    "rank": _rank,
    "norm": _norm,
    "last-norm": _last_norm,
    "index": _index,
    "recurrent": _recurrent,
    "attention": _attention,
    "tuple": _tuple,
    "type": _type,
    "size": _size,
    "one-row": _one_row,
    "operation": _operation,
}
