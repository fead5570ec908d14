"""The logs of a run: one record on each line, and every line vouches for itself and for all before it.

    {"step": 1, "loss": 3.2957, "n_tokens": 214, …, "check": "5b1f0c1a92e07d44"}

`check` is the first 16 digits of the SHA-256 of the check of the line before and of this line without its own; before
the first line stands the name of the log. So a line that was changed, lost, doubled or moved is found, and a line that
comes from another log. Every line is one JSON object: a program that does not care reads it as any other.

A last line without its end is being written, or was when the run was killed: it is no damage, and is left out.
A run that a pellucid before format 2 made has no checks; its lines are only read as JSON.

`read_log` is for whoever wants all records and refuses damage; `follow_log` for whoever looks at a run that trains.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import NotWritten, PellucidError, printable
from pellucid.records import as_plain
from pellucid.runs.disk import FIRST_CHECKED, read_checksummed, read_format, read_regular, write_all
from pellucid.runs.folder import LOGS, RECORD, checkpoint_at, checkpoint_steps, log_path
from pellucid.runs.seal import damage_in, read_seal

LARGEST_LOG = 4 << 30
_LOST = "it has lost lines that were there at the last checkpoint"
_DIGITS = 16
_KEY = b', "check": "'
_ENDING = b'"}\n'
_SUFFIX = len(_KEY) + _DIGITS + len(_ENDING)


class LogPlace(NamedTuple):
    """Where the whole lines of a log end: what was read up to there is known, and reading can go on from there."""

    n_bytes: int = 0
    n_lines: int = 0
    check: str = ""  # of the last line; "" before the first, and in a log without checks


class LogPart(NamedTuple):
    """What is whole in a log after some place."""

    records: list[dict[str, Any]]  # without their checks
    end: LogPlace  # to follow it from there
    n_torn: int = 0  # bytes after the end: a line that is being written, or was when the run was killed
    is_from_start: bool = True  # False: these come after what was known; True also where that was taken back
    damage: str = ""  # what is wrong with the next line, which and all after it are not among the records


START = LogPlace()


def read_log(run: Path, log: str) -> list[dict[str, Any]]:
    """All records of a log. One that is not what was written is refused; a torn last line is left out.

    What was written is known from the line's checks, from the seal of a finished run, and of another from its newest
    checkpoint, which says how long the log was by then.
    """
    seal, at_checkpoint = read_seal(run), _place_at_checkpoint(run, log)
    text = _read_text(run, log)
    part = _read_part(run, log, text)
    if part.damage:
        raise damage_in(run, f"{log}.jsonl", part.damage)
    if seal is not None:
        seal.require(f"{log}.jsonl", text)
    if seal is None and at_checkpoint is not None and part.end.n_bytes < at_checkpoint.n_bytes:
        raise damage_in(run, f"{log}.jsonl", _LOST)
    return part.records


def follow_log(run: Path, log: str, after: LogPlace = START) -> LogPart:
    """What is whole in a log after a place, and where that ends; for looking at a run while it trains.

    Damage is told and not raised, so that what is before it can be shown. A run that was stopped and goes on may have
    taken lines back: then everything comes from the start again, and `is_from_start` says so.

    part = follow_log(run, "metrics")
    part = follow_log(run, "metrics", part.end)      # a second later: only what is new
    """
    if after.n_bytes:
        has_checks = _has_checks(run)
        # A line with the check of that place must still end there, so what is before it is read too.
        ending = after.check.encode("ascii") + _ENDING if has_checks else b"\n"
        text = _read_text(run, log, after.n_bytes - len(ending)) or b""
        if text.startswith(ending):
            part = _parse(text[len(ending) :], log, after, has_checks=has_checks)
            if not part.damage:
                return part._replace(is_from_start=False)
    return _read_part(run, log, _read_text(run, log))


def _read_part(run: Path, log: str, text: bytes | None) -> LogPart:
    """What is whole in the text of a whole log; None: there is none yet, and perhaps no run either."""
    return LogPart([], START) if text is None else _parse(text, log, START, has_checks=_has_checks(run))


def log_places(run: Path) -> dict[str, LogPlace]:
    """Where each log ends now, everything before that on the disk when this returns."""
    places = {}
    for log in LOGS:
        try:
            descriptor = os.open(log_path(run, log), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
            places[log] = LogPlace(size, 0, _last_check(descriptor, size))
        finally:
            os.close(descriptor)
    return places


def _has_checks(run: Path) -> bool:
    try:
        return read_format(run / RECORD) >= FIRST_CHECKED
    except OSError as error:
        raise damage_in(run, RECORD, f"it cannot be read: {error.strerror}") from error


def _read_text(run: Path, log: str, start: int = 0) -> bytes | None:
    """A log from a byte on; None where there is no such log yet."""
    try:
        return read_regular(log_path(run, log), LARGEST_LOG, start)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PellucidError(
            f"{log}.jsonl of {run.name} cannot be read: {error.strerror}", fix="Look at that file"
        ) from error


def _parse(text: bytes, log: str, after: LogPlace, *, has_checks: bool) -> LogPart:
    """The lines of a text that stands after a place."""
    records: list[dict[str, Any]] = []
    place, damage = after, ""
    *lines, torn = text.split(b"\n")
    for line in lines:
        check = _check_of(_body(line), place.check, log) if has_checks else ""
        if has_checks and line != _whole_line(_body(line), check)[:-1]:
            damage = f"line {place.n_lines + 1} is not what was written"
            break
        record = _parse_line(line)
        if record is None:
            damage = f"line {place.n_lines + 1} is no record"
            break
        if has_checks:
            del record["check"]
        records.append(record)
        place = LogPlace(place.n_bytes + len(line) + 1, place.n_lines + 1, check)
    return LogPart(records, place, len(torn), damage=damage)


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _body(line: bytes) -> bytes:
    """A line without its check and its end."""
    return line[: max(0, len(line) - _SUFFIX + 1)]


def _whole_line(body: bytes, check: str) -> bytes:
    return body + _KEY + check.encode("ascii") + _ENDING


def _check_of(body: bytes, before: str, log: str) -> str:
    return hashlib.sha256((before or log).encode("ascii") + b"\n" + body).hexdigest()[:_DIGITS]


def _last_check(descriptor: int, size: int) -> str:
    """The check of the line that ends there, or "" where none does."""
    end = os.pread(descriptor, _SUFFIX, size - _SUFFIX) if size >= _SUFFIX else b""
    is_one = end.startswith(_KEY) and end.endswith(_ENDING)
    return end[len(_KEY) : -len(_ENDING)].decode("ascii", "replace") if is_one else ""


def _place_at_checkpoint(run: Path, log: str) -> LogPlace | None:
    """Where the log ended at the newest checkpoint; None where that is not known."""
    try:
        steps = checkpoint_steps(run)
        return checkpointed_places(run, steps[0]).get(log) if steps else None
    except (OSError, PellucidError):
        return None


def checkpointed_places(run: Path, step: int) -> dict[str, LogPlace]:
    """Where each log ended when the checkpoint of that step was made. No such checkpoint is an OSError."""
    folder = checkpoint_at(run, step)
    try:
        return places_from(read_checksummed(folder / "state.json").get("logs"))
    except ValueError as error:
        raise damage_in(run, f"{folder.name}/state.json", str(error)) from error


def places_from(said: object) -> dict[str, LogPlace]:
    """Where each log ended, as state.json says it; a ValueError names what does not fit.

    >>> places_from({"metrics": {"bytes": 81, "check": "5b1f0c1a92e07d44"}})
    {'metrics': LogPlace(n_bytes=81, n_lines=0, check='5b1f0c1a92e07d44')}
    """
    if not isinstance(said, dict):
        raise ValueError("logs is no object")
    places = {}
    for log, place in said.items():
        if type(place) is int:  # as before format 2
            place = {"bytes": place, "check": ""}
        size, check = (place.get("bytes"), place.get("check")) if isinstance(place, dict) else (None, None)
        if log not in LOGS or type(size) is not int or not 0 <= size <= LARGEST_LOG or type(check) is not str:
            raise ValueError(f"logs.{printable(str(log))[:20]} does not say where a log ended")
        places[log] = LogPlace(size, 0, check)
    return places


class LogWriter:
    """Appends whole lines, each with one call, so that a kill can tear nothing but the last."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._has_checks = _has_checks(run)
        self._descriptors: dict[str, int] = {}
        self._checks: dict[str, str] = {}  # of the last line of each

    def append(self, log: str, record: object) -> None:
        plain = as_plain(record)
        if not isinstance(plain, dict) or not isinstance(plain.get("step"), int) or "check" in plain:
            raise ValueError(f"a record of {log} needs a step")
        line = json.dumps(plain, allow_nan=False).encode("ascii") + b"\n"
        descriptor = self._open(log)
        before, check = os.fstat(descriptor).st_size, ""
        if self._has_checks:
            body = line[: -len(b"}\n")]
            check = _check_of(body, self._checks[log], log)
            line = _whole_line(body, check)
        try:
            # A full disk takes what fits and only then says so.
            write_all(descriptor, line)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise NotWritten(f"{log}.jsonl could not be written: {error.strerror}", run=self._run.name) from error
        self._checks[log] = check

    def synchronise(self) -> None:
        try:
            for descriptor in self._descriptors.values():
                os.fsync(descriptor)
        except OSError as error:
            raise NotWritten(f"the logs could not be written: {error.strerror}", run=self._run.name) from error

    def require_whole(self, places: Mapping[str, LogPlace]) -> None:
        """Refuse logs that are not what they were when they ended there."""
        for log, place in places.items():
            text = (_read_text(self._run, log) or b"")[: place.n_bytes]
            part = _parse(text, log, START, has_checks=self._has_checks)
            why = part.damage
            if not why and part.end.n_bytes < place.n_bytes:
                why = _LOST
            elif not why and part.end.check != place.check:
                why = "it is not the log that the last checkpoint was made with"
            if why:
                raise damage_in(self._run, f"{log}.jsonl", why)

    def cut(self, places: Mapping[str, LogPlace]) -> None:
        """Take back what was appended after these places; a log that is not named becomes empty."""
        for log in LOGS:
            place = places.get(log, START)
            try:
                self._forget(log)
                if not place.n_bytes:
                    # As if nothing had ever been appended.
                    log_path(self._run, log).unlink(missing_ok=True)
                    continue
                descriptor = self._open(log)
                os.ftruncate(descriptor, place.n_bytes)
                os.fsync(descriptor)
                self._checks[log] = place.check
            except OSError as error:
                raise NotWritten(f"{log}.jsonl could not be cut: {error.strerror}", run=self._run.name) from error

    def close(self) -> None:
        for log in list(self._descriptors):
            self._forget(log)

    def _forget(self, log: str) -> None:
        if log in self._descriptors:
            os.close(self._descriptors.pop(log))

    def _open(self, log: str) -> int:
        if log not in self._descriptors:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            try:
                descriptor = os.open(log_path(self._run, log), flags, 0o666)
            except OSError as error:
                raise NotWritten(f"{log}.jsonl could not be opened: {error.strerror}", run=self._run.name) from error
            self._descriptors[log] = descriptor
            self._checks[log] = _last_check(descriptor, os.fstat(descriptor).st_size)
        return self._descriptors[log]
