"""Small runs of every kind, for the proofs that damage them, and commands asked of them in this process or another."""

import contextlib
import gzip
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

KINDS = ("list", "table", "pairs", "counted", "stopped")
QUICK = {"size": "tiny", "steps": 12, "threads": 1}


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def make_runs(folder: Path, kinds: tuple[str, ...] = KINDS) -> dict[str, Path]:
    """A finished run on a list, a table and pairs, one that only counts, and one that was stopped; or some of them."""
    import pellucid

    words = [f"{a}{b}{c}" for a in ("ba", "ke", "lo", "mi") for b in "dnrst" for c in ("a", "en", "o", "i")]
    (folder / "names.txt").write_text("\n".join(words) + "\n")
    penguins = Path(pellucid.__file__).parent / "data" / "embedded" / "penguins.csv.gz"
    (folder / "new.csv").write_bytes(b"".join(gzip.decompress(penguins.read_bytes()).splitlines(keepends=True)[:5]))
    (folder / "pairs.txt").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
        for name, asked in (
            ("list", {"data": "names.txt", "kind": "list", "model": "mlp", **QUICK}),
            ("table", {"data": "penguins", "target": "species", "folds": 0, **QUICK}),
            ("pairs", {"data": "pairs.txt", "kind": "pairs", **QUICK}),
            ("counted", {"data": "names.txt", "kind": "list", "model": "bigram"}),
        ):
            if name in kinds and not (folder / "runs" / name).exists():
                pellucid.train(**asked, name=name)  # type: ignore[arg-type]
    stopped = folder / "runs" / "stopped"
    if "stopped" in kinds and not stopped.exists():
        shutil.copytree(folder / "runs" / "list", stopped)
        (stopped / "finished.json").unlink()
    return {name: folder / "runs" / name for name in kinds}


def commands_for(name: str) -> list[list[str]]:
    """What a user may ask of each of these runs; the first shows or makes its report."""
    asks = {
        "list": [["sample", name, "--count", "2"], ["score", name, "baden"]],
        "stopped": [["sample", name, "--count", "2"]],
        "counted": [["sample", name, "--count", "2"], ["score", name, "baden"]],
        "pairs": [["predict", name, "--text", "baden"]],
        "table": [["predict", name, "new.csv"], ["inspect", name]],
    }
    return [["train", "--resume", name], *asks[name]]


def require_answers(runs: dict[str, Path], folder: Path) -> None:
    """Every command ends with 0 while nothing is wrong with a run: what refuses anyway would prove nothing."""
    for name in runs:
        for words in commands_for(name)[name == "stopped" :]:  # to go on with that one would change it
            ended = ask_here(words, folder)
            if ended.code:
                raise RuntimeError(f"{' '.join(words)} ends with {ended.code}: {ended.err.strip()}")


def ask_here(words: list[str], folder: Path) -> Ended:
    """A command in this process."""
    from pellucid.cli import main

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def ask_in_process(words: list[str], folder: Path) -> Ended:
    """A command as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", *words],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
