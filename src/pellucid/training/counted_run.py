"""A run of a model that only counts: made at once, without a step, and then a run as any other.

Its folder holds the tokens that were counted (`counts.safetensors`), its vocabulary, its report and its place on the
ladder. The model is counted again whenever the run is asked for something.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.data import Data
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.models.counting import CountOptions
from pellucid.models.counting.count_model import CountModel
from pellucid.models.counting.fitting import count_model_name, fit_on_sides
from pellucid.models.counting.ngram import AddS, KneserNey, NGram
from pellucid.models.sequences.on_counting import COUNTS_FILE, counts_to_bytes
from pellucid.options import given_options
from pellucid.records import Ending, InitialLoss, Ladder, NetworkFacts, Plan, TrainingReport, Verdict
from pellucid.runs import Damaged, Run, RunResult, RunWriter
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import load_counted_tokens
from pellucid.training.options import flag_called
from pellucid.training.run import installed_versions, rank_ladder, sha256_of
from pellucid.training.run_data import source_from_run
from pellucid.training.tasks import open_task
from pellucid.training.tasks.baselines import count_baseline
from pellucid.training.tasks.sequences import SequenceTask
from pellucid.training.tasks.task import label_entropy

SUMMARIES = {
    "uniform": "every token is as likely as any other",
    "unigram": "each token by how often it was seen, whatever stands before it",
    "bigram": "the next token by how often it was seen after this one",
    "ngram": "the next token by how often it was seen after the n - 1 before it, and after fewer of them",
}
_NOT_COUNTED_WITH = ("model", "tokens")  # the model has a place of its own, and the tokens are the data's


def count_run(
    data: DataOptions,
    options: CountOptions,
    seed: int,
    place: Path,
    callbacks: Callbacks,
    *,
    read: Data | None = None,
    began: float = 0.0,
) -> TrainingReport:
    """Count the train side in a new folder. read: the data, where they are open already."""
    began = began or time.monotonic()
    task = open_task(data, read)
    assert isinstance(task, SequenceTask), "only lists and texts are counted"
    callbacks.on_data(task.facts)
    sides, vocab_size = task.sides, len(task.sides.vocabulary)
    fitting = time.perf_counter()
    model, _ = fit_on_sides(sides.train, task.parts["dev"], vocab_size, options)
    seconds = time.perf_counter() - fitting
    own = count_baseline(_rung_name(model, options), model, seconds, sides, task.parts, task.context)
    others = [one for one in task.fit_baselines(None) if one.rung.name != own.rung.name]
    ladder = rank_ladder(Ladder(task.facts.description, (own.rung, *(one.rung for one in others)), (), task.measure))
    callbacks.on_baselines(ladder)
    callbacks.stop.raise_if_asked(run="")

    ladder = rank_ladder(ladder._replace(rungs=tuple(one.with_test() for one in (own, *others))))
    settings = {"vocab_size": vocab_size, **_settings(model, options)}
    network = NetworkFacts(own.rung.name, SUMMARIES[options.model], settings, model.n_stored, ())
    plan = Plan(0, 0, task.context, "", 0, 0, 0, 0, 0, 0, "", 0, 0, 0, 0, threads=1, seed=seed)
    order = model.grams.order if isinstance(model, NGram) else 1
    files = {**task.files(plan), COUNTS_FILE: counts_to_bytes(order, vocab_size, sides.train)}
    record: dict[str, Any] = {
        "seed": seed,
        "threads": plan.threads,
        "versions": installed_versions(),
        "asked": dataclasses.asdict(options),
        "reading": {**dataclasses.asdict(data), "source": source_from_run(data.source, place)},
        "data": task.facts,
        "model": options.model,
        "config": settings,
        "network": network,
        "plan": plan,
        "command": _command(data, options, seed, task.facts.source),
        "files": {name: sha256_of(content) for name, content in files.items()},
    }
    guessing = next(rung.dev for rung in ladder.rungs if rung.name == "uniform")
    result = RunResult(
        start=InitialLoss(guessing, guessing, label_entropy(sides.dev.targets), True, "counted", vocab_size),
        ladder=ladder,
        ending=Ending("counted", 0, 0),
        verdict=Verdict("counted", "counted"),
        samples=task.samples(model, plan),
    )
    with RunWriter.create(place, record, sum(len(content) for content in files.values())) as writer:
        for name, content in files.items():
            writer.write(name, content)
        report = writer.run.report_with(result)
        if callbacks.page is not None:
            writer.write("report.html", callbacks.page(report))
        writer.finish(result)
    return report


def load_count_model(run: Run) -> CountModel:
    """The model of a run, counted again from the tokens in its folder."""
    tokens, _ = load_counted_tokens(run)
    try:
        settings = {name: value for name, value in run.config.items() if name != "vocab_size"}
        options = CountOptions(model=run.model, **settings)
    except (TypeError, PellucidError) as error:
        raise Damaged(f"run.json of {run.name} does not describe a count model", fix="Take it from a copy") from error
    return fit_on_sides(tokens, tokens, int(run.config["vocab_size"]), options)[0]


def _rung_name(model: CountModel, options: CountOptions) -> str:
    """As the ladder has it: what stands on every ladder has its short name there."""
    if isinstance(model, NGram) and model.smoothing == KneserNey():
        return f"Kneser–Ney {model.grams.order}-gram"
    is_usual = not isinstance(model, NGram) and options.s == 1.0
    return options.model if is_usual else count_model_name(model, options)


def _settings(model: CountModel, options: CountOptions) -> Mapping[str, object]:
    """What counts the same model again: where something was chosen on dev, what was chosen."""
    if not isinstance(model, NGram):
        return {} if options.model == "uniform" else {"s": options.s}
    smoothing = model.smoothing
    if isinstance(smoothing, AddS):
        return {"n": str(model.grams.order), "smoothing": "add", "s": smoothing.s}
    if isinstance(smoothing, KneserNey):
        return {"n": str(model.grams.order), "smoothing": "kneser-ney", "discount": smoothing.discount}
    return {"n": str(model.grams.order), "smoothing": "witten-bell"}


def _command(data: DataOptions, options: CountOptions, seed: int, source: str) -> list[str]:
    """The command that makes the run again."""
    words = ["pellucid", "train", source, "--model", options.model, "--seed", str(seed)]
    asked = {name: value for name, value in given_options(options).items() if name not in _NOT_COUNTED_WITH}
    for name, value in {**given_options(data), **asked}.items():
        words += [f"--{flag_called(name)}", *([] if value is True else [str(value)])]
    return words
