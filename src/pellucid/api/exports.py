"""Exports in processes of their own: each is the command `pellucid export`, and what it wrote becomes one zip file.

An export loads transformers, ONNX Runtime or gguf beside torch; whoever asks for one keeps none of that in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.api.runs import run_folder
from pellucid.errors import PellucidError, quoted
from pellucid.records import EXPORT_FORMATS, Export, from_plain
from pellucid.runs import open_run

MOST_EXPORTS = 1  # that are written at once
MOST_WEIGHTS = 1 << 30  # bytes of a run's weights; a larger one is for the terminal
MOST_KEPT = 4 << 30  # bytes of all zip files together; the oldest go first
LONGEST_SECONDS = 900.0
WEIGHTS = "model.safetensors"


@dataclass
class ExportUnderWay:
    """One export: since when, and what came of it."""

    run: str
    to: str
    is_network_only: bool
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    made: Export | None = None
    problem: str = ""
    n_bytes: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def state(self) -> str:
        return "refused" if self.problem else "running" if self.made is None else "finished"

    def describe(self) -> dict[str, Any]:
        """What a page shows of it, in the words of the terminal."""
        from pellucid.figures.words.export import check_words
        from pellucid.figures.words.notes import note_sentences

        made = self.made
        return {
            "to": self.to,
            "state": self.state,
            "is_network_only": self.is_network_only,
            "seconds": self.seconds or time.monotonic() - self.began,
            "problem": self.problem,
            "n_bytes": self.n_bytes,
            "check": made.check if made else None,
            "files": made.files if made else (),
            "says": check_words(made) if made else "",
            "notes": note_sentences(made.notes) if made else [],
            "use": made.use if made else (),
        }


@dataclass
class ExportProcesses:
    """Writes exports of the runs of one folder.

    base: the folder of runs; kept: where the zip files are.
    """

    base: Path
    kept: Path
    _begun: dict[tuple[str, str], ExportUnderWay] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, name: str, to: str, *, is_network_only: bool = False) -> ExportUnderWay:
        """Begin to export a run, in the place of what was exported of it before."""
        run = run_folder(name, self.base)
        if to not in EXPORT_FORMATS:
            raise PellucidError(
                f"there is no format called {quoted(to)}", fix=f"Choose one of {', '.join(EXPORT_FORMATS)}"
            )
        n_bytes = _size(run / WEIGHTS)
        if n_bytes > MOST_WEIGHTS:
            raise PellucidError(
                f"the weights of {name} are {n_bytes / 1e9:.1f} GB, too much for one zip file",
                fix=f"Use the terminal: pellucid export {name} --to {to}",
            )
        with self._lock:
            under_way = [one for one in self._begun.values() if one.state == "running"]
            if len(under_way) >= MOST_EXPORTS:
                raise PellucidError(f"{under_way[0].run} is being exported to {under_way[0].to}", fix="Wait for it")
            job = self._begun[name, to] = ExportUnderWay(name, to, is_network_only)
        threading.Thread(target=self._work, args=(job, run.resolve()), daemon=True).start()
        return job

    def describe(self, name: str) -> dict[str, Any]:
        """Every export of a run that was begun here, and whether the run has counts that can be left out."""
        run = open_run(run_folder(name, self.base))
        jobs = [self._begun[name, to] for to in EXPORT_FORMATS if (name, to) in self._begun]
        return {"exports": [job.describe() for job in jobs], "has_counts": run.start == "counts"}

    def find_zip(self, name: str, to: str) -> Path:
        """The zip file of an export that was finished here."""
        job = self._begun.get((name, to))
        path = self._zip_of(name, to)
        if job is None or job.state != "finished" or path.is_symlink() or not path.is_file():
            raise PellucidError("that was not exported here", fix="Export it first")
        return path

    def close(self) -> None:
        """End what is under way; an export is there as a whole or not at all."""
        for job in list(self._begun.values()):
            if job.process is not None and job.process.poll() is None:
                job.process.terminate()

    def _zip_of(self, name: str, to: str) -> Path:
        return self.kept / f"{name}-{to}.zip"

    def _work(self, job: ExportUnderWay, run: Path) -> None:
        try:
            self.kept.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(prefix=".tmp-", dir=self.kept, ignore_cleanup_errors=True) as folder:
                made = _export(job, run, Path(folder))
                zipped = Path(folder) / "all.zip"
                _write_zip(Path(folder) / made.folder, zipped)
                job.n_bytes = zipped.stat().st_size
                os.replace(zipped, self._zip_of(job.run, job.to))
            self._drop_oldest()
            job.seconds = time.monotonic() - job.began
            job.made = made
        except (PellucidError, OSError, ValueError) as error:
            job.seconds = time.monotonic() - job.began
            job.problem = str(error) or type(error).__name__

    def _drop_oldest(self) -> None:
        files = sorted(self.kept.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
        n_bytes = 0
        for at, path in enumerate(files):
            n_bytes += path.stat().st_size
            if at and n_bytes > MOST_KEPT:
                path.unlink(missing_ok=True)


def _export(job: ExportUnderWay, run: Path, folder: Path) -> Export:
    """What the command says of the folder that it made in this one; its refusal, in its own line."""
    # -P: no file of the folder that it works in is taken for a module.
    words = [sys.executable, "-P", "-m", "pellucid", "export", str(run), "--json"]
    words += [f"--to={job.to}", f"--out={job.run}-{job.to}", *(["--network-only"] if job.is_network_only else [])]
    job.process = subprocess.Popen(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        said, complained = job.process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        job.process.kill()
        job.process.communicate()
        raise PellucidError(
            f"the export took more than {LONGEST_SECONDS:.0f} s and was ended",
            fix=f"Use the terminal: pellucid export {job.run} --to {job.to}",
        ) from None
    if job.process.returncode:
        raise _refusal_of(complained, job.process.returncode)
    return from_plain(Export, json.loads(said.splitlines()[-1]))


def _refusal_of(complained: str, code: int) -> PellucidError:
    """The error that the process ended with; other tools may have said something before it."""
    for line in reversed(complained.splitlines()):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)["error"]
            return PellucidError(found["what"], fix=found["fix"])
    return PellucidError(f"the export ended with code {code}", fix="Try it in the terminal, which says more")


def _write_zip(folder: Path, path: Path) -> None:
    """All files below a folder, under its name. Weights hardly shrink, so nothing is compressed."""
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as zipped:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.is_symlink():
                zipped.write(file, f"{folder.name}/{file.relative_to(folder)}")
    shutil.rmtree(folder, ignore_errors=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
