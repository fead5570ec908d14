"""The whole ladder on one split with one budget: what counts, and every network, each in a run of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pellucid.records import Ladder
from pellucid.training.listening import Listener
from pellucid.training.opening import DataWishes, opened
from pellucid.training.running import Page, counted_on, train_on
from pellucid.training.signals import StopRequests
from pellucid.training.wishes import TrainingWishes


def compare(
    data: DataWishes,
    wishes: Sequence[TrainingWishes],
    folder: Path,
    listener: Listener,
    climbing: Callable[[str], Listener],
    stop: StopRequests,
    page: Page,
) -> Ladder:
    """Train each network in a folder of its own name; `climbing` gives each its listener.

    Every rung chose by dev alone; test is read once for each, at its end.
    """
    found = opened(data)
    listener.opened(found.facts)
    counted = counted_on(found.sides, listener)
    folder.mkdir(parents=True)
    rungs = [one.with_test(found.sides) for one in counted]
    notes = []
    for each in wishes:
        heard = climbing(each.model)
        report = train_on(found, counted, data, each, folder / each.model, heard, stop, page)
        rungs.append(next(rung for rung in report.ladder.rungs if not rung.is_counted))
        notes.append(f"{each.model}: {report.verdict.name}. {report.ending.says}")
    return Ladder(found.facts.said, tuple(sorted(rungs, key=lambda rung: rung.dev)), tuple(notes))
