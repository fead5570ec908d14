"""A run folder as one record, read back from its files. No torch, so that yesterday's run can be shown at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

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


class Result(NamedTuple):
    """What is known only at the end of a run."""

    ladder: Ladder
    ending: Ending
    verdict: Verdict
    samples: tuple[Sample, ...]
    sentence: str


def report_of(run: Path) -> TrainingReport:
    """Everything that a finished run holds, from its files."""
    record = runs.read_record(run)
    if not runs.is_finished(run):
        raise PellucidError(
            f"the run in {quoted(str(run))} is not finished", fix=f"Go on with pellucid train --resume {run.name}"
        )
    result = _rebuilt(Result, runs.read_ending(run)["ending"], run)
    return TrainingReport(
        name=run.name,
        folder=str(run),
        seed=int(str(record["seed"])),
        threads=int(str(record["threads"])),
        versions=_rebuilt_mapping(record["versions"]),
        data=_rebuilt(DataFacts, record["data"], run),
        network=_rebuilt(NetworkFacts, record["network"], run),
        plan=_rebuilt(Plan, record["plan"], run),
        start=_rebuilt(InitialLoss, record["start"], run),
        steps=_log(Step, run, "metrics"),
        evaluations=_log(Evaluation, run, "evaluations"),
        health=_log(Health, run, "health"),
        findings=_log(Finding, run, "findings"),
        timings=_log(Timing, run, "timings"),
        sampled=_log(SampledAt, run, "samples"),
        samples=result.samples,
        ladder=result.ladder,
        ending=result.ending,
        verdict=result.verdict,
        sentence=result.sentence,
    )


def _log(kind: type[Record], run: Path, name: str) -> tuple[Record, ...]:
    return tuple(_rebuilt(kind, line, run) for line in runs.read_log(run, name))


def _rebuilt(kind: type[Record], plain: object, run: Path) -> Record:
    try:
        return from_plain(kind, plain)
    except ValueError as error:
        raise PellucidError(
            f"a file of the run in {quoted(str(run))} is damaged: {error}", fix="Train it again, or restore the file"
        ) from error


def _rebuilt_mapping(plain: object) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in plain.items()} if isinstance(plain, Mapping) else {}
