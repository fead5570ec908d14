"""What is asked of an export: refused before torch is loaded where it cannot be, then written all or nothing.

Everything goes into a folder beside the one that is asked for. Only when the other tool has loaded it and given the
same numbers does that get its name; whatever happens before, nothing is left.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pellucid.errors import PellucidError, quoted
from pellucid.figures.words.notation import with_article
from pellucid.models.catalogue import OPENED
from pellucid.models.counting import COUNT_MODELS
from pellucid.options import check_options, option
from pellucid.records import EXPORT_FORMATS, Export, ExportCheck, Statement, WrittenFile, make_note
from pellucid.runs import Run, open_run
from pellucid.runs.disk import fsync_path, temporary_beside

if TYPE_CHECKING:
    from pellucid.export.subject import Subject

FORMATS = EXPORT_FORMATS
# What each needs beside pellucid itself; the extra of that name installs it.
NEEDS = {"hf": ("transformers",), "onnx": ("onnx", "onnxscript", "onnxruntime"), "gguf": ("gguf",), "torch": ()}


class Format(Protocol):
    """One way out: a module of this room."""

    def refuse(self, run: Run, *, is_network_only: bool) -> None:
        """Refuse a run that this format cannot hold, naming what does not fit; no torch is loaded."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Every file but README.md."""

    def check(self, subject: Subject, folder: Path) -> ExportCheck:
        """What the other tool makes of these files."""

    def use(self, subject: Subject, folder: Path) -> tuple[str, ...]:
        """Lines to type."""


@dataclass(frozen=True)
class ExportOptions:
    """What may be asked of an export.

    >>> ExportOptions(to="onx")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is no format called 'onx'. Perhaps you meant onnx.
    """

    to: str = option(help="Format of the export", noun="format", choices=FORMATS)
    out: str = option("", "Folder to make; by default RUN-FORMAT.", value_name="FOLDER")
    network_only: bool = option(
        False, "Leave the counts out of a run that starts from counting; what that costs is told."
    )

    def __post_init__(self) -> None:
        check_options(self)


def export_run(word: str | Path, *, to: str, out: str | Path = "", network_only: bool = False) -> Export:
    """A run as another tool takes it, in a new folder; it is there as a whole, checked, or not at all.

    to: "hf" for transformers, "onnx" for ONNX Runtime, "gguf" for llama.cpp and Ollama, "torch" for Python with torch
    alone. network_only: of a run that starts from counting, the network without its counts.
    """
    asked = ExportOptions(to=to, out=str(out), network_only=network_only)
    run = open_run(word)
    place = Path(asked.out) if asked.out else Path(f"{run.name}-{to}")
    _require_place(place)
    _require_exportable(run, asked)
    require_installed(to, NEEDS[to])
    made = _find_format(to)
    made.refuse(run, is_network_only=asked.network_only)

    from pellucid.export.model_card import write_card
    from pellucid.export.subject import Subject

    subject = Subject.load(run, is_network_only=asked.network_only)
    temporary = temporary_beside(place)
    try:
        temporary.mkdir(mode=0o755)
        made.write(subject, temporary)
        check = made.check(subject, temporary)
        _require_same(check)
        use = made.use(subject, place)
        write_card(subject, to, check, made.use(subject, Path()), temporary)
        for file in sorted(temporary.rglob("*")):
            fsync_path(file)
        fsync_path(temporary)
        files = tuple(WrittenFile(one.name, one.stat().st_size) for one in sorted(temporary.iterdir()))
        _require_free(place)
        os.rename(temporary, place)
        fsync_path(place.parent)
    except OSError as error:
        raise PellucidError(
            f"{quoted(str(place))} could not be written: {error.strerror}",
            fix="Choose another folder with {out}",
            options={"out": None},
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Export(run.name, run.model, to, str(place), files, check, use, _notes(subject, asked, check))


def _require_same(check: ExportCheck) -> None:
    """Refuse what the other tool does not make the same of."""
    if check.reads_the_same is False:
        differs = "reads other tokens out of a text than the run does"
    elif not check.largest_difference <= check.allowed:
        differs = f"gives other numbers than the network, by {check.largest_difference:.3g}"
    elif check.says_the_same is False:
        differs = "goes on with another text than the network"
    else:
        return
    raise PellucidError(
        f"{check.tool} {differs}, so nothing was written", fix="Please report this with the run's settings"
    )


def _notes(subject: Subject, asked: ExportOptions, check: ExportCheck) -> tuple[Statement, ...]:
    notes = []
    parts = subject.report.parts
    if asked.network_only and parts is not None:
        notes.append(make_note("exported-alone", alone=parts.alone, both=parts.both, n=parts.n_tokens))
    if check.missing:
        notes.append(make_note("export-unchecked", tool=check.missing, file=asked.to))
    return tuple(notes)


def _find_format(to: str) -> Format:
    found: Format = importlib.import_module(f"pellucid.export.{to}_format")
    return found


def require_installed(extra: str, packages: tuple[str, ...]) -> None:
    """Refuse with the one line that installs what is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise PellucidError(
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed",
            fix=f"Type pip install 'pellucid[{extra}]'",
        )


def _require_place(place: Path) -> None:
    _require_free(place)
    if not place.parent.is_dir():
        raise PellucidError(f"there is no folder {quoted(str(place.parent))}", fix="Make it first")


def _require_free(place: Path) -> None:
    if os.path.lexists(place):
        raise PellucidError(
            f"{quoted(str(place))} exists already, and nothing is ever overwritten",
            fix="Choose another folder with {out}",
            options={"out": None},
        )


def _require_exportable(run: Run, asked: ExportOptions) -> None:
    if run.model in COUNT_MODELS:
        raise PellucidError(
            f"{run.name} is a run of {run.model}, which only counts: it has no network to export",
            fix="Train a network, which starts from the same counts",
        )
    if run.model == OPENED.name and (asked.to != "hf" or not run.is_finished):
        raise PellucidError(
            f"{run.name} was opened from a Hugging Face folder, and is in that form already"
            if asked.to == "hf"
            else f"{run.name} is a model of transformers, and {asked.to} is for networks that were built here",
            fix="Train on from it, and export that run to hf",
        )
    run.require_finished()
    if asked.network_only and run.start != "counts":
        raise PellucidError(
            f"{{network_only}} changes nothing for {run.name}, which does not start from counting",
            fix="Leave it out",
            options={"network_only": None},
        )
    if asked.network_only and run.report().ending.best_step == 0:
        raise PellucidError(
            f"the network of {run.name} adds nothing to counting, so without counts nothing is left of it",
            fix="Leave {network_only} out",
            options={"network_only": None},
        )


def require_without_counts(run: Run, to: str, *, is_network_only: bool) -> None:
    """Refuse a run on counting where the format has no place for counts."""
    if run.start == "counts" and not is_network_only:
        raise PellucidError(
            f"{run.name} adds up counts and a network, and {to} has no place for counts",
            fix="Train it with {start}, add {network_only}, or export to onnx or torch, which hold both",
            options={"start": "scratch", "network_only": None},
        )


def require_sequences(run: Run, to: str) -> None:
    """Refuse a run whose network does not go on with a text."""
    if run.kind not in ("list", "text"):
        raise PellucidError(
            f"{to} holds networks that go on with a text, and {run.name} is {with_article(run.model)} of {run.kind}",
            fix="Export it to onnx or torch",
        )
