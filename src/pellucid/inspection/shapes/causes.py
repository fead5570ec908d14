"""How far a forward came, in which module it stopped, and which two numbers disagree there.

The numbers are read off the layer and what it was given. Only where a user's own forward failed, and no layer is to
blame, the operation of torch that raised is asked.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.expression.modules import spell_module
from pellucid.inspection.instrument.isolation import first_line, isolate, own_inputs
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.recording import InterceptFunctions, hook_modules
from pellucid.records import SizeOrigin, Statement

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
CHANNEL_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.GroupNorm)
LAST_NORMS = (nn.LayerNorm, nn.RMSNorm)
Shape = tuple[int, ...]
NO_USERS_FILES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))  # torch's, and this room's


class LayerStep(NamedTuple):
    """A module without parts that was called and came back."""

    path: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]

    @property
    def name(self) -> str:
        """What it is called by people: its path, with its kind where that is only a number."""
        last = self.path.rpartition(".")[2]
        return self.kind if not self.path else f"{self.kind} {self.path}" if last.isdigit() else self.path


@dataclass
class Attempt:
    """What happened in one forward."""

    steps: list[LayerStep] = field(default_factory=list)
    error: Exception | None = None
    path: str = ""  # of the module in which it failed
    module: nn.Module | None = None
    args: tuple[Any, ...] = ()  # what that module was given
    operation: str = ""  # of torch that raised, as "view"; "" where none did
    operands: tuple[Any, ...] = ()  # what it was given
    n_calls: int = 0  # of operations that came back

    @property
    def progress(self) -> tuple[int, int]:
        """Grows the farther a forward came."""
        return len(self.steps), self.n_calls

    @property
    def error_line(self) -> str:
        """The first line of the error."""
        return first_line(self.error) or type(self.error).__name__

    def input_shapes(self) -> tuple[Shape, ...]:
        return tuple(tuple(one.shape) for one in tensors_in(self.args))


FunctionHandler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def call_plainly(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return function(*args, **named)


def attempt_forward(model: nn.Module, inputs: tuple[Any, ...], call: FunctionHandler = call_plainly) -> Attempt:
    """Run one forward of a module that may be written on. call: how functions of torch are called.

    >>> attempt = attempt_forward(nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 5)), (torch.ones(1, 2),))
    >>> attempt.path, attempt.steps[0].outputs, attempt.operation
    ('1', ((1, 3),), 'linear')
    """
    attempt = Attempt()
    running: list[tuple[str, nn.Module, tuple[Any, ...]]] = []

    def begins(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append((path, module, (*args, *kwargs.values())))
        attempt.path, attempt.module, attempt.args = running[-1]

    def ends(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        # A call whose error was caught by the one around it began, and never ends.
        while running and running.pop()[1] is not module:
            pass
        attempt.path, attempt.module, attempt.args = running[-1] if running else ("", None, ())
        if not any(module.children()):
            given = tuple(tuple(one.shape) for one in tensors_in((args, kwargs)))
            made = tuple(tuple(one.shape) for one in tensors_in(output))
            attempt.steps.append(LayerStep(path, type(module).__name__, given, made))

    def handle(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Keep the first function that raised since the last one that came back."""
        try:
            made = call(function, args, named)
        except Exception:
            attempt.operation, attempt.operands = getattr(function, "__name__", ""), args
            raise
        attempt.operation, attempt.operands = "", ()
        attempt.n_calls += 1
        return made

    # Behind hooks that change what comes in: what forward is really given is what counts.
    hooks = hook_modules(nn.Module.named_modules(model), begins, ends)
    with hooks, isolate(), torch.no_grad():
        try:
            with InterceptFunctions(handle):
                model(*own_inputs(inputs))
        except Exception as error:
            attempt.error = error
    return attempt


def users_line(error: BaseException | None) -> str:
    """The last line of a traceback that is the user's own, as "model.py:12"; "" where none is."""
    if error is None:
        return ""
    passed = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in passed if not frame.filename.startswith(("<", *NO_USERS_FILES))]
    # A line of an installed package is told only where there is no other.
    frames = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def fact(kind: str, **facts: object) -> Statement:
    return Statement(kind, facts)


class Cause(NamedTuple):
    """What came and what was wanted, and as numbers where there is one of each."""

    kind: str  # what the repairs go by: "features", "channels", "rank", "index", "size", "type", "operation", ...
    fed: Statement | None = None
    wanted: Statement | None = None
    came: int = 0
    asked: int = 0
    origin: SizeOrigin | None = None
    sizes: tuple[Any, ...] = ()  # that a view or reshape was asked for


def cause_of(attempt: Attempt, given: Sequence[Shape]) -> Cause:
    """Why a forward stopped where it did. given: the shapes of the model's inputs.

    >>> attempt = attempt_forward(nn.Sequential(nn.Flatten(), nn.Linear(120, 10)), (torch.ones(2, 16, 3, 3),))
    >>> cause_of(attempt, [(2, 16, 3, 3)]).origin
    SizeOrigin(factors=(16, 3, 3), is_sum=False, shape=(2, 16, 3, 3), layer='Flatten 0', is_given=True,
    is_both_directions=False)
    """
    module = attempt.module
    first = attempt.args[0] if attempt.args else None
    if isinstance(first, tuple | list) and isinstance(module, nn.Linear | nn.RNNBase | nn.Conv1d | nn.Conv2d):
        shapes = tuple(tuple(one.shape) for one in tensors_in(first))
        return Cause("tuple", fact("several", container=type(first).__name__, shapes=shapes), fact("one-tensor"))
    if isinstance(first, Tensor) and module is not None:
        for kinds, ask in _QUESTIONS.items():
            if isinstance(module, kinds) and (found := ask(module, first, attempt)):
                is_count = found.came and found.fed is not None and found.fed.kind == "count"
                return found._replace(origin=origin_of(found.came, attempt.steps, given) if is_count else None)
        if found := _small(attempt) or _type(module, first):
            return found
    return _of_operation(attempt)


def _size(kind: str, came: int, asked: int, unit: str, module: Any, argument: str) -> Cause | None:
    """The layer wants another number than came, and has it from that argument."""
    if came == asked:
        return None
    wanted = fact("count", n=asked, unit=unit, argument=argument, layer=spell_module(module))
    return Cause(kind, fact("count", n=came, unit=unit), wanted, came, asked)


def _rank(x: Tensor, wanted: Statement) -> Cause:
    return Cause("rank", fact("rank", shape=tuple(x.shape)), wanted)


def _features(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    return _size("features", x.shape[-1], module.in_features, "features", module, "in_features") if x.dim() else None


def _channels(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    n_space = len(module.kernel_size)
    if x.dim() not in (n_space + 1, n_space + 2):
        return _rank(x, fact("dimensions", names=("batch", "channels", *("size",) * n_space)))
    came = x.shape[x.dim() - n_space - 1]
    return _size("channels", came, module.in_channels, "channels", module, "in_channels")


def _norm(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    asked = module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features
    if found := re.search(r"expected (\d)D(?: or (\d)D)? input", attempt.error_line):
        return _rank(x, fact("ranks", ranks=tuple(int(one) for one in found.groups() if one)))
    if x.dim() > 1 and x.shape[1] != asked:
        return _size("norm", x.shape[1], asked, "channels", module, "")
    if "more than 1 value per channel" in attempt.error_line:
        return Cause("one-row", fact("one-row", shape=tuple(x.shape)), fact("two-rows"))
    return None


def _last_norm(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    asked = tuple(module.normalized_shape)
    came = tuple(x.shape[-len(asked) :])
    if len(asked) == len(came) == 1:
        return _size("last-norm", came[0], asked[0], "features", module, "")
    if came == asked:
        return None
    wanted = fact("sizes", sizes=asked, layer=spell_module(module))
    return Cause("last-norm", fact("sizes", sizes=came), wanted, came[-1] if came else 0, asked[-1])


def _index(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.is_floating_point() or x.dtype is torch.bool:
        return Cause("type", fact("type", type=_type_name(x)), fact("whole-numbers"))
    if not x.numel() or x.device.type == "meta":
        return None
    low, high, n = int(x.min()), int(x.max()), module.num_embeddings
    if low >= 0 and high < n:
        return None
    wrong = low if low < 0 else high
    wanted = fact("index", last=n - 1, layer=spell_module(module))
    return Cause("index", fact("index", n=wrong), wanted, wrong, n)


def _recurrent(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.dim() not in (2, 3):
        return _rank(x, fact("dimensions", names=("batch", "time", "features")))
    return _size("recurrent", x.shape[-1], module.input_size, "features", module, "input_size")


def _attention(module: Any, x: Tensor, attempt: Attempt) -> Cause | None:
    if x.dim() not in (2, 3):
        return None
    return _size("attention", x.shape[-1], module.embed_dim, "features", module, "embed_dim")


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
    module, said = attempt.module, attempt.error_line
    if "Kernel size can't be greater" not in said and "Output size is too small" not in said:
        return None
    x = attempt.args[0]
    window = getattr(module, "kernel_size", "")
    sizes = window if isinstance(window, tuple) else (window,) * (x.dim() - 2)
    wanted = fact("window", sizes=tuple(sizes), layer=spell_module(module) if module else "")
    return Cause("size", fact("places", shape=tuple(x.shape)), wanted)


def _type(module: nn.Module, x: Tensor) -> Cause | None:
    """Numbers of one type where the weights are of another."""
    weight = next(module.parameters(recurse=False), None)
    if weight is None or weight.dtype == x.dtype:
        return None
    return Cause("type", fact("type", type=_type_name(x)), fact("type", type=_type_name(weight)))


def _of_operation(attempt: Attempt) -> Cause:
    """What the operation of torch was given, where no layer can be asked."""
    shapes = tuple(tuple(one.shape) for one in tensors_in(attempt.operands))
    name = attempt.operation.strip("_")
    if not shapes:
        return Cause("other")
    sizes: tuple[Any, ...] = ()
    if name in ("view", "reshape", "unflatten", "expand"):
        sizes = _flatten([one for one in attempt.operands[1:] if not isinstance(one, Tensor)])
    plain_sizes = tuple(one if isinstance(one, int) else str(one) for one in sizes)
    fed = fact("operation", shapes=shapes, name=name, sizes=plain_sizes)
    wanted = fact("operation", name=name, must_match="must match the size" in attempt.error_line)
    numbers = re.findall(r"\d+", attempt.error_line)
    came, asked = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (0, 0)
    return Cause("operation", fed, wanted, came, asked, sizes=sizes)


def _flatten(sizes: Sequence[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for one in sizes:
        found.extend(one) if isinstance(one, tuple | list | torch.Size) else found.append(one)
    return tuple(found)


def _type_name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def origin_of(number: int, steps: Sequence[LayerStep], given: Sequence[Shape]) -> SizeOrigin | None:
    """How a number was made; None where it cannot be told. given: the shapes of the model's inputs.

    >>> steps = [LayerStep("pool", "AvgPool2d", ((2, 16, 6, 6),), ((2, 16, 3, 3),))]
    >>> origin_of(144, steps, [(2, 1, 32, 32)])
    SizeOrigin(factors=(16, 3, 3), is_sum=False, shape=(2, 16, 3, 3), layer='pool', is_given=False,
    is_both_directions=False)
    """
    for step in reversed(steps[-3:]):
        for shape in (*step.outputs[:1], *step.inputs[:1]):
            if product := _product(number, shape):
                is_given = not step.outputs or shape != step.outputs[0]
                return SizeOrigin(product, shape=shape, layer=step.name, is_given=is_given)
    for step in reversed(steps):
        if step.outputs and number in step.outputs[0][1:]:
            # The state of a recurrent layer stands behind its outputs, one for each direction.
            halves = [shape[-1] for shape in step.outputs[1:2] if step.kind in ("RNN", "GRU", "LSTM")]
            is_both = bool(halves) and 2 * halves[0] == number
            factors = (2, halves[0]) if is_both else ()
            return SizeOrigin(factors, shape=step.outputs[0], layer=step.name, is_both_directions=is_both)
    for shape in given:
        if number in shape or _product(number, shape):
            return SizeOrigin(_product(number, shape), shape=shape)
    return _sum(number, steps)


def _product(number: int, shape: Shape) -> Shape:
    """The sizes behind the batch whose product it is, as 16, 3 and 3; only where there are several."""
    sizes = shape[1:]
    return sizes if len(sizes) > 1 and prod(sizes) == number and max(sizes) < number else ()


def _sum(number: int, steps: Sequence[LayerStep]) -> SizeOrigin | None:
    """Two layers whose outputs put side by side have that many features."""
    ends = [step.outputs[0][1 if len(step.outputs[0]) == 4 else -1] for step in steps if step.outputs]
    for place, first in reversed(list(enumerate(ends))):
        for second in reversed(ends[:place]):
            if first + second == number:
                return SizeOrigin((second, first), is_sum=True)
    return None
