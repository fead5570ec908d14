"""New examples for the network of a run: read and checked without torch, so that a mistake is answered at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.data import ListData, PairsData, TableData, open_data, require_kind
from pellucid.data.kinds import KINDS
from pellucid.data.readers.sources import missing_file
from pellucid.data.sets import is_dataset
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import find_network
from pellucid.runs import Run
from pellucid.training.run_data import load_preparation, load_vocabulary

if TYPE_CHECKING:
    import numpy


IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


@dataclass(frozen=True)
class NewExamples:
    """New examples for the network of a run, as it reads them."""

    names: list[str]
    numbers: numpy.ndarray[Any, Any] | None = None
    codes: numpy.ndarray[Any, Any] | None = None
    sources: list[list[int]] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)  # where they are known
    notes: tuple[str, ...] = ()


def require_answers(run: Run) -> None:
    """Refuse a run whose network goes on with a text and predicts nothing."""
    if run.kind in ("list", "text"):
        raise PellucidError(
            f"the network of {quoted(run.name)} goes on with {KINDS[run.kind].noun}, and predicts no class",
            fix=f"Try pellucid sample {run.name}, or pellucid score {run.name} TEXT",
        )
    find_network(run.model, run.kind)


def read_examples(
    run: Run, files: Sequence[str], *, text: str = "", encoding: str = "utf-8", separator: str = ""
) -> NewExamples:
    """What a run's network is to predict: images, the rows of tables, or sources of pairs."""
    require_answers(run)
    if run.kind == "pairs":
        return _read_sources(run, files, text, encoding)
    if text:
        raise PellucidError(
            f"{{text}} is for pairs, and {quoted(run.name)} reads {run.kind}",
            fix="Leave it out",
            options={"text": None},
        )
    if not files:
        raise PellucidError("FILE is missing", fix=f"Give {'an image' if run.kind == 'images' else 'a table'}")
    return _read_images(run, files) if run.kind == "images" else _read_rows(run, files, encoding, separator)


def _read_images(run: Run, files: Sequence[str]) -> NewExamples:
    import numpy as np

    from pellucid.data.prepare import ImagePreparation

    preparation = load_preparation(run)
    assert isinstance(preparation, ImagePreparation)
    found = [one for word in files for one in _image_files(Path(word))]
    paths, truths = [path for path, _ in found], [truth for _, truth in found]
    numbers = preparation.read(preparation.pixels_of(paths))
    # A name may hold bytes that are no text; they are shown, and nothing is lost.
    names = [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths]
    known = truths if all(truth in preparation.classes for truth in truths) else []
    return NewExamples(names, numbers, np.zeros((len(paths), 0), dtype=np.int64), truths=known)


def _image_files(path: Path) -> list[tuple[Path, str]]:
    """The file itself, or the images of a folder or of its class folders, in the order of the bytes of their names.

    Each with its class, where it stands in a class folder; else "".
    """
    if not os.path.lexists(path):
        raise missing_file(path)
    if not path.is_dir():
        if not path.is_file():
            raise PellucidError(f"{quoted(str(path))} is not a regular file", fix="Give an image, or a folder of them")
        return [(path, "")]
    inside = sorted(path.iterdir(), key=os.fsencode)
    found = [(one, "") for one in inside if _is_image(one)]
    if not found:
        folders = [one for one in inside if one.is_dir() and not one.is_symlink()]
        found = [(one, folder.name) for folder in folders for one in sorted(folder.iterdir(), key=os.fsencode)]
        found = [(one, label) for one, label in found if _is_image(one)]
    if not found:
        raise PellucidError(f"{quoted(str(path))} holds no image", fix=f"It should hold {', '.join(IMAGES[:3])} files")
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGES and path.is_file()


def _read_rows(run: Run, files: Sequence[str], encoding: str, separator: str) -> NewExamples:
    import numpy as np

    from pellucid.data.prepare import TablePreparation

    preparation = load_preparation(run)
    assert isinstance(preparation, TablePreparation)
    names: list[str] = []
    truths: list[str] = []
    notes: list[str] = []
    numbers, codes = [], []
    for word in files:
        table = open_data(word, kind="table", encoding=encoding, separator=separator, fewest_rows=1)
        assert isinstance(table, TableData)
        read = preparation.read(table)
        where = f"{table.name} " * (len(files) > 1)
        names += [f"{where}{table.place_of(row)}" for row in range(len(table))]
        numbers.append(read.numbers)
        codes.append(read.codes)
        notes += read.notes
        if read.n_unknown:
            notes.append(f"{read.n_unknown:,} cells hold a category that the network was not trained on")
        has_truth = preparation.target in table.frame.columns and not table.frame[preparation.target].null_count()
        truths += [str(value) for value in table.frame[preparation.target]] if has_truth else []
    known = truths if len(truths) == len(names) else []
    return NewExamples(names, np.concatenate(numbers), np.concatenate(codes), truths=known, notes=tuple(notes))


def _read_sources(run: Run, files: Sequence[str], text: str, encoding: str) -> NewExamples:
    vocabulary = load_vocabulary(run)
    names, truths = [text] if text else [], []
    for word in files:
        data = (
            open_data(word, encoding=encoding) if is_dataset(word) else open_data(word, kind="list", encoding=encoding)
        )
        if isinstance(data, PairsData):
            pairs = data.pairs
        else:
            require_kind(data, "list")
            assert isinstance(data, ListData)
            pairs = [(source, target) for source, _, target in (item.partition("\t") for item in data.items)]
        names += [source for source, _ in pairs]
        truths += [target for _, target in pairs if target]
    if not names:
        raise PellucidError(
            "there is no source to answer", fix="Give a FILE with one a line, or {text}", options={"text": "SOURCE"}
        )
    sources = [vocabulary.encode(name, "error") for name in names]
    longest = int(run.config.get("longest_source", 0))
    long = next((name for name, source in zip(names, sources, strict=True) if len(source) > longest), "")
    if long:
        raise PellucidError(
            f"the source {quoted(long, 40)} has {len(long):,} letters, and the network reads {longest:,}",
            fix="Shorten it, or train on longer ones",
        )
    return NewExamples(names, sources=sources, truths=truths if len(truths) == len(names) else [])
