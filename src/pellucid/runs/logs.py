"""The logs of a run: one JSON object on each line, appended as it happens."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pellucid.errors import NotWritten, PellucidError
from pellucid.records import as_plain
from pellucid.runs.disk import read_regular
from pellucid.runs.sealed import Damaged

LOGS = ("metrics", "evaluations", "health", "findings", "samples", "timings")
LARGEST = 4 << 30


def log_path(run: Path, log: str) -> Path:
    if log not in LOGS:
        raise ValueError(f"{log!r} is not one of the logs {LOGS}")
    return run / f"{log}.jsonl"


def read_log(run: Path, log: str) -> list[dict[str, Any]]:
    """All records of a log. A last line without its end was being written when the run was killed: it is left out."""
    try:
        text = read_regular(log_path(run, log), LARGEST)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PellucidError(
            f"{log}.jsonl of {run.name} cannot be read: {error.strerror}", fix="Look at that file"
        ) from error
    records = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise Damaged(f"line {number} of {log}.jsonl of {run.name} is damaged", fix="Remove that line")
        records.append(record)
    return records


def log_sizes(run: Path) -> dict[str, int]:
    """How many bytes each log has now, all of them on the disk when this returns."""
    sizes = {}
    for log in LOGS:
        try:
            descriptor = os.open(log_path(run, log), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            os.fsync(descriptor)
            sizes[log] = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    return sizes


class LogWriter:
    """Appends whole lines, each with one call, so that a kill can tear nothing but the last."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._descriptors: dict[str, int] = {}

    def append(self, log: str, record: object) -> None:
        plain = as_plain(record)
        if not isinstance(plain, dict) or not isinstance(plain.get("step"), int):
            raise ValueError(f"a record of {log} needs a step")
        line = json.dumps(plain, allow_nan=False).encode("ascii") + b"\n"
        descriptor = self._open(log)
        before = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, line)
            if written < len(line):
                # A full disk takes what fits and only then says so.
                os.write(descriptor, line[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise NotWritten(f"{log}.jsonl could not be written: {error.strerror}", run=self._run.name) from error

    def synchronise(self) -> None:
        try:
            for descriptor in self._descriptors.values():
                os.fsync(descriptor)
        except OSError as error:
            raise NotWritten(f"the logs could not be written: {error.strerror}", run=self._run.name) from error

    def cut(self, sizes: Mapping[str, int]) -> None:
        """Take back what was appended after the logs had these sizes; a log that is not named becomes empty."""
        for log in LOGS:
            size = sizes.get(log, 0)
            try:
                if not size:
                    # As if nothing had ever been appended.
                    self._forget(log)
                    continue
                descriptor = self._open(log)
                if not _ends_a_line(descriptor, size):
                    raise Damaged(
                        f"{log}.jsonl of {self._run.name} has lost lines that were there at the last checkpoint",
                        fix="Take the file from a copy of the run",
                    )
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            except OSError as error:
                raise NotWritten(f"{log}.jsonl could not be cut: {error.strerror}", run=self._run.name) from error

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _forget(self, log: str) -> None:
        if log in self._descriptors:
            os.close(self._descriptors.pop(log))
        log_path(self._run, log).unlink(missing_ok=True)

    def _open(self, log: str) -> int:
        if log not in self._descriptors:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            try:
                self._descriptors[log] = os.open(log_path(self._run, log), flags, 0o666)
            except OSError as error:
                raise NotWritten(f"{log}.jsonl could not be opened: {error.strerror}", run=self._run.name) from error
        return self._descriptors[log]


def _ends_a_line(descriptor: int, size: int) -> bool:
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
