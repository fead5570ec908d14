"""A run from beginning to end: made from what was asked, or gone on with, and finished with its report."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from pellucid import __version__, runs
from pellucid.data import Data
from pellucid.data.options import DataOptions
from pellucid.data.readers.memory import MEMORY
from pellucid.errors import PellucidError, quoted
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.judgements import judge_health
from pellucid.models.catalogue import OPENED
from pellucid.models.contracts import Network, SequenceModel
from pellucid.models.counting import COUNT_MODELS
from pellucid.options import given_options
from pellucid.records import (
    TREES,
    Ending,
    Evaluation,
    Finding,
    Gain,
    Health,
    InitialLoss,
    Ladder,
    ModelMetrics,
    Plan,
    Resumption,
    Rung,
    TrainingReport,
    Verdict,
    gravest_first,
)
from pellucid.records.plain import as_plain, from_plain
from pellucid.runs import Run, RunResult, RunWriter
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import (
    load_best,
    load_network,
    newest_checkpoint,
    require_matching_weights,
    save_best,
)
from pellucid.training.cross_validation import Budget, cross_validate
from pellucid.training.devices import choose_device
from pellucid.training.distributed import ALONE, World, joined_world, noticing_loss, world_of_environment
from pellucid.training.fine_tuning import Origin, measure_fine_tuning
from pellucid.training.following import Begin, Over, PaceTrial, begin_together, follow_run, judge_together, share_task
from pellucid.training.forecast import forecast_more_steps
from pellucid.training.forked_work import ForkedWork
from pellucid.training.launch import launch_id
from pellucid.training.options import EXAMPLES, TrainOptions, flag_called
from pellucid.training.plan import KEPT_BACK, Trials, choose_plan, require_parts
from pellucid.training.run_data import data_options_of, find_source, load_vocabulary, source_from_run
from pellucid.training.sharding import load_weights
from pellucid.training.stopping import harder_dev, is_behind, judge_fit
from pellucid.training.tasks import open_task
from pellucid.training.tasks.baselines import Baseline, SideResult
from pellucid.training.tasks.counted_sides import CountedSides
from pellucid.training.tasks.metrics import paired_gain
from pellucid.training.tasks.task import JUDGED_OF_TRAIN, Task
from pellucid.training.trainer import Trainer, build_training, network_facts

MOST_ROWS = 64  # of a batch for the doctor: more prove no more, and every probe waits for them
N_BATCHES = 3
OPENED_ROWS, OPENED_WINDOW, OPENED_CHARACTERS = 8, 32, 100_000  # of a text, for a model that others made
READING_SECONDS = 0.3  # to read a small table again, for each part of a cross-validation


@dataclass(frozen=True)
class ResumeOptions:
    """What may differ when a run is gone on with. Everything else is as its folder says."""

    data: str = ""  # where the data are now
    read: Data | None = None  # the data, where they are open already
    is_new_data_allowed: bool = False
    is_optimizer_fresh: bool = False
    threads: int = 0  # 0: as many as before
    device: str = ""  # "": the one of before


def train_run(
    data: DataOptions,
    options: TrainOptions,
    place: Path,
    callbacks: Callbacks,
    *,
    read: Data | None = None,
    counting: ForkedWork[CountedSides] | None = None,
    began: float = 0.0,
) -> TrainingReport:
    """A new run in a new folder.

    read: the data, where they are open already; counting: of a list or a text, where that goes on already; began: when,
    by the monotonic clock.
    """
    began = began or time.monotonic()
    device = choose_device(options.device)
    with joined_world(device) as world, _ending_together(world):
        if not world.is_main:
            return _follow(world, lambda: _open_for(data, options, read), callbacks)
        baselines: list[Baseline] = []

        def make() -> Task:
            task = _open_for(data, options, read, counting.result() if counting else None)
            callbacks.on_data(task.facts)
            baselines.extend(measure_baselines(task, options, callbacks))
            return task

        task = share_task(world, make)
        spent = time.monotonic() - began
        return train_on(task, baselines, data, options, place, callbacks, spent=spent, world=world)


def _open_for(data: DataOptions, options: TrainOptions, read: Data | None, counted: CountedSides | None = None) -> Task:
    task = open_task(data, read, Origin.open(options.from_run) if options.from_run else None, counted)
    task.require_options(options)  # before anything is fitted, which takes a while
    if world_of_environment().is_shared:
        task.prepare_training(options)
    return task


def _follow(world: World, make: Callable[[], Task], callbacks: Callbacks) -> TrainingReport:
    """The part of a process that is not rank 0; its report is the one that rank 0 wrote."""
    with noticing_loss("and the run's name"):
        return runs.open_run(follow_run(world, make, callbacks)).report()


@contextmanager
def _ending_together(world: World) -> Iterator[None]:
    """When rank 0 is done the others are told; where it stops for a reason they notice that it is gone."""
    yield
    if world.is_shared and world.is_main:
        world.broadcast(Over())


def train_on(
    task: Task,
    baselines: list[Baseline],
    data: DataOptions,
    options: TrainOptions,
    place: Path,
    callbacks: Callbacks,
    *,
    spent: float = 0.0,
    world: World = ALONE,
) -> TrainingReport:
    """A new run on a task whose baselines are known already. spent: seconds of its budget that took."""
    card = task.find_card(options.model)
    ends = math.inf if options.steps else time.monotonic() - spent + 60 * options.minutes * (1 - KEPT_BACK)
    taken = spent + sum([one.test_seconds for one in baselines])
    config, plan = choose_plan(card, task, options, taken, _trials(world))
    state = build_training(card, config, plan, task)
    network = network_facts(card, config, state.model)
    callbacks.stop.raise_if_asked(run="")
    callbacks.on_plan(plan, network, str(place))
    record: dict[str, Any] = {
        "seed": plan.seed,
        "threads": plan.threads,
        "versions": installed_versions(),
        "asked": dataclasses.asdict(options),
        "reading": {**dataclasses.asdict(data), "source": source_from_run(data.source, place)},
        "data": task.facts,
        "model": card.name,
        "config": network.config,
        "network": network,
        "plan": plan,
    }
    record["command"] = command_of(data, options, plan, task.facts.source)
    files = {**task.files(plan), runs.BASELINES: _baselines_file(task, baselines)}
    record["files"] = {name: sha256_of(content) for name, content in files.items()}
    n_bytes = 3 * sum(tensor.nbytes for tensor in state.model.state_dict().values()) + 65_536
    if world.is_shared:
        record["launch"] = launch_id()
    with RunWriter.create(place, record, n_bytes) as writer:
        for name in list(files):  # they may be as large as the data, and are not needed again
            writer.write(name, files.pop(name))
        if world.is_shared:
            begin = Begin(card.name, config, plan, plan, str(place), 0, (), options.replans, has_checkpoint=False)
            state = begin_together(world, task, begin, None)
        trainer = Trainer(writer, state, callbacks, [], [], options.replans, world)
        return _train_to_end(trainer, after=0, baselines=baselines, ends=ends)


def _trials(world: World) -> Trials:
    """Trial steps by this process alone, or by all: then the others are told what to try."""
    if not world.is_shared:
        return Trials()
    return Trials(world, lambda card, config, plan, seconds: _tell(world, PaceTrial(card.name, config, plan, seconds)))


def _tell(world: World, said: PaceTrial) -> None:
    world.broadcast(said)


def resume_run(run: Path, changes: ResumeOptions, callbacks: Callbacks) -> TrainingReport:
    """Go on with a run from its newest whole checkpoint; one that is finished is only read."""
    if runs.is_finished(run):
        return runs.open_run(run).report()
    opened = runs.open_run(run)
    if opened.model == OPENED.name and not opened.record.get("reading"):
        raise PellucidError(
            f"{run.name} was opened from a folder, and there is no training to go on with",
            fix="Train on from it with {from_run}",
            options={"from_run": run.name},
        )
    if opened.model in COUNT_MODELS:
        raise PellucidError(
            f"{run.name} is a run of {opened.model}, which only counts and was stopped before it had",
            fix="Make it again under another {name}: there is nothing to go on from",
            options={"name": None},
        )
    device = choose_device(changes.device or opened.plan.device)
    with joined_world(device) as world, _ending_together(world):
        if not world.is_main:
            return _follow(world, lambda: _reopen_for(opened, changes), callbacks)
        with RunWriter.resume(run) as writer:
            return _resume_with(writer, changes, callbacks, device, world)


def _reopen_for(run: Run, changes: ResumeOptions) -> Task:
    task = reopen_data(run, changes)
    if world_of_environment().is_shared:
        task.prepare_training(TrainOptions(**run.record["asked"]))
    return task


def _resume_with(
    writer: RunWriter, changes: ResumeOptions, callbacks: Callbacks, device: str, world: World
) -> TrainingReport:
    record, run = writer.record, writer.path
    asked = TrainOptions(**record["asked"])
    baselines: list[Baseline] = []

    def make() -> Task:
        task = _reopen_for(writer.run, changes)
        callbacks.on_data(task.facts)
        baselines.extend(measure_baselines(task, asked, callbacks))
        return task

    task = share_task(world, make)
    card = task.find_card(str(record["model"]))
    before = from_plain(Plan, record["plan"])
    now: dict[str, Any] = {
        "threads": changes.threads or before.threads,
        "processes": world.size,
        "device": device,
        "shard": before.shard and world.is_shared,
    }
    plan = before._replace(**now)
    require_parts(plan)
    found = newest_checkpoint(run)
    step, unused = (found.step, found.unused) if found else (0, {})
    state = build_training(card, card.config_from(record["config"]), plan, task)
    if found is not None:
        require_matching_weights(state.model, found.model)
        found = found._replace(optimizer={}) if changes.is_optimizer_fresh else found
    writer.rewind(step)
    seen = writer.run
    current = seen.plan._replace(**now)
    if world.is_shared:
        evaluations = tuple(seen.evaluations)
        begin = Begin(
            card.name, state.config, plan, current, str(run), step, evaluations, asked.replans, found is not None
        )
        state = begin_together(world, task, begin, found)
    else:
        if found is not None:
            load_weights(state.model, found.model)
            if not changes.is_optimizer_fresh:
                state.optimizer.load(found.optimizer)
        state = dataclasses.replace(state, plan=current)
    callbacks.on_plan(state.plan, network_facts(card, state.config, state.model), str(run))
    has_new_data = task.facts.fingerprint != record["data"]["fingerprint"]

    def changed(name: str) -> Any:
        return (getattr(before, name), now[name]) if getattr(before, name) != now[name] else None

    resumption = Resumption(
        step,
        unused,
        new_data=task.facts.description if has_new_data else "",
        threads=changed("threads"),
        processes=changed("processes"),
        device=changed("device"),
        has_other_versions=dict(record["versions"]) != installed_versions(),
    )
    callbacks.on_resume(resumption)
    if has_new_data:
        says = f"new data from step {step + 1} on: {task.facts.description}"
        writer.append("findings", Finding("note", "data", says, "the curves before and after differ in kind", "", step))
    for name, content in task.files(plan).items():
        if not (run / name).is_file():
            writer.write(name, content)
    trainer = Trainer(writer, state, callbacks, list(seen.evaluations), list(seen.timings), asked.replans, world)
    return _train_to_end(trainer, after=step, baselines=baselines)


def command_of(data: DataOptions, options: TrainOptions, plan: Plan, source: str) -> list[str]:
    """The command that makes a run again: with its steps in place of minutes, and all that was asked for as options.

    >>> options = TrainOptions(model="rnn", network={"depth": 2}, warmup=3)
    >>> plan = Plan(9, 8, 8, "muon", 0.01, 0.02, 0.9, 0.1, 1, 3, "linear", 1, 1, 1, 1, threads=1, seed=1, size="tiny")
    >>> " ".join(command_of(DataOptions(), options, plan, "names"))
    'pellucid train names --model rnn --steps 9 --seed 1 --size tiny --threads 1 --depth 2 --warmup 3'
    """
    words = ["pellucid", "train", source, "--model", options.model, "--steps", str(plan.steps)]
    size = ["--size", plan.size] if plan.size else []  # none, where every size is asked for
    words += ["--seed", str(plan.seed), *size, "--threads", str(plan.threads)]
    asked = {**given_options(data), **({"context": data.context} if data.context else {})}
    if plan.folds:
        asked["folds"] = plan.folds
    if plan.processes > 1:
        words += ["--processes", str(plan.processes)]
    for name, value in {**asked, **options.network, **options.training}.items():
        if name != "threads":
            words += [f"--{flag_called(name)}", *([] if value is True else [str(value)])]
    return words


def _train_to_end(trainer: Trainer, *, after: int, baselines: list[Baseline], ends: float = math.inf) -> TrainingReport:
    """ends: when the time is over, by the monotonic clock."""
    with trainer.callbacks.stop.held(trainer.writer.path.name):
        ending = trainer.train_from(after)
    writer = trainer.writer
    assert isinstance(writer, RunWriter)
    report, result = finish_run(trainer, ending, baselines, ends)
    if trainer.callbacks.page is not None:
        writer.write("report.html", trainer.callbacks.page(report))
    writer.finish(result)
    return report


def measure_baselines(task: Task, options: TrainOptions, callbacks: Callbacks) -> list[Baseline]:
    """What baselines reach; told when all are known."""
    baselines = list(task.fit_baselines(options))
    callbacks.on_baselines(_baseline_ladder(task, baselines))
    return baselines


def _baseline_ladder(task: Task, baselines: Sequence[Baseline]) -> Ladder:
    return Ladder(task.facts.description, tuple(one.rung for one in baselines), (), task.measure)


def _baselines_file(task: Task, baselines: Sequence[Baseline]) -> str:
    """What simple models reach, for whoever looks at the run before its end; without times, which are never twice."""
    ladder = _baseline_ladder(task, baselines)
    timeless = ladder._replace(rungs=tuple(rung._replace(seconds=0.0) for rung in ladder.rungs))
    return json.dumps(as_plain(timeless), allow_nan=False)


def reopen_data(run: Run, changes: ResumeOptions) -> Task:
    """The data of a run, found again and still the same, or the ones that are to take their place."""
    was = str(run.record["data"]["fingerprint"])
    source = MEMORY if changes.read is not None else changes.data or find_source(run)
    origin = str(run.record["asked"].get("from_run") or "")
    found = open_task(data_options_of(run, source), changes.read, Origin.open(origin) if origin else None)
    if found.facts.fingerprint == was:
        return found
    if not changes.is_new_data_allowed:
        what = "it" if changes.read is not None else quoted(source)
        raise PellucidError(
            f"{what} is not what {run.name} was trained on: its sha256 begins {found.facts.fingerprint[:12]} "
            f"in place of {was[:12]}",
            fix="Pass the old file with {data}, or add {allow_new_data}",
            options={"data": None, "allow_new_data": None},
        )
    if run.plan.start == "counts":
        raise PellucidError(
            f"{run.name} started from counting its own data, and cannot go on with others",
            fix="Train a new run on them",
        )
    _require_symbols(run.record["data"], found)
    return found


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


def sha256_of(content: str | bytes) -> str:
    """Of a file of a run, as its record has it."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def installed_versions() -> dict[str, str]:
    """What a run was made with, without which equal bits are not promised."""
    return {
        "pellucid": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": f"{sys.platform} {platform.machine()}",
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }


def _judge(trainer: Trainer, network: Network, weights: Mapping[str, torch.Tensor], side: str) -> SideResult:
    """The finished network on a whole side, by all processes where there are several."""
    task = trainer.state.task
    # The answers of pairs are written one token after another, and are needed again: by rank 0 alone.
    if not trainer.world.is_shared or task.facts.kind == "pairs":
        return task.evaluate_whole(network, side)
    return judge_together(trainer.world, trainer.state, side, weights)


def finish_run(
    trainer: Trainer, ending: Ending, baselines: list[Baseline], ends: float = math.inf
) -> tuple[TrainingReport, RunResult]:
    """Everything that is known only at the end. The test side is read here, once."""
    state, writer = trainer.state, trainer.writer
    task = state.task
    tensors, step = load_best(writer.path)
    if trainer.world.is_shared or state.plan.device != "cpu":
        # From here on by rank 0 alone, on the CPU: what follows asks for single tokens and for the parts of networks.
        alone = build_training(state.card, state.config, state.plan._replace(device="cpu"), task)
        state = dataclasses.replace(state, model=alone.model, optimizer=alone.optimizer, engine=alone.engine)
    state.model.load_state_dict(tensors)
    network = state.model.for_inference()
    at_best = next(evaluation for evaluation in trainer.evaluations if evaluation.step == step)
    side = task.measure.side
    judged = _judge(trainer, network, tensors, side)
    best = max(baselines, key=lambda one: Ladder("", (), (), task.measure).merit(one.rung))
    is_undone = False
    if state.plan.start == "counts" and step and judged.loss > best.rung.dev:
        # The part of dev that evaluations are made on chose weights that all of dev does not: counting alone is better.
        ending, is_undone = ending._replace(best_step=0), True
        state.model.load_state_dict(task.build_network(state.card, state.config, state.plan).state_dict())
        save_best(writer.path, 0, state.model.state_dict())
        network, at_best = state.model.for_inference(), trainer.evaluations[0]
        judged = task.evaluate_whole(network, side)
    if state.plan.evaluated or state.plan.class_weights != "none":
        train = task.evaluate(network, "train", JUDGED_OF_TRAIN if state.plan.evaluated else 0).loss
        at_best = Evaluation(**{**at_best._asdict(), "train": train, side: judged.loss, "metric": judged.metric})
    answers = task.answers(network, state.plan)
    on_test = SideResult(math.nan)
    if task.facts.n_tokens["test"]:
        on_test = _judge(trainer, network, state.model.state_dict(), "test")
    timing = trainer.last_timing
    rung = Rung(
        name=f"{state.card.name} on counting" if state.plan.start == "counts" else state.card.name,
        is_counted=False,
        parameters=state.model.n_parameters,
        train=at_best.train,
        dev=at_best.dev,
        test=on_test.loss if task.facts.n_tokens["test"] else None,
        bits_per_character=task.bits_per_character(at_best.dev),
        seconds=timing.seconds,
        tokens_per_second=timing.tokens_per_second,
        metric=answers.metrics[task.measure.metric] if answers else None,
        test_metric=answers.test_metrics.get(task.measure.metric) if answers else None,
    )
    results = {side: judged, **({"test": on_test} if task.facts.n_tokens["test"] else {})}
    accuracies = tuple(one.accuracy for one in results.values() if one.accuracy is not None)
    # On rows that both learned from, no interval says anything of others.
    held_out = results if side == "dev" else {}
    rung = rung._replace(gains=_gains(held_out, best), accuracies=accuracies)
    simple = [
        one.with_test()._replace(gains=_gains(held_out, one) if one.rung.name.startswith(TREES) else ())
        for one in baselines
    ]
    if answers is not None and task.facts.kind in EXAMPLES:
        answers = answers._replace(simple=_simple_metrics(baselines, results))
    crossed = None
    if state.plan.folds:
        # A part has its simple models, and its network makes as many steps as the kept one did, at the same pace.
        pace = timing.stepping / max(1, ending.step)
        each = sum(one.rung.seconds for one in baselines) + ending.best_step * pace + READING_SECONDS
        budget = Budget(ends, each if math.isfinite(ends) else 0.0)
        crossed = cross_validate(state, ending.best_step, trainer.callbacks, writer.path.name, budget)
    if answers is not None:
        importances = crossed[1] if crossed else task.importances(network, state.plan)
        measured_on = (crossed[0].gain.side if crossed else side) if importances else ""
        answers = answers._replace(importances=importances, importances_on=measured_on)
    validation = crossed[0] if crossed else None
    ladder = rank_ladder(Ladder(task.facts.description, (rung, *simple), (), task.measure, validation))
    health = trainer.read_health()
    for finding in judge_run(health, trainer.start):
        writer.append("findings", finding)
        trainer.callbacks.on_finding(finding)
    verdict = judge_fit(
        trainer.evaluations,
        ending,
        ladder.loss(best.rung),
        trainer.start.uniform,
        whole=at_best,
        is_behind=is_behind(ladder, rung),
        says_one_thing=answers is not None and answers.says_one_thing,
        is_all_right=rung.metric == 1.0,
        harder=harder_dev([one.rung for one in baselines]),
        random_loss=task.facts.random_loss,
    )
    verdict = Verdict("under-fit", "nothing learned") if is_undone else verdict
    result = RunResult(
        start=trainer.start,
        ladder=ladder,
        ending=ending,
        verdict=verdict,
        samples=task.samples(network, state.plan),
        answers=answers,
        parts=judged.parts or task.counted_parts(network),
        forecast=forecast_more_steps(trainer.evaluations, verdict, ladder),
        separability=task.separability(state.model, state.plan, ending.best_step),
        fine_tuning=measure_fine_tuning(task.origin, task, results) if task.origin else None,
    )
    return writer.run.report_with(result, health), result


def _gains(results: Mapping[str, SideResult], best: Baseline) -> tuple[Gain, ...]:
    """What the network earns over the best simple model on each side, where both can be compared one by one."""
    found = []
    for side, result in results.items():
        theirs = best.evaluate(side).units
        if result.units is not None and theirs is not None:
            found.append(paired_gain(side, result.units, theirs))
    return tuple(found)


def _simple_metrics(baselines: list[Baseline], sides: Iterable[str]) -> dict[str, tuple[ModelMetrics, ...]]:
    """What every simple model reached on each side by more than the ladder shows, where it was asked for that."""
    found = {}
    for side in sides:
        seen = [(one.rung.name, one.evaluate(side)) for one in baselines if one.has_test or side != "test"]
        of_side = [ModelMetrics(name, one.all_metrics, one.intervals) for name, one in seen if one.all_metrics]
        if of_side:
            found[side] = tuple(of_side)
    return found


def rank_ladder(ladder: Ladder) -> Ladder:
    """The same with the best first."""
    return ladder._replace(rungs=tuple(sorted(ladder.rungs, key=ladder.merit, reverse=True)))


def judge_run(health: Sequence[Health], start: InitialLoss) -> list[Finding]:
    """What the start and the looks tell, the gravest first.

    >>> start = InitialLoss(3.2961, 3.2958, 2.8, True, "unsure", 27)
    >>> [(finding.severity, finding.where) for finding in judge_run([], start)]
    [('sound', 'the first loss')]
    """
    return gravest_first([_judge_start(start), *judge_health(health)])


def _judge_start(start: InitialLoss) -> Finding:
    seen = f"{start.measured:.4f}, where knowing nothing costs {start.uniform:.4f}: it starts {start.start}"
    if start.is_as_expected:
        means = "no step is lost on forgetting what was never learned"
        return Finding("sound", "the first loss", seen, means, "", rule="initial-loss")
    return Finding(
        "suspicious" if math.isfinite(start.measured) else "broken",
        "the first loss",
        seen,
        f"the first steps go into coming down from {start.measured:.2f} to {start.uniform:.2f}"
        if start.measured > start.uniform
        else "the loss before training should be about that of guessing",
        "give the last layer's weights a smaller deviation at the start"
        if start.measured > start.uniform
        else "look at where the weights and the targets come from",
        rule="initial-loss",
    )


def load_specimen(run: Run, data: str = "") -> Specimen:
    """A run for the doctor: its best network in the mode it learns in, batches of what it is judged on, and its loss.

    data: where its data are, if they moved.
    """
    model, step = load_network(run)
    if run.model == OPENED.name and not run.record.get("reading"):
        assert isinstance(model, SequenceModel)
        return _opened_specimen(run, model, data)
    task = reopen_data(run, ResumeOptions(data=data))
    model.train()
    batches = task.dev_batches(min(run.plan.batch_size, MOST_ROWS), run.plan)
    # Of one epoch alone, so that no row is in two of them.
    steps = range(1, min(N_BATCHES, batches.per_epoch) + 1)
    (inputs, targets), *more = [task.split_batch(model, batches.batch(step)) for step in steps]
    return Specimen(
        model=model,
        inputs=inputs,
        targets=targets,
        loss=task.output_loss(run.plan),
        more=tuple(more),
        is_causal=task.is_causal,
        name=f"{run.model} of the run {run.name}, weights of step {step:,}",
    )


def _opened_specimen(run: Run, model: SequenceModel, data: str) -> Specimen:
    """A model that others made, for the doctor: on windows of a text, or where none is given on tokens by chance."""
    vocabulary, length = load_vocabulary(run), min(model.longest - 1, OPENED_WINDOW)
    if data:
        text = Path(data).read_text(encoding="utf-8", errors="replace")[:OPENED_CHARACTERS]
        tokens = torch.tensor(vocabulary.encode(text))
    else:
        tokens = torch.randint(
            0, len(vocabulary), (OPENED_ROWS * (length + 1),), generator=torch.Generator().manual_seed(1)
        )
    n_rows = min(OPENED_ROWS, len(tokens) // (length + 1))
    if n_rows < 2:
        raise PellucidError(
            f"{quoted(data)} has {len(tokens):,} tokens, and the doctor needs {2 * (length + 1):,}",
            fix="Give a longer text",
        )
    rows = tokens[: n_rows * (length + 1)].view(n_rows, length + 1)
    return Specimen(
        model=model.train(),
        inputs=(rows[:, :-1].contiguous(),),
        targets=rows[:, 1:].contiguous(),
        loss=lambda scores, targets: torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten()),
        is_causal=True,
        name=f"{run.config['architecture']} of the run {run.name}" + ("" if data else ", on tokens drawn by chance"),
    )
