"""A whole look at a module: its table, and where its forward fails the reason, or what it does without a word.

Inputs that are not given are guessed from its first layers.
"""

from __future__ import annotations

import copy
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.errors import ExpressionError, PellucidError, one_line
from pellucid.inspection.expression.modules import BuiltModule
from pellucid.inspection.expression.syntax import InputShape
from pellucid.inspection.instrument.isolation import borrow_module, first_line, is_small, isolate
from pellucid.inspection.instrument.recording import InterceptFunctions
from pellucid.inspection.shapes.causes import NO_USERS_FILES, attempt_forward, users_line
from pellucid.inspection.shapes.xray import FailureReport, WorkingRepair, explain_failure
from pellucid.inspection.table.module_table import table_of_trace, tabulate_module
from pellucid.inspection.table.trace import ForwardFailed, Trace
from pellucid.records import Statement, make_note
from pellucid.records.inspection import Inspection, Mistake, RepairChange, ShapeXray, SilentBroadcast

LONGEST_SECONDS = 3.0  # of a forward that is run twice more


def inspect_module(model: nn.Module, inputs: tuple[Any, ...] = (), name: str = "") -> Inspection:
    """The table of a module on these inputs; without any, on inputs that its first layers seem to want.

    >>> failure = inspect_module(nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))).failure
    >>> failure.layer, failure.fed.facts["n"], failure.repairs[0].changes[0].writes
    ('Linear(9, 2)', 8, ('nn.Linear(8, 2)',))
    """
    return _inspect(model, inputs, name)[0]


def inspect_expression(built: BuiltModule, inputs: tuple[Any, ...], name: str = "") -> Inspection:
    """The table of a module that was written as an expression, with what is to be mended in it."""
    seen, found = _inspect(built.module, inputs, name)
    text = _mend_text(built, found.mended[0] if found and found.mended else None)
    if not built.is_held:
        seen = seen._replace(notes=(*seen.notes, make_note("weights-not-held")))
    return seen._replace(
        mistakes=tuple(map(as_mistake, built.written.mistakes)), mended=text if text != built.written.text else ""
    )


def as_mistake(error: ExpressionError) -> Mistake:
    return Mistake(f"{error.what} {error.where}", error.excerpt(), error.fix)


def _inspect(model: nn.Module, inputs: tuple[Any, ...], name: str) -> tuple[Inspection, FailureReport | None]:
    notes: tuple[Statement, ...] = ()
    is_guessed = not inputs
    if not inputs and _is_lazy(model):
        raise PellucidError(
            f"{type(model).__name__} has lazy parameters and needs an input shape",
            fix="Give one, as {input}",
            options={"input": "2,16"},
        )
    if not inputs:
        guess = guess_inputs(model)
        notes = (guess.note,)
        inputs = make_inputs(guess.shapes, model)
    if inputs and _is_lazy(model):
        model(*inputs)  # which gives its parameters their shapes
        notes = (make_note("lazy-parameters"),)
    if not inputs:
        # The table without shapes, for nothing was run.
        return table_of_trace(model, Trace.of(model), None, name)._replace(notes=notes), None
    try:
        seen = tabulate_module(model, inputs, name)
    except ForwardFailed as error:
        found = explain_failure(model, inputs)
        failure = found.seen if found else _report_unexplained(error)
        seen = table_of_trace(model, error.trace, None, name)
        if is_guessed and not (found and found.is_for_any_input):
            return seen._replace(refused_guess=failure, notes=(*notes, *seen.notes)), None
        return seen._replace(failure=failure, notes=(*notes, *seen.notes)), found
    if seen.seconds > LONGEST_SECONDS:
        notes = (*notes, make_note("broadcasts-not-looked-for", seconds=seen.seconds))
    else:
        seen = seen._replace(broadcasts=tuple(silent_broadcasts(model, inputs)))
    return seen._replace(notes=(*notes, *seen.notes)), None


def _is_lazy(model: nn.Module) -> bool:
    return any(is_lazy(one) for one in nn.Module.parameters(model))


def _report_unexplained(error: ForwardFailed) -> ShapeXray:
    """What is known of a failure that does not happen again when it is looked at."""
    trace = error.trace
    raised = f"{type(trace.failure).__name__}: {first_line(trace.failure)}"
    kind = type(trace.modules[trace.calls[trace.failed_in].module]).__name__ if trace.calls else ""
    return ShapeXray(
        path=trace.failed_path,
        kind=kind,
        where=users_line(trace.failure),
        error=one_line(raised),
        hook=trace.failed_hook,
    )


def _in_its_place(built: BuiltModule, change: RepairChange) -> str:
    """What is written for one layer: two layers stand alone only among others of a sequence."""
    above = change.path.rpartition(".")[0]
    is_among = bool(change.path) and isinstance(built.module.get_submodule(above), nn.Sequential)
    written = ", ".join(change.writes)
    return written if is_among or len(change.writes) == 1 else f"nn.Sequential({written})"


def _mend_text(built: BuiltModule, mended: WorkingRepair | None) -> str:
    """The expression with its commas, and with the repair where that can be written into it."""
    changes = [change.told for change in mended or ()]
    if not all(change.writes and change.path in built.places for change in changes):
        return built.written.mended_text
    edits = [(*built.places[change.path], _in_its_place(built, change)) for change in changes]
    # A layer that is written anew takes with it what was missing inside it.
    commas = [one for one in built.written.commas if not any(start < one < end for start, end, _ in edits)]
    text = built.written.text
    for start, end, writes in sorted([*edits, *((one, one, ",") for one in commas)], reverse=True):
        text = text[:start] + writes + text[end:]
    return text


# Broadcasts that nobody meant: rows against rows, as (batch, 1) minus (batch), which is (batch, batch) without a
# word. A bias, a mask or a scale is stretched to the shape of the other, and that is what broadcasting is for. Here
# both are stretched, one of them because it has a dimension less. Whether the two equal sizes are the batch, and not
# by chance as long as it, is told by running the module with three rows and with five: only what follows both times
# is named.

FEW, MORE = 3, 5  # rows
OPERATIONS = {
    **dict.fromkeys(("add", "__add__", "__radd__", "__iadd__", "add_"), "+"),
    **dict.fromkeys(("sub", "subtract", "rsub", "__sub__", "__rsub__", "__isub__", "sub_"), "-"),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__", "__imul__", "mul_"), "*"),
    **dict.fromkeys(("div", "true_divide", "divide", "__div__", "__truediv__", "__rtruediv__", "div_"), "/"),
    **{name: name for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "pow", "maximum", "minimum")},
}


def silent_broadcasts(model: nn.Module, inputs: tuple[Any, ...]) -> list[SilentBroadcast]:
    """Each place where rows meet all other rows; none where the module does not run so.

    >>> class Loss(nn.Module):
    ...     def forward(self, scores, targets):
    ...         return (scores - targets).square().mean()
    >>> silent_broadcasts(Loss(), (torch.ones(4, 1, requires_grad=True), torch.ones(4)))
    [SilentBroadcast(path='', line='', operation='-', left=(4, 1), right=(4,))]
    """
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    n_rows = {len(one) for one in tensors if one.dim()}
    if len(n_rows) != 1 or not all(one.dim() for one in tensors) or 0 in n_rows or not is_small(model):
        return []
    (n,) = n_rows
    sizes = {FEW: n if n > 1 else FEW}
    found = []
    few, more = (_find_stretched(model, _rows(inputs, count)) for count in (FEW, MORE))
    for one, other in zip(few, more, strict=False):
        is_same_place = one[:3] == other[:3]
        if is_same_place and _is_of_rows(one, FEW) and _is_of_rows(other, MORE):
            left, right = (tuple(sizes.get(size, size) for size in shape) for shape in (one.left, one.right))
            found.append(one._replace(left=left, right=right))
    return list(dict.fromkeys(found))


def _is_of_rows(seen: SilentBroadcast, n: int) -> bool:
    """(n, 1) against (n), with whatever further dimensions, where n is the batch."""
    longer, shorter = sorted((seen.left, seen.right), key=len, reverse=True)
    return len(longer) > len(shorter) and longer[-1:] == (1,) and longer[0] == n and shorter[-1:] == (n,)


def _rows(inputs: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The inputs with so many rows, taken in turn from those that are there."""
    return tuple(
        one[torch.arange(count) % len(one)].detach().clone() if isinstance(one, Tensor) else copy.deepcopy(one)
        for one in inputs
    )


def _find_stretched(model: nn.Module, inputs: tuple[Any, ...]) -> list[SilentBroadcast]:
    try:
        ours = copy.deepcopy(model)
    except Exception:
        return []
    for one in inputs:
        if isinstance(one, Tensor) and one.is_floating_point():
            one.requires_grad_()  # what is computed from the inputs is known by its gradient
    found = _Pairs(ours)
    # Nothing will be run backward, so that nothing need be kept for it.
    forgetting = torch.autograd.graph.saved_tensors_hooks(lambda saved: None, lambda kept: kept)
    with isolate():
        try:
            with forgetting, InterceptFunctions(found.call):
                ours(*inputs)
        except Exception:
            return []
    return found.stretched


class _Pairs:
    """Sees every operation on two tensors of numbers."""

    def __init__(self, model: nn.Module) -> None:
        self.stretched: list[SilentBroadcast] = []
        self.paths = {id(module): path for path, module in nn.Module.named_modules(model)}

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        pair = [one for one in (*args, *named.values()) if isinstance(one, Tensor)]
        # The shapes as they were: an operation in place would show its result.
        shapes = [tuple(one.shape) for one in pair]
        made = function(*args, **named)
        is_one = name in OPERATIONS and len(pair) == 2 and _is_of_numbers(*pair)
        if is_one and np.broadcast_shapes(*shapes) not in shapes:  # both were stretched
            path, line = self._place()
            self.stretched.append(SilentBroadcast(path, line, OPERATIONS[name], *shapes))
        return made

    def _place(self) -> tuple[str, str]:
        """The module whose forward asked, and the line of it."""
        frame = sys._getframe(2)
        line = ""
        while frame is not None:
            is_users = not frame.f_code.co_filename.startswith(NO_USERS_FILES)
            if is_users and not line:
                name = Path(frame.f_code.co_filename).name
                line = f"{name}:{frame.f_lineno}" if not name.startswith("<") else ""
            code = frame.f_code
            owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if isinstance(owner, nn.Module) and id(owner) in self.paths:
                return self.paths[id(owner)], line
            frame = frame.f_back  # type: ignore[assignment]  # None at the outermost, which ends the loop
        return "", ""


def _is_of_numbers(left: Tensor, right: Tensor) -> bool:
    """Whether what is computed depends on the inputs or the weights; distances between positions do not."""
    both = left.is_floating_point() and right.is_floating_point()
    return both and (left.requires_grad or right.requires_grad)


ROWS, TIME = 2, 16
SIZES = (32, 28, 64, 224, 96, 128, 48, 16, 8)  # of images, the usual ones first
LARGEST_SIDE = 300
MOST_SECONDS = 2.0  # of trying sizes


class GuessedInputs(NamedTuple):
    """Inputs that a module seems to want, and why; none where it cannot be told."""

    shapes: tuple[InputShape, ...]
    note: Statement


def make_inputs(shapes: Sequence[InputShape], model: nn.Module) -> tuple[Tensor, ...]:
    """Numbers in these shapes, the same every time; tokens are such as the module knows.

    >>> make_inputs([InputShape((2, 3), "int")], nn.Embedding(5, 4))[0].max() < 5
    tensor(True)
    """
    draw = torch.Generator().manual_seed(0)
    known = [one.num_embeddings for one in nn.Module.modules(model) if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
    below = max(1, known[0]) if known else 2
    device = "meta" if any(one.is_meta for one in nn.Module.parameters(model)) else "cpu"
    return tuple(_draw(shape, below, draw).to(device) for shape in shapes)


def _draw(shape: InputShape, below: int, draw: torch.Generator) -> Tensor:
    if shape.kind == "int":
        return torch.randint(0, below, shape.sizes, generator=draw)
    if shape.kind == "bool":
        return torch.randint(0, 2, shape.sizes, generator=draw).bool()
    numbers = torch.randn(shape.sizes, generator=draw)
    return numbers.double() if shape.kind == "double" else numbers


def guess_inputs(model: nn.Module) -> GuessedInputs:
    """The inputs that a module seems to want, from its kind and its first layers, and those of them that run.

    >>> guess_inputs(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))).shapes
    (InputShape(sizes=(2, 3, 28, 28), kind='float'),)
    """
    first: tuple[InputShape, ...] = ()
    n_wanted = _n_wanted(model)
    deadline = time.monotonic() + MOST_SECONDS
    for shapes in _candidates(model):
        if len(shapes) < n_wanted:
            continue
        if first and time.monotonic() > deadline:
            break
        first = first or shapes
        if _runs(model, shapes):
            return GuessedInputs(shapes, make_note("input-guessed", shapes=list(map(str, shapes))))
    if not first:
        return GuessedInputs((), make_note("no-guess"))
    return GuessedInputs(first, make_note("guess-refused", shapes=list(map(str, first))))


def _n_wanted(model: nn.Module) -> int:
    """How many inputs forward cannot do without."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return 1
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(1, sum(one.default is one.empty and one.kind in by_place for one in parameters))


def _candidates(model: nn.Module) -> Iterator[tuple[InputShape, ...]]:
    """Inputs for the first layers that say what they read, the first of them first."""
    said: set[tuple[InputShape, ...]] = set()
    looked_at = 0
    for module in nn.Module.modules(model):
        for shapes in _wanted_by(module):
            if shapes not in said:
                said.add(shapes)
                yield shapes
                looked_at += 1
        if looked_at > LARGEST_SIDE + 3 * len(SIZES):
            return


def _wanted_by(module: nn.Module) -> Iterator[tuple[InputShape, ...]]:
    def numbers(*sizes: int) -> InputShape:
        return InputShape(sizes, "float")

    def sequences(batch_first: bool, width: int) -> InputShape:
        return numbers(*((ROWS, TIME) if batch_first else (TIME, ROWS)), width)

    if isinstance(module, nn.Transformer):
        yield (sequences(module.batch_first, module.d_model),) * 2
    elif isinstance(module, nn.TransformerDecoderLayer):
        yield (sequences(module.self_attn.batch_first, module.self_attn.embed_dim),) * 2
    elif isinstance(module, nn.MultiheadAttention):
        yield (sequences(module.batch_first, module.embed_dim),) * 3
        yield (sequences(module.batch_first, module.embed_dim),)
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        yield (InputShape((ROWS, TIME), "int"),)
        yield (InputShape((ROWS, max(1, min(TIME, module.num_embeddings) // 2)), "int"),)
    elif isinstance(module, nn.RNNBase):
        yield (sequences(module.batch_first, module.input_size),)
    elif isinstance(module, nn.RNNCellBase):
        yield (numbers(ROWS, module.input_size),)
    elif isinstance(module, nn.Bilinear):
        yield numbers(ROWS, module.in1_features), numbers(ROWS, module.in2_features)
    elif isinstance(module, nn.Linear):
        yield (numbers(ROWS, module.in_features),)
        yield (numbers(ROWS, TIME, module.in_features),)
    elif isinstance(module, nn.LayerNorm):
        yield (numbers(ROWS, TIME, *module.normalized_shape),)
    elif isinstance(module, nn.BatchNorm1d):
        yield (numbers(ROWS, module.num_features),)
    elif isinstance(module, nn.BatchNorm2d):
        yield (numbers(ROWS, module.num_features, SIZES[0], SIZES[0]),)
    elif isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d):
        n_space = len(module.kernel_size)
        # A linear layer behind it may want one size alone, so that all are tried.
        sides = [*SIZES, *range(1, LARGEST_SIDE + 1)] if n_space < 3 else [16, 32, 8]
        for side in dict.fromkeys(sides):
            yield (numbers(ROWS, module.in_channels, *[side] * n_space),)


def _runs(model: nn.Module, shapes: Sequence[InputShape]) -> bool:
    with borrow_module(model) as ours:
        return attempt_forward(ours, make_inputs(shapes, model)).error is None
