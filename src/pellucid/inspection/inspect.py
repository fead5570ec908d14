"""A whole look at a module: its table, and where its forward fails the reason, or what it does without a word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from pellucid.errors import ExpressionError, PellucidError, one_line
from pellucid.inspection.expression.modules import BuiltModule
from pellucid.inspection.inputs import guess_inputs, make_inputs
from pellucid.inspection.shapes.attempts import users_line
from pellucid.inspection.shapes.broadcasts import silent_broadcasts
from pellucid.inspection.shapes.remedies import Change
from pellucid.inspection.shapes.xray import FailureReport, WorkingRepair, explain_failure
from pellucid.inspection.table.module_table import table_of_trace, tabulate_module
from pellucid.inspection.table.trace import ForwardFailed, Trace
from pellucid.records.inspection import Inspection, Mistake, ShapeXray

LONGEST_SECONDS = 3.0  # of a forward that is run twice more


def inspect_module(model: nn.Module, inputs: tuple[Any, ...] = (), name: str = "") -> Inspection:
    """The table of a module on these inputs; without any, on inputs that its first layers seem to want.

    >>> inspect_module(nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))).failure.summary
    'Linear(9, 2) is fed 8 features: nn.Linear(8, 2) works'
    """
    return _inspect(model, inputs, name)[0]


def inspect_expression(built: BuiltModule, inputs: tuple[Any, ...], name: str = "") -> Inspection:
    """The table of a module that was written as an expression, with what is to be mended in it."""
    seen, found = _inspect(built.module, inputs, name)
    text = _mend_text(built, found.mended[0] if found and found.mended else None)
    if not built.is_held:
        seen = seen._replace(notes=(*seen.notes, "its weights are larger than is held here: only shapes were followed"))
    return seen._replace(
        mistakes=tuple(map(as_mistake, built.written.mistakes)), mended=text if text != built.written.text else ""
    )


def as_mistake(error: ExpressionError) -> Mistake:
    return Mistake(f"{error.what} {error.where}", error.excerpt(), error.fix)


def _inspect(model: nn.Module, inputs: tuple[Any, ...], name: str) -> tuple[Inspection, FailureReport | None]:
    notes: tuple[str, ...] = ()
    is_guessed = not inputs
    if not inputs and _is_lazy(model):
        raise PellucidError(
            f"{type(model).__name__} has lazy parameters and needs an input shape",
            fix="Give one, as {input}",
            options={"input": "2,16"},
        )
    if not inputs:
        guess = guess_inputs(model)
        notes = (guess.description,)
        inputs = make_inputs(guess.shapes, model)
    if inputs and _is_lazy(model):
        model(*inputs)  # which gives its parameters their shapes
        notes = ("its lazy parameters got their shapes from these inputs",)
    if not inputs:
        return _parameters_only(model, name, notes), None
    try:
        seen = tabulate_module(model, inputs, name)
    except ForwardFailed as error:
        found = explain_failure(model, inputs)
        failure = found.seen if found else _report_unexplained(error)
        seen = table_of_trace(model, error.trace, None, name)
        if is_guessed and not (found and found.is_for_any_input):
            said = f"forward does not take what was guessed, which proves nothing: {failure.summary}; give an input"
            return seen._replace(notes=(*notes, said, *seen.notes)), None
        return seen._replace(failure=failure, notes=(*notes, *seen.notes)), found
    if seen.seconds > LONGEST_SECONDS:
        notes = (*notes, f"silent broadcasts were not looked for, as a forward takes {seen.seconds:.1f} s")
    else:
        seen = seen._replace(broadcasts=tuple(silent_broadcasts(model, inputs)))
    return seen._replace(notes=(*notes, *seen.notes)), None


def _parameters_only(model: nn.Module, name: str, notes: Iterable[str]) -> Inspection:
    """The table without shapes, for nothing was run."""
    return table_of_trace(model, Trace.of(model), None, name)._replace(notes=tuple(notes))


def _is_lazy(model: nn.Module) -> bool:
    return any(is_lazy(one) for one in nn.Module.parameters(model))


def _report_unexplained(error: ForwardFailed) -> ShapeXray:
    """What is known of a failure that does not happen again when it is looked at."""
    trace = error.trace
    raised = f"{type(trace.failure).__name__}: {trace.failure}"
    kind = type(trace.modules[trace.calls[trace.failed_in].module]).__name__ if trace.calls else ""
    return ShapeXray(
        path=trace.failed_path,
        kind=kind,
        where=users_line(trace.failure),
        error=one_line(raised),
        summary=error.what,
    )


def _in_its_place(built: BuiltModule, change: Change) -> str:
    """What is written for one layer: two layers stand alone only among others of a sequence."""
    above = change.path.rpartition(".")[0]
    is_among = bool(change.path) and isinstance(built.module.get_submodule(above), nn.Sequential)
    written = ", ".join(change.writes)
    return written if is_among or len(change.writes) == 1 else f"nn.Sequential({written})"


def _mend_text(built: BuiltModule, mended: WorkingRepair | None) -> str:
    """The expression with its commas, and with the repair where that can be written into it."""
    changes = mended.changes if mended else ()
    if not all(change.writes and change.path in built.places for change in changes):
        return built.written.mended_text
    edits = [(*built.places[change.path], _in_its_place(built, change)) for change in changes]
    # A layer that is written anew takes with it what was missing inside it.
    commas = [one for one in built.written.commas if not any(start < one < end for start, end, _ in edits)]
    text = built.written.text
    for start, end, writes in sorted([*edits, *((one, one, ",") for one in commas)], reverse=True):
        text = text[:start] + writes + text[end:]
    return text
