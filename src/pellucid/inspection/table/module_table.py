"""A table of any module: a row for each of its parts, in the order in which a real forward calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pellucid.errors import one_line
from pellucid.inspection.instrument.isolation import borrow_module, fixed_rng, own_inputs, unwrap_compiled
from pellucid.inspection.instrument.recording import hook_modules
from pellucid.inspection.instrument.specimen import tensors_in
from pellucid.inspection.table.axis_names import Namer
from pellucid.inspection.table.cost_scaling import cost_scaling
from pellucid.inspection.table.flops import formula_of
from pellucid.inspection.table.key_cache import KeyCache
from pellucid.inspection.table.receptive_field import FieldFollower, measure_field, receptive_field
from pellucid.inspection.table.trace import ForwardFailed, Trace, TracedCall, trace_forward
from pellucid.records.inspection import Inspection, ModuleRow

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
        trace = trace_forward(ours, given, observers=(fields, cache))
        if trace.failure is not None:
            raise ForwardFailed(trace) from trace.failure
        has_numbers = not any(one.is_meta for one in tensors_in((given, list(ours.parameters()))))
        timing, note = _run_again(lambda: time_forward(ours, given, trace.modules)) if has_numbers else (None, "")
        seen = table_of_trace(model, trace, timing, name)
        namer = Namer(trace)
        axes = [namer.time_axis(one.shape) if isinstance(one, Tensor) else None for one in given]
        # On another device an index that is too large would end the whole process, not the forward.
        is_quick = (
            timing is not None and timing.whole < QUICK and all(one.device.type == "cpu" for one in tensors_in(given))
        )
        scaling = cost_scaling(ours, given, axes, namer.sizes.batch, is_quick)
        measured, _ = _run_again(lambda: measure_field(ours, given)) if fields.n_windows and has_numbers else (None, "")
    return seen._replace(
        cache_bytes_per_token=cache.bytes_per_token(namer.sizes.batch),
        scaling=scaling,
        receptive_field=receptive_field(fields, measured),
        notes=(*seen.notes, note) if note else seen.notes,
    )


def _run_again(look: Callable[[], Result]) -> tuple[Result | None, str]:
    """What came of running the module once more, and why nothing did where it does not run twice."""
    try:
        return look(), ""
    except Exception as raised:  # a forward may raise anything
        return None, one_line(f"it ran once, and then raised {type(raised).__name__}: {raised}")


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
    settle = torch.cuda.synchronize if any(one.is_cuda for one in tensors_in(inputs)) else _nothing

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


def _nothing() -> None:
    """A CPU is never behind."""
