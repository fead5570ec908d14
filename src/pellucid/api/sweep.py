"""Search settings by successive halving, and train one run with the best."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.api.results import write_output
from pellucid.api.run import TrainedRun
from pellucid.api.train import request_training, usual_callbacks
from pellucid.data.readers.memory import is_place
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.figures import Shown
from pellucid.options import options_of
from pellucid.records import SweepReport, as_plain
from pellucid.runs import new_run_path
from pellucid.training.options import Setting, TrainOptions, all_options, network_settings
from pellucid.training.run_data import run_name_for
from pellucid.training.sweep import SEARCHING, Heard, combinations, search_settings
from pellucid.training.workers import WorkerOptions

if TYPE_CHECKING:
    from pellucid.training.callbacks import Callbacks

SWEEP_FILE, SWEEP_PICTURE = "sweep.json", "sweep.svg"
MOST_TRIALS = 32
# What a search is not over: it is the same for all trials, or says how they are run.
NOT_SEARCHED = ("minutes", "steps", "seed", "threads", "save_every", "replan", "device", "shard", "folds", "compile")


def sweep(
    data: object = "names",
    *,
    over: Mapping[str, Sequence[Setting]],
    trials: int = MOST_TRIALS,
    name: str = "",
    workers: WorkerOptions | None = None,
    callbacks: Callbacks | None = None,
    on_trial: Heard = lambda trial, round_, n, of: None,
    **options: Setting,
) -> Shown[SweepReport]:
    """The best of several settings on data, by dev: over={"learning_rate": [0.001, 0.01], "width": [32, 64]}.

    Every combination, or as many as `trials` drawn by the seed, is trained for a few steps, the better half for twice
    as many, and so on. The best trains a run of its own, for which test is read once. Within so many minutes in all, or
    with so many steps in the last round and in that run. workers: where trials run, and how many at once.
    """
    began = time.monotonic()
    workers = workers or WorkerOptions()
    _require_searchable(over, options)
    settings, n_all = combinations(over, trials, int(options.get("seed", 1)))
    requests = [request_training(data, {**options, **chosen}) for chosen in settings[:1]]
    request = requests[0]
    asked = [_with_settings(request.trainings[0], chosen, options) for chosen in settings]
    folder = new_run_path(name, f"sweep-{run_name_for(request.reading.source)}-{request.trainings[0].model}")
    heard = callbacks or usual_callbacks()
    last = int(options.get("steps", 0))
    seconds = 60 * request.trainings[0].minutes * SEARCHING - (time.monotonic() - began)
    found, steps = search_settings(
        request.reading,
        None if is_place(data) else request.data,
        list(zip(settings, asked, strict=True)),
        workers,
        last=last,
        seconds=seconds,
        on_trial=on_trial,
        is_stopped=lambda: heard.stop.is_asked,
    )
    heard.stop.raise_if_asked("", at=f"trial {sum(1 for one in found if one.rounds)} of {len(found)}")
    best = asked[found[0].number - 1]

    from pellucid.training.run import train_run

    # At least twice what it had in the last round: else the run would be worse than the trial that it comes from.
    left = max(2 * found[0].rounds[-1].seconds, 60 * request.trainings[0].minutes - (time.monotonic() - began)) / 60
    final = replace(best, steps=last) if last else replace(best, minutes=left)
    report = train_run(request.reading, final, folder, heard, read=request.data)
    rung = report.rung
    record = SweepReport(
        source=report.data.description,
        model=final.model,
        over={key: tuple(values) for key, values in over.items()},
        n_combinations=n_all,
        steps=tuple(steps),
        trials=tuple(found),
        loss_unit=report.ladder.measure.loss,
        seconds=time.monotonic() - began,
        best_run=folder.as_posix(),
        best_dev=report.ladder.loss(rung),
        best_test=rung.test,
        command=report.command,
    )
    _write(search_folder(folder), record)
    return Shown(record)


def search_folder(run: Path) -> Path:
    """Where a search is kept: beside the run that came of it, which is finished and sealed."""
    return run.with_name(f"{run.name}-search")


def _with_settings(training: TrainOptions, chosen: Mapping[str, Setting], options: Mapping[str, Any]) -> TrainOptions:
    """What is asked of one trial: the options with its settings in their places."""
    changed: dict[str, Any] = {key: value for key, value in chosen.items() if key in options_of(TrainOptions)}
    of_network = {key: value for key, value in chosen.items() if key in network_settings()}
    # One core is what a worker has, and its bits do not depend on how many there are.
    changed |= {"threads": int(options.get("threads", 1)), "network": {**training.network, **of_network}}
    return replace(training, **changed)


def _require_searchable(over: Mapping[str, Sequence[Setting]], options: Mapping[str, Any]) -> None:
    """Refuse what cannot be searched over, before anything is read."""
    known = {
        name: one for name, one in all_options().items() if name in (*options_of(TrainOptions), *network_settings())
    }
    if not over:
        raise PellucidError(
            "there is nothing to search over",
            fix="Add {over}",
            options={"over": "learning_rate=0.001,0.003,0.01"},
        )
    for key, values in over.items():
        if key in NOT_SEARCHED or key not in known:
            searched = [one for one in known if one not in NOT_SEARCHED]
            raise PellucidError(f"{quoted(key)} is nothing to search over", fix=did_you_mean(key, searched))
        if key in options:
            raise PellucidError(
                f"{{{key}}} is given, and searched over too", fix="Leave one of them out", options={key: None}
            )
        if len(values) < 2 or len(set(values)) < len(values):
            raise PellucidError(f"{key} has {len(set(values))} different values", fix="Give two or more, each once")


def _write(folder: Path, record: SweepReport) -> None:
    """The search beside the run that came of it."""
    import json

    from pellucid.figures.drawings.sweep import draw_sweep
    from pellucid.figures.picture import picture_file

    folder.mkdir(exist_ok=True)
    write_output(folder / SWEEP_FILE, json.dumps(as_plain(record), ensure_ascii=False, allow_nan=False))
    write_output(folder / SWEEP_PICTURE, picture_file(draw_sweep(record), ".svg"))


def sweep_of(run: TrainedRun | Path) -> SweepReport:
    """What an earlier search wrote beside its run."""
    import json

    from pellucid.records import from_plain
    from pellucid.runs.disk import read_regular

    folder = search_folder(run if isinstance(run, Path) else run.folder)
    try:
        return from_plain(SweepReport, json.loads(read_regular(folder / SWEEP_FILE, 1 << 22).decode()))
    except (OSError, ValueError, RecursionError) as error:
        raise PellucidError(
            f"{folder.name} came of no search", fix="Make one with pellucid sweep names --over width=32,64"
        ) from error
