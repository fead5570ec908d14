"""New examples for a trained network: read and checked without torch, so that a mistake is answered at once."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid import runs
from pellucid.data import ListData, PairsData, TableData, Vocabulary, open_data, require_kind
from pellucid.data.kinds import KINDS
from pellucid.data.readers.sources import missing_file
from pellucid.data.sets import is_dataset
from pellucid.errors import PellucidError, quoted
from pellucid.runs.disk import Damaged, read_regular
from pellucid.training.options import require_network
from pellucid.training.stored import kind_of, stored_vocabulary

if TYPE_CHECKING:
    import numpy

    from pellucid.data.prepare import Preparation

LARGEST_PREPARATION = 64 << 20
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


@dataclass(frozen=True)
class Answering:
    """A run whose network answers, as its files describe it."""

    path: Path
    record: dict[str, Any]
    kind: str  # table, images or pairs
    preparation: Preparation | None = None  # of tables and images
    vocabulary: Vocabulary | None = None  # of pairs


@dataclass(frozen=True)
class Questions:
    """New examples, as a network reads them."""

    names: list[str]
    numbers: numpy.ndarray[Any, Any] | None = None
    codes: numpy.ndarray[Any, Any] | None = None
    sources: list[list[int]] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)  # where they are known
    notes: tuple[str, ...] = ()


def answering_run(path: Path) -> Answering:
    """A run's record and what its network needs to read new examples; a run that only speaks is refused."""
    record = runs.read_record(path)
    kind = kind_of(record)
    if kind in ("list", "text"):
        raise PellucidError(
            f"the network of {quoted(path.name)} goes on with {'a list' if kind == 'list' else 'a text'}, and predicts "
            "no class",
            fix=f"Try pellucid sample {path.name}, or pellucid score {path.name} TEXT",
        )
    if kind not in KINDS or not isinstance(record.get("config"), dict):
        raise Damaged(f"run.json of {quoted(path.name)} does not describe a network", fix="Take it from a copy")
    require_network(str(record.get("model")), kind)
    if kind == "pairs":
        return Answering(path, dict(record), kind, vocabulary=stored_vocabulary(path))
    from pellucid.data.prepare import preparation_from_json

    try:
        content = json.loads(read_regular(path / "preparation.json", LARGEST_PREPARATION).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(
            f"preparation.json of {quoted(path.name)} cannot be read", fix="Take it from a copy of the run"
        ) from error
    preparation = preparation_from_json(content)
    if preparation.kind != kind:
        raise Damaged(f"the files of {quoted(path.name)} do not belong together", fix="Take them from a copy")
    return Answering(path, dict(record), kind, preparation=preparation)


def questions(
    run: Answering, files: Sequence[str], *, text: str = "", encoding: str = "utf-8", separator: str = ""
) -> Questions:
    """What is asked of a run's network: images, the rows of tables, or sources of pairs."""
    if run.kind == "pairs":
        return _sources(run, files, text, encoding)
    if text:
        raise PellucidError(f"--text is for pairs, and {quoted(run.path.name)} reads {run.kind}", fix="Leave it out")
    if not files:
        raise PellucidError("FILE is missing", fix=f"Give {'an image' if run.kind == 'images' else 'a table'}")
    return _images(run, files) if run.kind == "images" else _rows(run, files, encoding, separator)


def _images(run: Answering, files: Sequence[str]) -> Questions:
    import numpy as np

    from pellucid.data.prepare import ImagePreparation

    assert isinstance(run.preparation, ImagePreparation)
    found = [one for word in files for one in _image_files(Path(word))]
    paths, truths = [path for path, _ in found], [truth for _, truth in found]
    numbers = run.preparation.read(run.preparation.pixels_of(paths))
    # A name may hold bytes that are no text; they are shown, and nothing is lost.
    names = [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths]
    known = truths if all(truth in run.preparation.classes for truth in truths) else []
    return Questions(names, numbers, np.zeros((len(paths), 0), dtype=np.int64), truths=known)


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


def _rows(run: Answering, files: Sequence[str], encoding: str, separator: str) -> Questions:
    import numpy as np

    from pellucid.data.prepare import TablePreparation

    preparation = run.preparation
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
    return Questions(names, np.concatenate(numbers), np.concatenate(codes), truths=known, notes=tuple(notes))


def _sources(run: Answering, files: Sequence[str], text: str, encoding: str) -> Questions:
    assert run.vocabulary is not None
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
        raise PellucidError("there is no source to answer", fix="Give a FILE with one a line, or --text SOURCE")
    sources = [run.vocabulary.encode(name, "error") for name in names]
    longest = int(run.record["config"].get("longest_source", 0))
    long = next((name for name, source in zip(names, sources, strict=True) if len(source) > longest), "")
    if long:
        raise PellucidError(
            f"the source {quoted(long, 40)} has {len(long):,} letters, and the network reads {longest:,}",
            fix="Shorten it, or train on longer ones",
        )
    return Questions(names, sources=sources, truths=truths if len(truths) == len(names) else [])
