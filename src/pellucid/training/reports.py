"""A run folder as one record, read back from its files. No torch, so that yesterday's run can be shown at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pellucid import runs
from pellucid.errors import PellucidError, quoted
from pellucid.records import (
    DataFacts,
    Ending,
    Evaluation,
    Finding,
    Health,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    Sample,
    SampledAt,
    Step,
    Timing,
    TrainingReport,
    Verdict,
)
from pellucid.records.plain import from_plain

Record = TypeVar("Record")

OPTIONS = {"n_heads": "heads", "order": "n"}  # settings whose option has another name


class Result(NamedTuple):
    """What is known only at the end of a run."""

    start: InitialLoss
    ladder: Ladder
    ending: Ending
    verdict: Verdict
    samples: tuple[Sample, ...]
    sentence: str


def report_of(run: Path) -> TrainingReport:
    """Everything that a finished run holds, from its files."""
    if not runs.is_finished(run):
        raise PellucidError(
            f"the run in {quoted(str(run))} is not finished", fix=f"Go on with pellucid train --resume {run.name}"
        )
    return report_from(run, _rebuilt(Result, runs.read_ending(run)["ending"], run))


def report_from(run: Path, result: Result) -> TrainingReport:
    """The run's record and logs, together with its result."""
    record = runs.read_record(run)
    return TrainingReport(
        name=run.name,
        folder=str(run),
        seed=int(record["seed"]),
        threads=int(record["threads"]),
        versions={str(name): str(version) for name, version in record["versions"].items()},
        data=_rebuilt(DataFacts, record["data"], run),
        network=_rebuilt(NetworkFacts, record["network"], run),
        plan=_rebuilt(Plan, record["plan"], run),
        start=result.start,
        steps=_log(Step, run, "metrics"),
        evaluations=evaluations_of(run),
        health=health_of(run),
        findings=_log(Finding, run, "findings"),
        timings=_log(Timing, run, "timings"),
        sampled=_log(SampledAt, run, "samples"),
        samples=result.samples,
        ladder=result.ladder,
        ending=result.ending,
        verdict=result.verdict,
        sentence=result.sentence,
        command=command_of(record),
    )


def command_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The command that makes the run again: with its steps in place of minutes, and every wish as an option."""
    data, plan, reading, asked = (record[part] for part in ("data", "plan", "reading", "asked"))
    words = ["pellucid", "train", str(data["source"]), "--model", str(record["model"]), "--steps", str(plan["steps"])]
    words += ["--seed", str(record["seed"]), "--size", str(plan["size"]), "--threads", str(record["threads"])]
    usual = {"kind": "", "encoding": "utf-8", "newlines": "keep", "tokens": "characters", "context": 0}
    given = {name: reading[name] for name, value in usual.items() if reading[name] != value}
    for name, value in {**given, **asked["network"], **asked["training"]}.items():
        if name != "threads":
            words += [f"--{OPTIONS.get(name, name.replace('_', '-'))}", str(value)]
    return tuple(words)


def evaluations_of(run: Path) -> tuple[Evaluation, ...]:
    """What a run measured so far."""
    return _log(Evaluation, run, "evaluations")


def health_of(run: Path) -> tuple[Health, ...]:
    """What a run's looks saw so far."""
    return _log(Health, run, "health")


def last_timing_of(run: Path) -> Timing:
    """How long a run has trained so far, and how fast."""
    timings = _log(Timing, run, "timings")
    return timings[-1] if timings else Timing(0, 0.0, 0.0)


def _log(kind: type[Record], run: Path, name: str) -> tuple[Record, ...]:
    return tuple(_rebuilt(kind, line, run) for line in runs.read_log(run, name))


def _rebuilt(kind: type[Record], plain: object, run: Path) -> Record:
    try:
        return from_plain(kind, plain)
    except ValueError as error:
        raise PellucidError(
            f"a file of the run in {quoted(str(run))} is damaged: {error}", fix="Train it again, or restore the file"
        ) from error
