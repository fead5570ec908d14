"""A table of any module: a row for each of its parts, in the order in which a real forward calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn

from pellucid.errors import one_line
from pellucid.inspection.borrowing import borrowed, uncompiled
from pellucid.inspection.costs import formula_of
from pellucid.inspection.flow import tensors_in
from pellucid.inspection.key_cache import KeyCache
from pellucid.inspection.naming import Namer
from pellucid.inspection.parameters import own_parameters, parameter_totals
from pellucid.inspection.receptive_field import Fields, measured_field, receptive_field
from pellucid.inspection.scaling import cost_scaling
from pellucid.inspection.timing import Timing, timed
from pellucid.inspection.tracing import Call, ForwardFailed, Trace, traced
from pellucid.records.inspection import Inspection, ModuleRow

Result = TypeVar("Result")
QUICK = 0.02  # seconds of a forward that may be run several times more, also on longer inputs
_LISTS = (nn.ModuleList, nn.ModuleDict)  # they hold modules, and are never called


def inspect_module(model: nn.Module, inputs: Tensor | tuple[Any, ...], name: str = "") -> Inspection:
    """Run a few forwards of a module on these inputs, and tell what each part of it is, was given and cost.

    The module is afterwards what it was before. Where its forward fails, ForwardFailed has what was seen until then.

    >>> import torch
    >>> seen = inspect_module(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(3, 4))
    >>> [(row.path, row.outputs, row.parameters, row.flops_by_formula) for row in seen.rows]
    [('', ('(batch 3, features 2)',), 0, 0), ('0', ('(batch 3, features 8)',), 40, 192),
     ('1', ('(batch 3, features 8)',), 0, 0), ('2', ('(batch 3, features 2)',), 18, 96)]
    >>> seen.parameters, seen.flops_by_formula, seen.flops_by_operation, seen.sequential_depth
    (58, 288, 288, 2)
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    model = uncompiled(model)
    fields, cache = Fields(), KeyCache()
    with borrowed(model) as ours:
        trace = traced(ours, given, observers=(fields, cache))
        if trace.failure is not None:
            raise ForwardFailed(trace) from trace.failure
        has_numbers = not any(one.is_meta for one in tensors_in((given, list(ours.parameters()))))
        timing, note = _attempted(lambda: timed(ours, given, trace.modules)) if has_numbers else (None, "")
        seen = inspection_of(model, trace, timing, name)
        namer = Namer(trace)
        axes = [namer.time_axis(one.shape) if isinstance(one, Tensor) else None for one in given]
        # On another device an index that is too large would end the whole process, not the forward.
        is_quick = (
            timing is not None and timing.whole < QUICK and all(one.device.type == "cpu" for one in tensors_in(given))
        )
        scaling = cost_scaling(ours, given, axes, namer.sizes.batch, is_quick)
        measured, _ = (
            _attempted(lambda: measured_field(ours, given)) if fields.n_windows and has_numbers else (None, "")
        )
    return seen._replace(
        cache_bytes_per_token=cache.bytes_per_token(namer.sizes.batch),
        scaling=scaling,
        receptive_field=receptive_field(fields, measured),
        notes=(*seen.notes, note) if note else seen.notes,
    )


def _attempted(look: Callable[[], Result]) -> tuple[Result | None, str]:
    """What came of running the module once more, and why nothing did where it does not run twice."""
    try:
        return look(), ""
    except Exception as raised:  # a forward may raise anything
        return None, one_line(f"it ran once, and then raised {type(raised).__name__}: {raised}")


def inspection_of(model: nn.Module, trace: Trace, timing: Timing | None, name: str = "") -> Inspection:
    """The table of what a trace saw; without times where there are none, as of a forward that failed."""
    calls = _by_module(trace)
    order = sorted(
        range(len(trace.modules)), key=lambda number: calls[number][0] if calls[number] else len(trace.calls)
    )
    order = [number for number in order if calls[number] or not isinstance(trace.modules[number], _LISTS)]
    own = own_parameters((trace.paths[number], trace.modules[number]) for number in order)
    namer = Namer(trace)
    rows = []
    for number, parameters in zip(order, own, strict=True):
        made = [trace.calls[which] for which in calls[number]]
        module = trace.modules[number]
        formula = _by_formula(module, made)
        own_flops = sum(call.own_flops for call in made)
        rows.append(
            ModuleRow(
                path=trace.paths[number],
                kind=type(module).__name__,
                inputs=namer.inputs(made[0]) if made else (),
                outputs=namer.outputs(made[0]) if made else (),
                parameters=parameters.counted,
                tied=parameters.tied,
                flops_by_formula=formula,
                flops_by_operation=sum(call.flops for call in made if not _is_inside_itself(call, trace)),
                activation_bytes=sum(seen.n_bytes for call in made for seen in call.outputs),
                seconds=timing.of_modules[number] if timing else 0.0,
                share_of_time=min(1.0, timing.shares[number]) if timing else 0.0,
                n_calls=len(made),
                note="; ".join(_notes(trace, number, made, formula, own_flops)),
            )
        )
    totals = parameter_totals(model)
    assert sum(row.parameters for row in rows) == totals.unique, "a parameter was counted twice, or not at all"
    formulas = [row.flops_by_formula for row in rows if row.flops_by_formula is not None]
    return Inspection(
        name=name,
        kind=type(model).__name__,
        rows=tuple(rows),
        parameters=totals.unique,
        parameters_with_ties=totals.with_ties,
        trainable=totals.trainable,
        buffers=totals.buffers,
        parameter_bytes=totals.n_bytes,
        flops_by_formula=sum(formulas) if formulas else None,
        flops_by_operation=trace.flops,
        activation_bytes=sum(trace.made.values()),
        seconds=timing.whole if timing else 0.0,
        sequential_depth=trace.depth,
        notes=tuple(_notes_on_the_whole(rows, trace)),
    )


def _by_module(trace: Trace) -> list[list[int]]:
    """The calls of each module, by its number."""
    found: list[list[int]] = [[] for _ in trace.modules]
    for which, call in enumerate(trace.calls):
        found[call.module].append(which)
    return found


def _by_formula(module: nn.Module, made: list[Call]) -> int | None:
    """FLOPs of all calls of a module by its formula; None where it has none and yet has products of its own."""
    formula = formula_of(module)
    if formula is None:
        return None if any(call.own_flops for call in made) else 0
    done = [call for call in made if call.inputs and call.outputs]
    return sum(
        formula(module, [one.shape for one in call.inputs], [one.shape for one in call.outputs]) for call in done
    )


def _is_inside_itself(call: Call, trace: Trace) -> bool:
    """Whether a module was called by itself, directly or not: its FLOPs are in those of the call around it."""
    parent = call.parent
    while parent >= 0:
        if trace.calls[parent].module == call.module:
            return True
        parent = trace.calls[parent].parent
    return False


def _notes(trace: Trace, number: int, made: list[Call], formula: int | None, own_flops: int) -> list[str]:
    notes = []
    if not made:
        path = trace.paths[number]
        own = [f"{path}.{name}" if path else name for name in trace.modules[number]._parameters]
        readers = {trace.readers[name] or "the whole" for name in own if name in trace.readers}
        notes.append(f"never called, read by {', '.join(sorted(readers))}" if readers else "never called")
    if formula is None:
        notes.append(f"no formula: {own_flops:,} FLOPs of its own by operation")
    elif formula != own_flops:
        notes.append(f"the two counts disagree: {formula:,} by formula, {own_flops:,} by operation")
    return notes


def _notes_on_the_whole(rows: list[ModuleRow], trace: Trace) -> list[str]:
    notes = []
    without = [row.path or row.kind for row in rows if row.flops_by_formula is None]
    by_formula = sum(row.flops_by_formula or 0 for row in rows)
    if without:
        few = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
        notes.append(f"by formula it is at least {by_formula:,} FLOPs: there is none for {few}")
    elif by_formula != trace.flops:
        notes.append(f"the two counts disagree: {by_formula:,} FLOPs by formula, {trace.flops:,} by operation")
    if trace.uncounted:
        notes.append(f"not counted, for no rule is known: {', '.join(sorted(trace.uncounted))}")
    return notes
