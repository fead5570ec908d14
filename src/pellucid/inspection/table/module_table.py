"""A table of any module: a row for each of its parts, in the order in which a real forward calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pellucid.errors import one_line
from pellucid.inspection.instrument.isolation import borrow_module, fixed_rng, own_inputs, unwrap_compiled
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.recording import hook_modules
from pellucid.inspection.table.cost_scaling import KeyCache, cost_scaling
from pellucid.inspection.table.flops import formula_of
from pellucid.inspection.table.receptive_field import FieldFollower, measure_field, receptive_field
from pellucid.inspection.table.trace import ForwardFailed, TensorFacts, Trace, TracedCall, trace_forward
from pellucid.records import Statement, make_note
from pellucid.records.inspection import Inspection, ModuleRow, NamedShape

Result = TypeVar("Result")
QUICK = 0.02  # seconds of a forward that may be run several times more, also on longer inputs
MOST_RUNS = 5
ENOUGH_SECONDS = 1.0  # of timed runs of one kind; the first is always made
_LISTS = (nn.ModuleList, nn.ModuleDict)  # they hold modules, and are never called


def tabulate_module(model: nn.Module, inputs: Tensor | tuple[Any, ...], name: str = "") -> Inspection:
    """Run a few forwards of a module on these inputs, and tell what each part of it is, was given and cost.

    The module is afterwards what it was before. Where its forward fails, ForwardFailed has what was seen until then.

    >>> import torch
    >>> seen = tabulate_module(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(3, 4))
    >>> [(row.path, str(row.outputs[0]), row.parameters, row.flops_by_formula) for row in seen.rows]
    [('', '(batch 3, features 2)', 0, 0), ('0', '(batch 3, features 8)', 40, 192),
     ('1', '(batch 3, features 8)', 0, 0), ('2', '(batch 3, features 2)', 18, 96)]
    >>> seen.parameters, seen.flops_by_formula, seen.flops_by_operation, seen.sequential_depth
    (58, 288, 288, 2)
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    model = unwrap_compiled(model)
    fields, cache = FieldFollower(), KeyCache()
    with borrow_module(model) as ours:
        trace = trace_forward(ours, given, observers=(fields.see, cache.see))
        if trace.failure is not None:
            raise ForwardFailed(trace) from trace.failure
        has_numbers = not any(one.is_meta for one in tensors_in((given, list(ours.parameters()))))
        timing, notes = _run_again(lambda: time_forward(ours, given, trace.modules)) if has_numbers else (None, ())
        seen = table_of_trace(model, trace, timing, name)
        namer = Namer(trace)
        axes = [namer.time_axis(one.shape) if isinstance(one, Tensor) else None for one in given]
        # On another device an index that is too large would end the whole process, not the forward.
        is_quick = (
            timing is not None and timing.whole < QUICK and all(one.device.type == "cpu" for one in tensors_in(given))
        )
        scaling = cost_scaling(ours, given, axes, namer.sizes.batch, is_quick)
        measured, _ = _run_again(lambda: measure_field(ours, given)) if fields.n_windows and has_numbers else (None, ())
    return seen._replace(
        cache_bytes_per_token=cache.bytes_per_token(namer.sizes.batch),
        scaling=scaling,
        receptive_field=receptive_field(fields, measured),
        notes=(*seen.notes, *notes),
    )


def _run_again(look: Callable[[], Result]) -> tuple[Result | None, tuple[Statement, ...]]:
    """What came of running the module once more, and why nothing did where it does not run twice."""
    try:
        return look(), ()
    except Exception as raised:  # a forward may raise anything
        return None, (make_note("ran-once", error=type(raised).__name__, message=one_line(str(raised))),)


def table_of_trace(model: nn.Module, trace: Trace, timing: ForwardTimes | None, name: str = "") -> Inspection:
    """The table of what a trace saw; without times where there are none, as of a forward that failed."""
    calls = _by_module(trace)
    order = sorted(
        range(len(trace.modules)), key=lambda number: calls[number][0] if calls[number] else len(trace.calls)
    )
    order = [number for number in order if calls[number] or not isinstance(trace.modules[number], _LISTS)]
    own = own_parameters((trace.paths[number], trace.modules[number]) for number in order)
    namer = Namer(trace)
    rows = []
    for number, (n_parameters, tied) in zip(order, own, strict=True):
        made = [trace.calls[which] for which in calls[number]]
        module = trace.modules[number]
        rows.append(
            ModuleRow(
                path=trace.paths[number],
                kind=type(module).__name__,
                inputs=namer.inputs(made[0]) if made else (),
                outputs=namer.outputs(made[0]) if made else (),
                parameters=n_parameters,
                tied=tied,
                flops_by_formula=_by_formula(module, made),
                own_flops=sum(call.own_flops for call in made),
                flops_by_operation=sum(call.flops for call in made if not _is_inside_itself(call, trace)),
                activation_bytes=sum(seen.n_bytes for call in made for seen in call.outputs),
                seconds=timing.of_modules[number] if timing else 0.0,
                share_of_time=min(1.0, timing.shares[number]) if timing else 0.0,
                n_calls=len(made),
                readers=() if made else _readers(trace, number),
            )
        )
    unique = {id(one): one for one in nn.Module.parameters(model)}.values()
    buffers = {id(one): one for one in nn.Module.buffers(model)}.values()
    n_unique = sum(one.numel() for one in unique)
    assert sum(row.parameters for row in rows) == n_unique, "a parameter was counted twice, or not at all"
    formulas = [row.flops_by_formula for row in rows if row.flops_by_formula is not None]
    return Inspection(
        name=name,
        kind=type(model).__name__,
        rows=tuple(rows),
        parameters=n_unique,
        parameters_with_ties=sum(one.numel() for _, one in nn.Module.named_parameters(model, remove_duplicate=False)),
        trainable=sum(one.numel() for one in unique if one.requires_grad),
        buffers=sum(one.numel() for one in buffers),
        parameter_bytes=sum(one.numel() * one.element_size() for one in unique),
        flops_by_formula=sum(formulas) if formulas else None,
        flops_by_operation=trace.flops,
        activation_bytes=sum(trace.made.values()),
        seconds=timing.whole if timing else 0.0,
        sequential_depth=trace.depth,
        uncounted=tuple(sorted(trace.uncounted)),
    )


def _by_module(trace: Trace) -> list[list[int]]:
    """The calls of each module, by its number."""
    found: list[list[int]] = [[] for _ in trace.modules]
    for which, call in enumerate(trace.calls):
        found[call.module].append(which)
    return found


def _by_formula(module: nn.Module, made: list[TracedCall]) -> int | None:
    """FLOPs of all calls of a module by its formula; None where it has none and yet has products of its own."""
    formula = formula_of(module)
    if formula is None:
        return None if any(call.own_flops for call in made) else 0
    done = [call for call in made if call.inputs and call.outputs]
    return sum(
        formula(module, [one.shape for one in call.inputs], [one.shape for one in call.outputs]) for call in done
    )


def _is_inside_itself(call: TracedCall, trace: Trace) -> bool:
    """Whether a module was called by itself, directly or not: its FLOPs are in those of the call around it."""
    parent = call.parent
    while parent >= 0:
        if trace.calls[parent].module == call.module:
            return True
        parent = trace.calls[parent].parent
    return False


def _readers(trace: Trace, number: int) -> tuple[str, ...]:
    """Who read the parameters of a module, by path."""
    path = trace.paths[number]
    own = [f"{path}.{name}" if path else name for name in trace.modules[number]._parameters]
    return tuple(sorted({trace.readers[name] for name in own if name in trace.readers}))


def own_parameters(modules: Iterable[tuple[str, nn.Module]]) -> list[tuple[int, tuple[tuple[str, str], ...]]]:
    """How many numbers each module, in this order, has that none before it had; and which of its parameters one had.

    >>> head = nn.Linear(2, 5, bias=False)
    >>> head.weight = (embedding := nn.Embedding(5, 2)).weight
    >>> own_parameters([("embedding", embedding), ("head", head)])
    [(10, ()), (0, (('weight', 'embedding.weight'),))]
    """
    first: dict[int, str] = {}
    found = []
    for path, module in modules:
        counted, tied = 0, []
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) in first:
                tied.append((name, first[id(parameter)]))
            else:
                first[id(parameter)] = f"{path}.{name}" if path else name
                counted += parameter.numel()
        found.append((counted, tuple(tied)))
    return found


class ForwardTimes(NamedTuple):
    """Seconds of a forward; the middle of several."""

    whole: float
    of_modules: tuple[float, ...]  # with their parts and over all calls of one forward, in the order they were given
    shares: tuple[float, ...]  # of the same forward


def time_forward(model: nn.Module, inputs: tuple[Any, ...], modules: Sequence[nn.Module]) -> ForwardTimes:
    """Time a forward without gradients, and each of these modules in it.

    The whole is timed as the user runs it, without a hook. The shares come from other runs, with a clock on every
    module: a clock costs about a microsecond, which is much of a small module's time and nothing of the whole's.
    """
    is_cuda = any(one.is_cuda for one in tensors_in(inputs))
    settle: Callable[[], None] = torch.cuda.synchronize if is_cuda else lambda: None  # a CPU is never behind

    def forward() -> float:
        ours = own_inputs(inputs)
        settle()
        start = perf_counter()
        model(*ours)
        settle()
        return perf_counter() - start

    with fixed_rng(), torch.no_grad():
        plain = list(_runs(forward))
        clocked = []
        with _clocks(modules, settle) as seconds:
            for total in _runs(forward):
                clocked.append((total, tuple(seconds)))
                seconds[:] = [0.0] * len(modules)
    middles = tuple(median(one) for one in zip(*(each for _, each in clocked), strict=True))
    shares = zip(*([part / total for part in each] for total, each in clocked), strict=True)
    return ForwardTimes(median(plain), middles, tuple(median(one) for one in shares))


def _runs(forward: Callable[[], float]) -> Iterator[float]:
    spent, n = 0.0, 0
    while n == 0 or (n < MOST_RUNS and spent < ENOUGH_SECONDS):
        seconds = forward()
        spent, n = spent + seconds, n + 1
        yield seconds


@contextmanager
def _clocks(modules: Sequence[nn.Module], settle: Callable[[], None]) -> Iterator[list[float]]:
    """A clock on each module; what they show is added up in the list."""
    seconds = [0.0] * len(modules)
    running: list[tuple[int, float]] = []

    def begins(number: int, *_: object) -> None:
        settle()
        running.append((number, perf_counter()))

    def ends(number: int, *_: object) -> None:
        settle()
        while running[-1][0] != number:  # those whose error was caught around them
            running.pop()
        seconds[number] += perf_counter() - running.pop()[1]

    with hook_modules(enumerate(modules), begins, ends, is_outermost=True):
        yield seconds


# Names of dimensions. A convolution knows its channels, a recurrent layer its time. A name is put on a dimension only
# if its size agrees: what a linear layer reads is called batch only where it is as long as the batch, and batch·time
# where both were folded.

Names = tuple[str, ...]  # one for each dimension; "" where it cannot be told
_MAYBE_TIME = "time?"  # time, if it is as long as the sequences that came in: patches of an image are not

_SPACE: dict[int, Names] = {1: ("time",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_CHANNELS_FIRST = {f"torch.nn.modules.{name}" for name in ("conv", "pooling", "batchnorm", "instancenorm", "padding")}
_NUMBER_BY_NUMBER = {
    f"torch.nn.modules.{name}" for name in ("activation", "dropout", "normalization", "batchnorm", "instancenorm")
}


class Sizes(NamedTuple):
    """How long the batch and its sequences are; 0 and nothing where it cannot be told."""

    batch: int
    times: frozenset[int]


class Namer:
    """Names the shapes of a trace.

    >>> import torch
    >>> from pellucid.inspection.table.trace import trace_forward
    >>> trace = trace_forward(nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU()), (torch.zeros(4, 2, 9),))
    >>> print(*Namer(trace).outputs(trace.calls[-1]))
    (batch 4, channels 3, time 7)
    """

    def __init__(self, trace: Trace) -> None:
        self._modules = trace.modules
        self._told: dict[int, Names] = {}  # by the token of a tensor
        for call in trace.calls:
            self._learn(call)
        self._given = list(self._named_inputs(trace.calls[0])) if trace.calls else []
        self.sizes = self._measure()

    def inputs(self, call: TracedCall) -> tuple[NamedShape, ...]:
        return tuple(self._name(one) for one in call.inputs)

    def outputs(self, call: TracedCall) -> tuple[NamedShape, ...]:
        return tuple(self._name(one) for one in call.outputs)

    def time_axis(self, shape: Sequence[int]) -> int | None:
        """Which dimension of an input of the whole is time; None where none is, or no input has this shape."""
        return next(
            (names.index("time") for seen, names in self._given if seen.shape == shape and "time" in names), None
        )

    def _learn(self, call: TracedCall) -> None:
        """What the kind of a module says of the tensors that it was given and made, whatever their sizes."""
        module = self._modules[call.module]
        if isinstance(module, nn.RNNBase):  # its states come behind what it reads and makes
            for seen in (*call.inputs[1:], *call.outputs[1:]):
                self._told.setdefault(seen.token, ("layers", "batch", "features") if len(seen.shape) == 3 else ())
        for seen in call.inputs:
            if names := _by_kind(module, len(seen.shape), is_whole=seen.is_whole):
                self._told.setdefault(seen.token, names)
        works_alike = type(module).__module__ in _NUMBER_BY_NUMBER
        for seen in call.outputs:
            if works_alike and call.inputs and call.inputs[0].shape == seen.shape:
                names = self._told.get(call.inputs[0].token, ())
            else:
                names = _by_kind(module, len(seen.shape), is_whole=False)
            if names:
                self._told.setdefault(seen.token, names)

    def _named_inputs(self, whole: TracedCall) -> Iterator[tuple[TensorFacts, Names]]:
        """What comes into the whole: as its modules call it, and where none says more by its rank."""
        are_whole = all(seen.is_whole for seen in whole.inputs)
        for seen in whole.inputs:
            if seen.token != whole.inputs[0].token and len(seen.shape) == 2 and seen.shape[0] == seen.shape[1]:
                yield seen, ("", "")  # beside another input a square is a mask, which no batch has
                continue
            told = self._told.get(seen.token, ())
            if _MAYBE_TIME in told:  # what depends on the length of time cannot tell it
                yield seen, tuple("time" if name == _MAYBE_TIME else name for name in told)
            else:
                yield seen, told or _by_rank(seen, are_tokens=are_whole)

    def _measure(self) -> Sizes:
        """The batch is what all inputs share; time what follows it in tokens, or in sequences of features."""
        named = [pair for seen, names in self._given for pair in zip(names, seen.shape, strict=True)]
        batches = {size for name, size in named if name == "batch"}
        times = frozenset(size for name, size in named if name == "time")
        return Sizes(batches.pop() if len(batches) == 1 else 0, times)

    def _name(self, seen: TensorFacts) -> NamedShape:
        rank = len(seen.shape)
        names = self._told.get(seen.token) or ("batch", _MAYBE_TIME, *("" for _ in seen.shape[2:]))[:rank]
        agreed = (self._agreed_name(name, size) for name, size in zip(names, seen.shape, strict=True))
        return NamedShape(seen.shape, tuple(agreed))

    def _agreed_name(self, name: str, size: int) -> str:
        """The name, if a dimension of this size can be that."""
        batch, times = self.sizes
        if name == "batch" and size != batch:
            return "batch·time" if batch and any(size == batch * time for time in times) else ""
        if name == _MAYBE_TIME:
            return "time" if size in times else ""
        # Where time was shortened, by a stride or a window, it is still time to those who work along it.
        return name


def _by_kind(module: nn.Module, rank: int, is_whole: bool) -> Names:
    """What a module of this kind calls the dimensions of what it reads and makes; nothing where it has no names."""
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        first: Names = ("batch", "time") if module.batch_first else ("time", "batch")
        return (*first, "features") if rank == 3 else ()
    if isinstance(module, nn.Embedding) and is_whole:
        return ("batch", _MAYBE_TIME) if rank == 2 else ()
    if isinstance(module, nn.Flatten):
        return ("batch", "features") if rank == 2 else ()
    if isinstance(module, nn.Linear | nn.LayerNorm | nn.RMSNorm | nn.Embedding):
        known: dict[int, Names] = {1: ("features",), 2: ("batch", "features"), 3: ("batch", _MAYBE_TIME, "features")}
        return known.get(rank, ("batch", *("" for _ in range(rank - 2)), "features"))
    for kind in type(module).__mro__:
        if kind.__module__ in _CHANNELS_FIRST and (found := re.search(r"(\d)d$", kind.__name__)):
            space = _SPACE[int(found[1])]
            if rank == len(space) + 2:
                return ("batch", "channels", *space)
            return ("batch", "features") if "Norm" in kind.__name__ and rank == 2 else ()
    return ()


def _by_rank(seen: TensorFacts, are_tokens: bool) -> Names:
    """What the input of a whole model is taken for where none of its modules says more.

    Whole numbers are tokens where nothing else comes; beside other numbers they may be categories.
    """
    rank = len(seen.shape)
    if rank == 3 and not seen.is_whole:
        return ("batch", "time", "features")
    second = "" if not seen.is_whole else "time" if are_tokens else ""
    return ("batch", second, *("" for _ in range(rank - 2)))[:rank]
