"""Trainings in processes of their own, which outlive whoever started them: the run folder holds all that they do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, quoted
from pellucid.options import types_of
from pellucid.runs import find_writer, holds_run, is_finished, new_run_path
from pellucid.runs.run import BASE
from pellucid.training.options import TrainOptions, all_options, flag_called, network_settings
from pellucid.training.run_data import run_name_for

MOST_AT_ONCE = 2
LONGEST_SAID = 64 * 1024  # characters of what a process said that are shown


@dataclass
class TrainingProcesses:
    """Starts, stops and goes on with trainings of one folder of runs.

    base: the folder of runs; notes: where what each process says is kept.
    """

    base: Path = BASE
    notes: Path = field(default_factory=lambda: BASE / ".lab")
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, source: str, options: Mapping[str, Any], name: str = "") -> str:
        """Train a network of data, in a new run; its name."""
        self._require_room()
        model = str(options.get("model") or "")
        run = new_run_path(name, f"{run_name_for(source)}{f'-{model}' if model else ''}", self.base)
        words = [source, f"--name={run.name}", f"--runs={self.base.resolve()}"]
        for option, value in options.items():
            _require_value(option, value)
            words += spell_option(option, value)
        self._launch(run.name, ["train", *words])
        return run.name

    def resume(self, name: str) -> None:
        """Go on with a run that was stopped."""
        run = self.base / name
        if not holds_run(run) or is_finished(run) or find_writer(run) is not None:
            raise PellucidError(f"{quoted(name)} is no run that was stopped", fix="Choose one that was")
        self._require_room()
        self._launch(name, ["train", "--resume", str(run.resolve())])

    def stop(self, name: str) -> None:
        """Ask a training to save and end, wherever it was started.

        By SIGTERM: whatever a script starts with & ignores Ctrl-C's signal, and so does what is started from there.
        """
        started = self._started.get(name)
        if started is not None and started.poll() is None and not is_finished(self.base / name):
            started.send_signal(signal.SIGTERM)
            return
        number = find_writer(self.base / name)
        if not number or is_finished(self.base / name) or not _is_training(number):
            raise PellucidError(f"nobody here trains {quoted(name)}", fix="Look whether it has ended already")
        os.kill(number, signal.SIGTERM)

    def said(self, name: str) -> str:
        """What the process said last, without the lines that a terminal would have overwritten."""
        try:
            raw = (self.notes / f"{name}.log").read_bytes()[-LONGEST_SAID:]
        except OSError:
            return ""
        lines = raw.decode("utf-8", "replace").split("\n")
        return "\n".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rpartition("\r")[2]) for line in lines)

    def ended_with(self, name: str) -> int | None:
        """The exit code of a process that was started here and has ended; else None."""
        started = self._started.get(name)
        return None if started is None else started.poll()

    def under_way(self) -> list[str]:
        """The names of the runs that processes started here are working on."""
        return [name for name, process in self._started.items() if process.poll() is None]

    def _require_room(self) -> None:
        if len(self.under_way()) >= MOST_AT_ONCE:
            raise PellucidError(
                f"{MOST_AT_ONCE} trainings are under way already", fix="Wait for one of them, or stop it"
            )

    def _launch(self, name: str, words: Sequence[str]) -> None:
        self.notes.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = os.open(self.notes / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        # A session of its own: neither the end of this process nor Ctrl-C in its terminal reaches it.
        try:
            self._started[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "pellucid", *words],  # -P: no file beside the data is taken for a module
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
            )
        finally:
            os.close(log)


def spell_option(name: str, value: object) -> list[str]:
    """An option as words of a command line; one that was not set is none. A value is never a word of its own.

    >>> spell_option("n_heads", 4), spell_option("target", "--help"), spell_option("drop_missing_target", True)
    (['--heads=4'], ['--target=--help'], ['--drop-missing-target'])
    """
    flag = f"--{flag_called(name)}"
    if value is None or value == "" or value is False:
        return []
    return [flag] if value is True else [f"{flag}={value}"]


def _require_value(name: str, value: object) -> None:
    """Refuse before a process begins what it would refuse at once."""
    declared = all_options().get(name)
    if declared is None:
        raise PellucidError(f"there is no option called {quoted(name)}", fix="Leave it out")
    settings = {setting: type_ for setting, (_, type_) in network_settings().items()}
    type_ = {**settings, **types_of(DataOptions), **types_of(TrainOptions)}.get(name, str)
    if value not in (None, "", False) and (declared.choices or type_ in (int, float)):
        declared.check(declared.noun or name.replace("_", " "), value, type_)


def _is_training(number: int) -> bool:
    """Whether that process is a training of pellucid's: a number alone may long be another's."""
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"train" in words and any(b"pellucid" in word for word in words)
