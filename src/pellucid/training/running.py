"""A run from beginning to end: made from what was asked, or gone on with, and finished with its report."""

from __future__ import annotations

import dataclasses
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from pellucid import __version__, runs
from pellucid.data import Data
from pellucid.errors import PellucidError, quoted
from pellucid.models.network import config_of
from pellucid.records import Finding, Ladder, Plan, Timing, TrainingReport
from pellucid.records.plain import from_plain
from pellucid.runs import RunWriter
from pellucid.training import checkpoints
from pellucid.training.callbacks import Callbacks
from pellucid.training.finishing import finished
from pellucid.training.opening import DataWishes, opened, task_of
from pellucid.training.plan import choose_plan
from pellucid.training.reports import evaluations_of, last_timing_of, report_of
from pellucid.training.session import Session
from pellucid.training.sources import found_again, remembered
from pellucid.training.task import Baseline, Task
from pellucid.training.wishes import TrainingWishes
from pellucid.training.workshop import Workshop, network_facts, workshop

OPTIONS = {"n_heads": "heads", "order": "n"}  # wishes whose option has another name


@dataclass(frozen=True)
class Resumption:
    """What may differ when a run is gone on with. Everything else is as its folder says."""

    data: str = ""  # where the data are now
    is_new_data_allowed: bool = False
    is_optimizer_fresh: bool = False
    threads: int = 0  # 0: as many as before


def train(
    data: DataWishes,
    wishes: TrainingWishes,
    place: Path,
    callbacks: Callbacks,
    *,
    read: Data | None = None,
    began: float = 0.0,
) -> TrainingReport:
    """A new run in a new folder. read: the data, where they are open already; began: when, by the monotonic clock."""
    began = began or time.monotonic()
    task = task_of(read, data) if read is not None else opened(data)
    callbacks.on_data(task.facts)
    simple = tried_on(task, wishes, callbacks)
    spent = time.monotonic() - began
    return train_on(task, simple, data, wishes, place, callbacks, spent=spent)


def train_on(
    task: Task,
    simple: list[Baseline],
    data: DataWishes,
    wishes: TrainingWishes,
    place: Path,
    callbacks: Callbacks,
    *,
    spent: float = 0.0,
) -> TrainingReport:
    """A new run on a task whose simple models are known already. spent: seconds of its budget that took."""
    card = task.card(wishes.model)
    config, plan = choose_plan(card, task, wishes, spent)
    shop = workshop(card, config, plan, task)
    network = network_facts(card, config, shop.model)
    callbacks.stop.raise_if_asked(place.name)
    callbacks.on_plan(plan, network, str(place))
    record: dict[str, Any] = {
        "seed": plan.seed,
        "threads": plan.threads,
        "versions": _versions(),
        "asked": dataclasses.asdict(wishes),
        "reading": {**dataclasses.asdict(data), "source": remembered(data.source, place)},
        "data": task.facts,
        "model": card.name,
        "config": network.config,
        "network": network,
        "plan": plan,
    }
    record["command"] = command_of(data, wishes, plan, task.facts.source)
    n_bytes = 3 * sum(tensor.nbytes for tensor in shop.model.state_dict().values()) + 65_536
    with RunWriter.create(place, record, n_bytes) as writer:
        for name, content in task.kept().items():
            writer.write(name, content)
        session = Session(writer, shop, callbacks, [], Timing(0, 0.0, 0.0))
        return _to_the_end(session, after=0, simple=simple)


def resume(run: Path, changes: Resumption, callbacks: Callbacks) -> TrainingReport:
    """Go on with a run from its newest whole checkpoint; one that is finished is only read."""
    if runs.is_finished(run):
        return report_of(run)
    with RunWriter.resume(run) as writer:
        record = writer.record
        task, notes = data_again(run, record, changes)
        callbacks.on_data(task.facts)
        asked = TrainingWishes(**record["asked"])
        simple = tried_on(task, asked, callbacks)
        card = task.card(str(record["model"]))
        plan = from_plain(Plan, record["plan"])
        if changes.threads and changes.threads != plan.threads:
            notes = (*notes, f"{changes.threads} threads in place of {plan.threads}: the last bits may differ")
            plan = plan._replace(threads=changes.threads)
        if dict(record["versions"]) != _versions():
            notes = (*notes, "made with other versions or on another machine, where equal bits are not promised")
        shop = workshop(card, config_of(card, record["config"]), plan, task)
        callbacks.on_plan(plan, network_facts(card, shop.config, shop.model), str(run))
        step, note = _restored(writer, shop, changes.is_optimizer_fresh)
        callbacks.on_resume(step, (*notes, *note))
        if task.facts.fingerprint != record["data"]["fingerprint"]:
            says = f"new data from step {step + 1} on: {task.facts.said}"
            writer.append(
                "findings", Finding("note", "data", says, "the curves before and after differ in kind", "", step)
            )
        for name, content in task.kept().items():
            if not (run / name).is_file():
                writer.write(name, content)
        session = Session(writer, shop, callbacks, list(evaluations_of(run)), last_timing_of(run))
        return _to_the_end(session, after=step, simple=simple)


def command_of(data: DataWishes, wishes: TrainingWishes, plan: Plan, source: str) -> list[str]:
    """The command that makes a run again: with its steps in place of minutes, and every wish as an option.

    >>> wishes = TrainingWishes(model="rnn", network={"depth": 2}, training={"warm_up": 3})
    >>> plan = Plan(9, 8, 8, "muon", 0.01, 0.02, 0.9, 0.1, 1, 3, "linear", 1, 1, 1, 1, threads=1, seed=1, size="tiny")
    >>> " ".join(command_of(DataWishes(), wishes, plan, "names"))
    'pellucid train names --model rnn --steps 9 --seed 1 --size tiny --threads 1 --depth 2 --warm-up 3'
    """
    words = ["pellucid", "train", source, "--model", wishes.model, "--steps", str(plan.steps)]
    words += ["--seed", str(plan.seed), "--size", plan.size, "--threads", str(plan.threads)]
    reading = {name: wish for name, wish in dataclasses.asdict(data).items() if wish != getattr(DataWishes, name)}
    reading.pop("source", None)
    for name, wish in {**reading, **wishes.network, **wishes.training}.items():
        if name != "threads":
            words += [f"--{OPTIONS.get(name, name.replace('_', '-'))}", *([] if wish is True else [str(wish)])]
    return words


def _to_the_end(session: Session, *, after: int, simple: list[Baseline]) -> TrainingReport:
    ending = session.go_on(after)
    report, result = finished(session, ending, simple)
    if session.callbacks.page is not None:
        session.writer.write("report.html", session.callbacks.page(report))
    session.writer.finish(result)
    return report


def tried_on(task: Task, wishes: TrainingWishes, callbacks: Callbacks) -> list[Baseline]:
    """What simple models reach; told when all are known."""
    simple = list(task.baselines(wishes))
    callbacks.on_baselines(Ladder(task.facts.said, tuple(one.rung for one in simple), (), task.measure))
    return simple


def _restored(writer: RunWriter, shop: Workshop, is_optimizer_fresh: bool) -> tuple[int, tuple[str, ...]]:
    """Put the newest checkpoint into the workshop and cut the logs to it; without one, begin anew."""
    found = checkpoints.newest(writer.path)
    if found is None:
        writer.rewind(0)
        return 0, ("it was stopped before its first checkpoint, so it begins again",)
    checkpoints.require_fits(shop.model, found.model)
    shop.model.load_state_dict(found.model)
    if not is_optimizer_fresh:
        shop.optimizer.load(found.optimizer)
    writer.rewind(found.step)
    return found.step, (found.note,) if found.note else ()


def data_again(run: Path, record: Mapping[str, Any], changes: Resumption) -> tuple[Task, tuple[str, ...]]:
    """The data of a run, found again and still the same, or the ones that are to take their place."""
    reading = dict(record["reading"])
    was = str(record["data"]["fingerprint"])
    source = changes.data or found_again(run, str(reading["source"]), was)
    found = opened(DataWishes(**{**reading, "source": source}))
    if found.facts.fingerprint == was:
        return found, ()
    if not changes.is_new_data_allowed:
        raise PellucidError(
            f"{quoted(source)} is not what {run.name} was trained on: its sha256 begins {found.facts.fingerprint[:12]} "
            f"in place of {was[:12]}",
            fix="Pass the old file with --data, or add --allow-new-data",
        )
    _require_symbols(record["data"], found)
    return found, (f"new data: {found.facts.said}",)


def _require_symbols(stored: Mapping[str, Any], found: Task) -> None:
    known = list(stored["symbols"])
    now = list(found.facts.symbols)
    if int(stored["vocab_size"]) == found.facts.vocab_size and known == now:
        return
    new = next((symbol for symbol in now if symbol not in known), "")
    first = f" (first new: {quoted(new)})" if new else ""
    raise PellucidError(
        f"the checkpoint has {stored['vocab_size']} symbols, the data have {found.facts.vocab_size}{first}",
        fix="Train a new run on them",
    )


def _versions() -> dict[str, str]:
    return {
        "pellucid": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": f"{sys.platform} {platform.machine()}",
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }
