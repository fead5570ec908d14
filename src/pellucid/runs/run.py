"""Where runs are, and a run opened for reading: what it was made with, how it went and how it ended.

`open_run` is the one way to load a run. No torch is loaded, so that yesterday's run is shown at once and a mistake is
answered before anything heavy begins. Its network is loaded by `training.checkpoints.load_network`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.records import (
    Answers,
    CountedParts,
    DataFacts,
    Ending,
    Evaluation,
    Finding,
    FineTuning,
    Forecast,
    Health,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    Replan,
    Sample,
    SampledAt,
    Separability,
    Step,
    Timing,
    TrainingReport,
    Verdict,
)
from pellucid.records.plain import from_plain
from pellucid.runs.disk import Damaged, is_regular, read_checksummed, read_regular
from pellucid.runs.folder import BASELINES, FINISHED, RECORD, is_finished
from pellucid.runs.logs import read_log
from pellucid.runs.seal import damage_in, read_ending, read_seal

BASE = Path("runs")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")  # no dash at first: that is an option
LARGEST_FILE = 64 << 20  # of vocabulary.json and preparation.json
KINDS = ("list", "text", "pairs", "table", "images")

Record = TypeVar("Record")


def new_run_path(name: str, stem: str, base: Path = BASE) -> Path:
    """The folder that a new run will be made in: of that name, or of the first free name like the data's.

    >>> new_run_path("", "names", Path("nowhere")).as_posix()
    'nowhere/names'
    """
    if not name:
        stem = (re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip(".-") or "run")[:56]
        names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, 1_000_000))
        return next(base / free for free in names if not os.path.lexists(base / free))
    require_name(name)
    require_free(base / name)
    return base / name


def require_name(name: str) -> None:
    """Refuse a name that could lead elsewhere or that a shell or a page would trip over."""
    if not NAME.fullmatch(name):
        raise PellucidError(
            f"a run cannot be called {quoted(name)}", fix="Use up to 64 letters, digits, dots, dashes and underscores"
        )


def require_free(path: Path) -> None:
    """Refuse a path where something is, saying what."""
    where = str(path)
    if holds_run(path):
        if is_regular(path / FINISHED):
            raise PellucidError(
                f"{where} holds a finished run",
                fix="Choose another {name} or {resume}",
                options={"name": None, "resume": None},
            )
        raise PellucidError(
            f"{where} holds a run",
            fix="Go on with {resume} or choose another {name}",
            options={"resume": path.name, "name": None},
        )
    if os.path.lexists(path):
        what = "is a link" if path.is_symlink() else "exists already and is no run"
        raise PellucidError(f"{where} {what}", fix="Choose another {name}", options={"name": None})


def holds_run(path: Path) -> bool:
    """Whether a run's record is in the folder; whether it can be read is another question."""
    return not path.is_symlink() and is_regular(path / RECORD)


def is_run(word: str) -> bool:
    """Whether `find_run` would find one."""
    return _find_folder(word) is not None


def find_run(word: str) -> Path:
    """The folder of a run, from its name under ./runs or from its path."""
    found = _find_folder(word)
    if found is not None:
        return found
    known = sorted(path.name for path in _listed(BASE) if holds_run(path))
    there_are = f"There are {', '.join(known[:5])}{', …' * (len(known) > 5)}" if known else "Make one: pellucid train"
    raise PellucidError(
        f"there is no run called {quoted(word)}",
        fix=did_you_mean(Path(word).name, known, there_are),
    )


def _find_folder(word: str) -> Path | None:
    if not word:
        return None
    if NAME.fullmatch(word) and holds_run(BASE / word):
        return BASE / word
    # A path may go through links: whoever typed it meant what is there.
    path = Path(word)
    return path if is_regular(path / RECORD) else None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


class RunResult(NamedTuple):
    """What is known only at the end of a run."""

    start: InitialLoss
    ladder: Ladder
    ending: Ending
    verdict: Verdict
    samples: tuple[Sample, ...]
    answers: Answers | None = None
    parts: CountedParts | None = None
    forecast: Forecast | None = None
    separability: Separability | None = None
    fine_tuning: FineTuning | None = None


class RunRecord(NamedTuple):
    """What run.json holds, with the types that it is checked against when it is read.

    What was asked, how the data were read and the network's config are options: whoever uses them checks their values.
    """

    seed: int
    threads: int
    versions: Mapping[str, str]
    asked: Mapping[str, object]
    reading: Mapping[str, object]
    data: DataFacts
    model: str
    config: Mapping[str, object]
    network: NetworkFacts
    plan: Plan
    command: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})  # SHA-256 of what else the network needs


# The same field by field, for records that lack some.
_PARTS: dict[str, Any] = {
    name: NamedTuple("RunRecord", [(name, hint)]) for name, hint in get_type_hints(RunRecord).items()
}


@dataclass(frozen=True)
class Run:
    """The folder of a run, and its record: what it was made with."""

    path: Path
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def kind(self) -> str:
        """The kind of data that it was trained on; a record that does not tell it is refused."""
        data = self.record.get("data")
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if kind not in KINDS or not isinstance(self.record.get("config"), Mapping):
            raise Damaged(f"run.json of {quoted(self.name)} does not describe a network", fix="Take it from a copy")
        return str(kind)

    @property
    def model(self) -> str:
        """The name of its network."""
        return str(self.record.get("model"))

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of its network."""
        config: Mapping[str, Any] = self.record["config"]
        return config

    @cached_property
    def data(self) -> DataFacts:
        return self._rebuild(DataFacts, self.record.get("data"))

    @property
    def plan(self) -> Plan:
        """What it was to do from the beginning, with what was changed on the way so far."""
        plan = self._rebuild(Plan, self.record.get("plan"))
        for change in self._log(Replan, "replans"):
            plan = plan.changed_by(change)
        return plan

    @property
    def start(self) -> str:
        """What its network stands on: counts, or nothing (scratch), as in runs that do not tell."""
        plan = self.record.get("plan")
        return str(plan.get("start", "scratch")) if isinstance(plan, Mapping) else "scratch"

    @property
    def is_finished(self) -> bool:
        return is_finished(self.path)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """The losses that were measured so far."""
        return self._log(Evaluation, "evaluations")

    @property
    def health(self) -> tuple[Health, ...]:
        """What was seen inside the network so far."""
        return self._log(Health, "health")

    @property
    def timings(self) -> tuple[Timing, ...]:
        """How long it has trained up to each evaluation, and how fast."""
        return self._log(Timing, "timings")

    @property
    def baselines(self) -> Ladder | None:
        """What simple models reach on dev, from the first step on; None of a run that does not tell."""
        if not is_regular(self.path / BASELINES):
            return None
        return self._rebuild(Ladder, self.read_json(BASELINES), BASELINES)

    def require_finished(self) -> None:
        if not self.is_finished:
            raise PellucidError(
                f"the run in {quoted(str(self.path))} is not finished",
                fix=f"Go on with pellucid train --resume {self.name}",
            )

    def report(self) -> TrainingReport:
        """Everything that a finished run holds."""
        return self.report_with(self.result)

    @property
    def result(self) -> RunResult:
        """What a finished run holds besides its record and its logs."""
        self.require_finished()
        return self._rebuild(RunResult, read_ending(self.path).get("ending"), FINISHED, "ending")

    def report_with(self, result: RunResult, health: tuple[Health, ...] | None = None) -> TrainingReport:
        """The record and the logs, together with a result that is not yet on the disk.

        health: all looks, where they were read already; they are the largest of the logs.
        """
        require_fields(self, "seed", "threads", "versions", "data", "network", "plan", "command")
        record, plan = self.record, self.plan
        own = str(record["network"]["name"])
        if not any(rung.name == own if plan.steps == 0 else not rung.is_counted for rung in result.ladder.rungs):
            raise damage_in(self.path, RECORD, f"network.name {ascii(own)[:40]} has no place on the ladder")
        changes = ",".join([change.spelled for change in plan.replans[1:]])
        return TrainingReport(
            name=self.name,
            folder=str(self.path),
            seed=int(record["seed"]),
            threads=int(record["threads"]),
            versions={str(name): str(version) for name, version in record["versions"].items()},
            data=self.data,
            network=self._rebuild(NetworkFacts, record["network"]),
            plan=plan,
            steps=self._log(Step, "metrics"),
            evaluations=self.evaluations,
            health=self.health if health is None else health,
            findings=self._log(Finding, "findings"),
            timings=self.timings,
            sampled=self._log(SampledAt, "samples"),
            command=(*[str(word) for word in record["command"]], *(["--replan", changes] if changes else [])),
            **result._asdict(),
        )

    def read_file(self, name: str, most: int = LARGEST_FILE) -> bytes:
        """The content of a file of the folder such as vocabulary.json. What is not as it was written is refused."""
        seal = read_seal(self.path)
        try:
            content = read_regular(self.path / name, most)
        except FileNotFoundError as error:
            raise damage_in(self.path, name, "it is missing") from error
        except OSError as error:
            raise damage_in(self.path, name, f"it cannot be read: {error.strerror}") from error
        files = self.record.get("files")
        said = files.get(name) if isinstance(files, Mapping) else None
        if said is not None and hashlib.sha256(content).hexdigest() != said:
            raise damage_in(self.path, name, "its content is not what was written")
        if seal is not None:
            seal.require(name, content)
        return content

    def read_json(self, name: str) -> Any:
        """The content of a JSON file of the folder."""
        try:
            return json.loads(self.read_file(name).decode())
        except (ValueError, RecursionError) as error:
            raise damage_in(self.path, name, "it is no JSON") from error

    def _log(self, kind: type[Record], log: str) -> tuple[Record, ...]:
        return tuple(self._rebuild(kind, line, f"{log}.jsonl") for line in read_log(self.path, log))

    def _rebuild(self, kind: type[Record], plain: object, name: str = RECORD, where: str = "") -> Record:
        try:
            return from_plain(kind, plain, where)
        except ValueError as error:
            raise damage_in(self.path, name, str(error)) from error


def open_run(word: str | Path) -> Run:
    """A run by its name under ./runs, or by its folder."""
    path = word if isinstance(word, Path) else find_run(word)
    run = Run(path, read_record(path))
    seal = read_seal(path)
    if seal is not None:
        seal.require(RECORD, read_regular(path / RECORD, LARGEST_FILE))
    require_sound(run)
    return run


def require_sound(run: Run) -> None:
    """Refuse a record one of whose fields is not of its type or out of its range, naming it.

    What a later version has added beside the known fields is left alone; what is missing is refused where it is needed.
    """
    known = {name: run.record[name] for name in RunRecord._fields if name in run.record}
    try:
        if len(known) == len(RunRecord._fields):
            from_plain(RunRecord, known)
        else:
            for name, plain in known.items():
                from_plain(_PARTS[name], {name: plain})
    except ValueError as error:
        raise damage_in(run.path, RECORD, str(error).partition(".")[2] or str(error)) from error
    config, network, data = (known.get(name, {}) for name in ("config", "network", "data"))
    for name, own in config.items():
        said = network.get("config", {}).get(name, own)
        if repr(said) != repr(own):
            raise damage_in(run.path, RECORD, f"config.{name} cannot be both {ascii(own)[:30]} and {ascii(said)[:30]}")
    if "vocab_size" in config and data and config["vocab_size"] != data["vocab_size"]:
        raise damage_in(run.path, RECORD, f"config.vocab_size cannot be {ascii(config['vocab_size'])[:40]}")


def require_fields(run: Run, *names: str) -> None:
    """Refuse a record that lacks one of these fields, naming it."""
    for name in names:
        if name not in run.record:
            raise damage_in(run.path, RECORD, f"{name} is missing")


def read_record(run: Path) -> dict[str, Any]:
    """What the run was made with."""
    try:
        return read_checksummed(run / RECORD)
    except Damaged as error:
        raise damage_in(run, RECORD, "its content is not what was written") from error
    except OSError as error:
        raise PellucidError(
            f"{RECORD} of {quoted(str(run), 80)} cannot be read: {error.strerror}", fix="Name the folder of a run"
        ) from error
