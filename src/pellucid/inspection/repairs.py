"""Repairs that were tried: each is made on a copy, the copy is run, and only what ran to the end is told.

Where one mistake hides another, a change that brings the forward farther is kept, and the next one looked for.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from pellucid.inspection.attempts import Attempt, Shape, attempted, is_small
from pellucid.inspection.causes import cause_of
from pellucid.inspection.changes import Change, Replacing, Trial
from pellucid.inspection.flow import tensors_in
from pellucid.inspection.remedies import remedies
from pellucid.records.inspection import Repair

MOST_SHOWN = 3
MOST_MISTAKES = 6  # one behind the other
MOST_TRIED = 60
MOST_SECONDS = 8.0


class Mended(NamedTuple):
    """Changes after which the whole forward ran."""

    changes: tuple[Change, ...]

    @property
    def repair(self) -> Repair:
        said = [f"{change.says}: {change.reason}" if change.reason else change.says for change in self.changes]
        return Repair("; ".join(said), self.changes[0].path)

    @property
    def says(self) -> str:
        """What stands in the sentence: the new layer itself, where that is the repair."""
        return "; ".join(change.writes or change.says for change in self.changes)


def repairs(model: nn.Module, inputs: tuple[Any, ...], failed: Attempt) -> list[Mended]:
    """Up to three ways that make the forward run, the shortest first; none where the module cannot be copied.

    >>> import torch
    >>> model, batch = nn.Sequential(nn.Flatten(), nn.Linear(120, 10)), (torch.ones(2, 16, 3, 3),)
    >>> [mended.says for mended in repairs(model, batch, attempted(model, batch))]
    ['nn.Linear(144, 10)']
    """
    given = tuple(tuple(one.shape) for one in tensors_in(inputs))
    deadline, n_tried = time.monotonic() + MOST_SECONDS, 0
    front: list[tuple[tuple[Change, ...], Attempt, nn.Module]] = [((), failed, model)]
    if not is_small(model):
        return []
    for _ in range(MOST_MISTAKES):
        found: list[Mended] = []
        farther: list[tuple[tuple[Change, ...], Attempt, nn.Module]] = []
        for made, attempt, seen in front:
            for change in _possible(attempt, given, seen):
                if n_tried >= MOST_TRIED or time.monotonic() > deadline or len(found) == MOST_SHOWN:
                    return found
                if change.group and any(change.group == one.changes[-1].group for one in found):
                    continue
                n_tried += 1
                tried = _tried(model, inputs, (*made, change))
                if tried is None:
                    continue
                again, changed = tried
                if again.error is None:
                    found.append(Mended((*made, change)))
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
    changes = remedies(cause_of(attempt, given), attempt, model)
    while True:
        try:
            found.append(next(changes))
        except StopIteration:
            return found
        except Exception:  # a constructor refused: what would come behind it is not looked for
            return found


def _tried(model: nn.Module, inputs: tuple[Any, ...], changes: Sequence[Change]) -> tuple[Attempt, nn.Module] | None:
    """One forward of a copy on which the changes were made; None where there is no copy, or they cannot be made."""
    try:
        trial = Trial(copy.deepcopy(model), inputs)
        for change in changes:
            change.make(trial)
    except Exception:
        return None
    around = Replacing(trial.replacing) if trial.replacing else None
    return attempted(trial.model, trial.inputs, around), trial.model
