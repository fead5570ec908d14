"""The whole ladder on one split with one budget: simple models, and every network, each in a run of its own."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pellucid.data import Data
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.records import Ladder, Rung, SizeInterval, SizeLadder, SizeRung, TrainingReport, make_note
from pellucid.records.intervals import student_factor
from pellucid.records.plain import as_plain, from_plain
from pellucid.runs.disk import read_regular
from pellucid.training.callbacks import Callbacks, PageWriter
from pellucid.training.options import TrainOptions
from pellucid.training.run import measure_baselines, rank_ladder, train_on, train_run
from pellucid.training.tasks import open_task
from pellucid.training.tasks.baselines import Baseline
from pellucid.training.tasks.task import Task
from pellucid.training.workers import WorkerOptions, run_pieces

SIZES_FILE = "sizes.json"
LARGEST_FILE = 1 << 20
FEWEST_EXAMPLES = 20


def compare_networks(
    data: DataOptions,
    options: Sequence[TrainOptions],
    folder: Path,
    callbacks: Callbacks,
    *,
    read: Data | None = None,
    workers: WorkerOptions | None = None,
) -> Ladder:
    """Train each network in a folder of its own name; `callbacks.for_run` gives each its own callbacks.

    Every rung chose by dev alone; test is read once for each, at its end. read: the data, where they are open already.
    workers: several at once, and where; None: one after another, in this process.
    """
    task = open_task(data, read)
    callbacks.on_data(task.facts)
    simple = measure_baselines(task, options[0], callbacks)
    folder.mkdir(parents=True)
    rungs = [one.with_test() for one in simple]
    # Each network has its time for itself: what is compared here is compared on dev.
    asked = [replace(each, folds=0) if task.usual_folds and not each.steps else each for each in options]
    names = [f"{each.model} on counting" if each.start == "counts" else each.model for each in options]
    trainings = [
        Training(data, each, folder / name.replace(" ", "-"), name) for each, name in zip(asked, names, strict=True)
    ]
    if workers is None:
        trained = [
            _summary(train_on(task, simple, data, one.options, one.place, callbacks.for_run(one.name)))
            for one in trainings
        ]
    else:
        trained = train_at_once(trainings, read, workers, callbacks)
    rungs += [one.rung for one in trained]
    notes = [
        make_note("rung-ended", name=name, verdict=one.verdict, reason=one.reason, step=one.step, steps=one.steps)
        for name, one in zip(names, trained, strict=True)
    ]
    return rank_ladder(Ladder(task.facts.description, tuple(rungs), tuple(notes), task.measure))


class Training(NamedTuple):
    """One network of a comparison, for whichever process trains it."""

    data: DataOptions
    options: TrainOptions
    place: Path
    name: str


class TrainedRung(NamedTuple):
    """What a training came to."""

    rung: Rung
    verdict: str
    reason: str
    step: int
    steps: int


def _summary(report: TrainingReport) -> TrainedRung:
    rung = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    return TrainedRung(rung, report.verdict.name, report.ending.reason, report.ending.step, report.plan.steps)


def train_at_once(
    trainings: Sequence[Training], read: Data | None, workers: WorkerOptions, callbacks: Callbacks
) -> list[TrainedRung]:
    """Each in a run of its own, several at a time; in their own order, whichever is done first."""
    pieces = [(one.data, read, one.options, one.place, callbacks.page) for one in trainings]
    found: dict[int, TrainedRung] = {}
    for number, trained in run_pieces(train_piece, pieces, workers, is_stopped=lambda: callbacks.stop.is_asked):
        found[number] = trained
        callbacks.on_rung(trainings[number].name, trained.rung)
    callbacks.stop.raise_if_asked("", at=f"{len(found)} of {len(trainings)} networks")
    return [found[number] for number in range(len(trainings))]


def train_piece(
    data: DataOptions, read: Data | None, options: TrainOptions, place: Path, page: PageWriter | None
) -> TrainedRung:
    """On a worker: one network, from the data to the report. What a worker that was killed left is made anew."""
    if place.is_dir():
        shutil.rmtree(place)
    return _summary(train_run(data, options, place, Callbacks(page=page), read=read))


def compare_train_sizes(
    data: DataOptions,
    options: Sequence[TrainOptions],
    sizes: Sequence[int],
    folder: Path,
    callbacks: Callbacks,
    *,
    read: Data,
    seeds: int = 1,
    workers: WorkerOptions | None = None,
) -> SizeLadder:
    """The same at several sizes of the training side, all measured on the same dev and test; the largest is told first.

    sizes: how many examples train has; none are the quarter of the quarter, the quarter and the whole of it. seeds: how
    often each is trained, every time on other examples where not all are taken, and from other first weights.
    """
    task = open_task(data, read)
    if task.measure.side == "train":
        raise PellucidError(
            f"{task.facts.description} is too small to hold any out, so sizes cannot be compared",
            fix="Leave {sizes} out",
            options={"sizes": None},
        )
    chosen = sizes_for(task, sizes)
    callbacks.on_data(task.facts)
    measure_baselines(task, options[0], callbacks)
    folder.mkdir(parents=True)
    found: list[SizeRung] = []
    waiting: list[tuple[int, int, Training]] = []  # where their results belong
    simple: list[Baseline] = []
    for n_train, place in product(sorted(chosen), range(seeds)):
        is_whole = n_train == task.facts.items["train"]
        asked = replace(data, examples=n_train, examples_seed=0 if is_whole else data.examples_seed + place)
        part = open_task(asked, read)
        if not (is_whole and place):  # of all examples they are the same again
            simple = list(part.fit_baselines(options[0]))
            found += [_at(one.with_test(), n_train) for one in simple]
        several = f"-{place + 1}" if seeds > 1 else ""
        trainings = [
            Training(
                asked,
                replace(each, seed=each.seed + place),
                folder / f"{each.model}-{n_train}{several}",
                f"{each.model} on {n_train:,}" + f", seed {each.seed + place}" * bool(several),
            )
            for each in options
        ]
        if workers is None:
            for one in trainings:
                heard = callbacks.for_run(one.name)
                trained = _summary(train_on(part, simple, asked, one.options, one.place, heard))
                found.append(_at(trained.rung, n_train))
        else:
            waiting += [(len(found) + number, n_train, one) for number, one in enumerate(trainings)]
            found += [SizeRung("", n_train, 0.0, None, 0.0, 0, False)] * len(trainings)
    if workers is not None:
        at_once = train_at_once([one for *_, one in waiting], read, workers, callbacks)
        for (slot, n_train, _), trained in zip(waiting, at_once, strict=True):
            found[slot] = _at(trained.rung, n_train)
    ladder = SizeLadder(
        task.facts.description,
        task.measure.metric,
        tuple(sorted(chosen)),
        tuple(found),
        intervals=size_intervals(found, is_share=task.measure.metric != "R²"),
    )
    (folder / SIZES_FILE).write_text(json.dumps(as_plain(ladder), ensure_ascii=False, allow_nan=False), "utf-8")
    return ladder


def size_intervals(rungs: Sequence[SizeRung], *, is_share: bool = True) -> tuple[SizeInterval, ...]:
    """The 95 % interval of each mean over several trainings, by Student's t; a share is between 0 and 1.

    >>> trainings = [SizeRung("cnn", 100, metric, None, 1.0, 9, False) for metric in (0.90, 0.92, 0.94)]
    >>> [(round(one.low, 4), round(one.high, 4)) for one in size_intervals(trainings)]
    [(0.8703, 0.9697)]
    """
    metrics: dict[tuple[str, int], list[float]] = {}
    for rung in rungs:
        metrics.setdefault((rung.name, rung.n_train), []).append(rung.metric)
    found = []
    for (name, n_train), values in metrics.items():
        n = len(values)
        if n > 1 and max(values) > min(values):  # that of equal ones would claim to know it exactly
            mean, reach = statistics.fmean(values), student_factor(n - 1) * statistics.stdev(values) / math.sqrt(n)
            low, high = (max(0.0, mean - reach), min(1.0, mean + reach)) if is_share else (mean - reach, mean + reach)
            found.append(SizeInterval(name, n_train, low, high, n))
    return tuple(found)


def sizes_for(task: Task, wanted: Sequence[int]) -> list[int]:
    """The sizes of the training side that are tried."""
    most = task.facts.items["train"]
    if not wanted:
        return sorted({max(min(FEWEST_EXAMPLES, most), most // part) for part in (16, 4, 1)})
    for n in wanted:
        if not 1 <= n <= most:
            raise PellucidError(
                f"{n:,} training examples are wanted, and train has {most:,}", fix=f"Choose 1 to {most:,}"
            )
    return sorted(set(wanted))


def size_ladder_of(folder: Path) -> SizeLadder:
    """What an earlier comparison of sizes wrote."""
    try:
        return from_plain(SizeLadder, json.loads(read_regular(folder / SIZES_FILE, LARGEST_FILE).decode()))
    except (OSError, ValueError, RecursionError) as error:
        raise PellucidError(
            f"{folder.name} holds no comparison of sizes", fix="Make one with pellucid compare digits --sizes 100,400"
        ) from error


def _at(rung: Rung, n_train: int) -> SizeRung:
    assert rung.metric is not None, "what has sizes has a metric"
    return SizeRung(rung.name, n_train, rung.metric, rung.test_metric, rung.seconds, rung.parameters, rung.is_counted)
