"""Why a forward failed: the layer, the line, the shapes up to it, the two numbers, and repairs that were tried."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from torch import nn

from pellucid.errors import one_line
from pellucid.inspection.expression.modules import spell_module
from pellucid.inspection.instrument.isolation import borrow_module, fixed_rng, is_small
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.shapes.causes import (
    Attempt,
    Cause,
    LayerStep,
    Shape,
    attempt_forward,
    cause_of,
    users_line,
)
from pellucid.inspection.shapes.remedies import Change, ChangedCopy, remedies
from pellucid.records.inspection import Repair, ShapeStep, ShapeXray

MOST_SHOWN = 3  # repairs
MOST_MISTAKES = 6  # one behind the other
MOST_TRIED = 60
MOST_SECONDS = 8.0

WorkingRepair = tuple[Change, ...]  # made together, after which the whole forward ran


class FailureReport(NamedTuple):
    """What is shown, and what it was made of."""

    seen: ShapeXray
    mended: list[WorkingRepair]
    attempt: Attempt
    cause: Cause

    @property
    def is_for_any_input(self) -> bool:
        """Whether two layers disagree that would do so whatever sizes come in, so that a guess proves it as well.

        Features that were flattened out of a picture go with its size, unless no size can make them: what a linear
        layer asks for must be a multiple of the channels.
        """
        if not self.attempt.steps or not self.mended or not all(one.told.writes for one in self.mended[0]):
            return False
        pictures = [step.outputs[0] for step in self.attempt.steps if step.outputs and len(step.outputs[0]) > 2]
        is_of_windows = any("Conv" in step.kind or "Pool" in step.kind for step in self.attempt.steps)
        if self.cause.kind not in ("features", "recurrent", "last-norm") or not is_of_windows:
            return self.cause.kind not in ("size", "index", "rank", "type", "one-row")
        return bool(self.cause.asked % pictures[-1][1])


def explain_failure(model: nn.Module, inputs: tuple[Any, ...]) -> FailureReport | None:
    """Run the module once, and where that fails tell why; None where it runs.

    >>> import torch
    >>> seen = explain_failure(nn.Sequential(nn.Flatten(), nn.Linear(120, 10)), (torch.ones(2, 16, 3, 3),)).seen
    >>> seen.layer, seen.fed, seen.origin.factors, seen.repairs[0].changes[0].writes
    ('Linear(120, 10)', Statement(kind='count', facts={'n': 144, 'unit': 'features'}), (16, 3, 3),
    ('nn.Linear(144, 10)',))
    """
    with borrow_module(model) as ours:
        attempt = attempt_forward(ours, inputs)
    if attempt.error is None:
        return None
    given = tuple(tuple(one.shape) for one in tensors_in(inputs))
    cause = cause_of(attempt, given)
    with fixed_rng():  # layers that are made to be tried draw their weights
        mended = find_repairs(model, inputs, attempt)
    layer = spell_module(attempt.module if attempt.module is not None else model).removeprefix("nn.")
    seen = ShapeXray(
        path=attempt.path,
        kind=type(attempt.module).__name__ if attempt.module is not None else type(model).__name__,
        where=users_line(attempt.error),
        error=one_line(f"{type(attempt.error).__name__}: {attempt.error_line}"),
        layer=layer if layer.endswith(")") else "",
        fed=cause.fed,
        origin=cause.origin,
        wanted=cause.wanted,
        chain=tuple(_chain(attempt, given, cause)),
        repairs=tuple(Repair(tuple(change.told for change in one)) for one in mended),
    )
    return FailureReport(seen, mended, attempt, cause)


def _chain(attempt: Attempt, given: tuple[Shape, ...], cause: Cause) -> Iterator[ShapeStep]:
    """Every shape from the input to where it failed; what a forward did between two layers is a step of its own."""
    yield ShapeStep("input", outputs=given)
    last = given[0] if given else ()
    for step in attempt.steps:
        if step.inputs and step.inputs[0] != last:
            yield ShapeStep("between", "", (last,), step.inputs[:1])
        yield ShapeStep("layer", step.name, step.inputs, step.outputs)
        last = step.outputs[0] if step.outputs else ()
    fed = attempt.input_shapes()
    if cause.kind == "operation":
        yield ShapeStep("operation", is_failed=True)
    elif fed and attempt.module is not None:
        if attempt.steps and fed[0] != last and not any(attempt.module.children()):
            yield ShapeStep("between", "", (last,), fed[:1])
        name = LayerStep(attempt.path, type(attempt.module).__name__, fed, ()).name
        yield ShapeStep("layer", name, fed, is_failed=True)


def find_repairs(model: nn.Module, inputs: tuple[Any, ...], failed: Attempt) -> list[WorkingRepair]:
    """Up to three ways that make the forward run, the shortest first; none where the module cannot be copied.

    Each is made on a copy, the copy is run, and only what ran to the end is told. Where one mistake hides another, a
    change that brings the forward farther is kept, and the next one looked for.

    >>> import torch
    >>> model, batch = nn.Sequential(nn.Flatten(), nn.Linear(120, 10)), (torch.ones(2, 16, 3, 3),)
    >>> [mended[0].told.writes for mended in find_repairs(model, batch, attempt_forward(model, batch))]
    [('nn.Linear(144, 10)',)]
    """
    given = tuple(tuple(one.shape) for one in tensors_in(inputs))
    deadline, n_tried = time.monotonic() + MOST_SECONDS, 0
    front: list[tuple[WorkingRepair, Attempt, nn.Module]] = [((), failed, model)]
    if not is_small(model):
        return []
    for _ in range(MOST_MISTAKES):
        found: list[WorkingRepair] = []
        farther: list[tuple[WorkingRepair, Attempt, nn.Module]] = []
        for made, attempt, seen in front:
            for change in _possible(attempt, given, seen):
                if n_tried >= MOST_TRIED or time.monotonic() > deadline or len(found) == MOST_SHOWN:
                    return found
                if change.group and any(change.group == one[-1].group for one in found):
                    continue
                n_tried += 1
                tried = _try_changes(model, inputs, (*made, change))
                if tried is None:
                    continue
                again, changed = tried
                if again.error is None:
                    found.append((*made, change))
                elif again.progress > attempt.progress:
                    farther.append(((*made, change), again, changed))
        if found or not farther:
            return found
        farther.sort(key=lambda one: one[1].progress, reverse=True)
        front = farther[:2]
    return []


def _possible(attempt: Attempt, given: Sequence[Shape], model: nn.Module) -> list[Change]:
    """The changes for a failed attempt; a layer that cannot be made so is no change."""
    found: list[Change] = []
    with suppress(Exception):  # a constructor refused: what would come behind it is not looked for
        for change in remedies(cause_of(attempt, given), attempt, model):
            found.append(change)  # noqa: PERF402  # one by one, to keep those that came before it
    return found


def _try_changes(
    model: nn.Module, inputs: tuple[Any, ...], changes: Sequence[Change]
) -> tuple[Attempt, nn.Module] | None:
    """One forward of a copy on which the changes were made; None where there is no copy, or they cannot be made."""
    try:
        trial = ChangedCopy(copy.deepcopy(model), inputs)
        for change in changes:
            change.make(trial)
    except Exception:
        return None
    return attempt_forward(trial.model, trial.inputs, trial.call), trial.model
