"""A run folder as one record, read back from its files. No torch, so that yesterday's run can be shown at once."""

from pathlib import Path
from typing import NamedTuple, TypeVar

from pellucid import runs
from pellucid.errors import PellucidError, quoted
from pellucid.records import (
    Answers,
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


class Result(NamedTuple):
    """What is known only at the end of a run."""

    start: InitialLoss
    ladder: Ladder
    ending: Ending
    verdict: Verdict
    samples: tuple[Sample, ...]
    sentence: str
    answers: Answers | None = None


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
        answers=result.answers,
        command=tuple(str(word) for word in record["command"]),
    )


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
