"""What a run needs besides its network: where its data are, its vocabulary, its preparation, what it was trained on.

No torch is loaded, so that a mistake is answered at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pellucid.data import ListData, TextData, Vocabulary, vocabulary_from_json
from pellucid.data.options import DataOptions, open_with
from pellucid.data.pair_vocabularies import PairVocabulary, pair_vocabulary_from_json
from pellucid.data.prepare import encode_text
from pellucid.data.prepare.tokens import text_cuts
from pellucid.data.readers.memory import MEMORY
from pellucid.data.sets import is_dataset
from pellucid.data.splits.assignment import split_list, training_sides
from pellucid.data.splits.hashing import Words
from pellucid.decoding.novelty import Known
from pellucid.errors import PellucidError, quoted
from pellucid.records import Statement, make_note
from pellucid.records.plain import from_plain
from pellucid.runs import Damaged, Run, damage_in
from pellucid.runs.disk import is_regular
from pellucid.runs.run import RunRecord, require_fields
from pellucid.training.optimizers import OPTIMIZERS, SCHEDULES
from pellucid.training.options import LOSSES, PENALTIES, TrainOptions

if TYPE_CHECKING:
    from pellucid.data.prepare import Preparation

AnyVocabulary = TypeVar("AnyVocabulary", bound=Vocabulary)
AnyOptions = TypeVar("AnyOptions", DataOptions, TrainOptions)
STANDARD_INPUT = "-"
_NOT_KEPT = {STANDARD_INPUT: "by standard input", MEMORY: "from Python's memory"}
TRAINED_ON = "trained-on.bin"  # hashes of the rows or images of train
LARGEST_TRAINED_ON = 1 << 30
MOST_SEARCHED = 20_000_000  # tokens of running text in which copies are looked for


def source_from_run(source: str, folder: Path) -> str:
    """The data as a run remembers them: a set's name, or a path from the run's folder, never an absolute one.

    >>> source_from_run("names", Path("runs/first")), source_from_run("data/own.txt", Path("runs/first"))
    ('names', '../../data/own.txt')
    """
    if source in _NOT_KEPT or is_dataset(source):
        return source
    return os.path.relpath(os.path.abspath(source), os.path.abspath(folder))


def find_source(run: Run) -> str:
    """What to open now for what the run remembers; that it is still the same is another question."""
    source = str(run.record["reading"]["source"])
    gone = f"it had sha256 {str(run.record['data']['fingerprint'])[:12]}…"
    if is_dataset(source):
        return source
    if source in _NOT_KEPT:
        raise PellucidError(
            f"the data of {run.name} came {_NOT_KEPT[source]}; {gone}",
            fix="Pass them with {data}",
            options={"data": "FILE"},
        )
    # A run may come from someone else: it names no file but one near itself.
    if os.path.isabs(source) or not (run.path / source).exists():
        raise PellucidError(
            f"the data file of {run.name} is gone; {gone}", fix="Pass it with {data}", options={"data": "FILE"}
        )
    return os.path.normpath(run.path / source)


def run_name_for(source: str) -> str:
    """What a run on these data is called, unless it is given a name.

    >>> run_name_for("data/own.txt"), run_name_for("-"), run_name_for(":memory:"), run_name_for("house-numbers:n=20000")
    ('own', 'data', 'data', 'house-numbers')
    """
    word = source.partition(":")[0]
    return "data" if word == STANDARD_INPUT else PurePath(word).stem or "data"


def data_options_of(run: Run, source: str) -> DataOptions:
    """How the data of a run are read, from where they are now."""
    return _options_from(run, DataOptions, "reading", {"source": source})


def require_resumable(run: Run) -> None:
    """Refuse a record whose options could not have been asked for, naming the field; nothing heavy is loaded."""
    require_fields(run, *RunRecord._fields)
    _options_from(run, TrainOptions, "asked", {})
    _options_from(run, DataOptions, "reading", {})
    plan = run.plan
    known = {"optimizer": OPTIMIZERS, "schedule": SCHEDULES, "loss": LOSSES, "penalty": ("", *PENALTIES)}
    for name, names in known.items():
        if getattr(plan, name) not in names:
            raise damage_in(run.path, "run.json", f"plan.{name} cannot be {ascii(getattr(plan, name))[:40]}")


def _options_from(run: Run, kind: type[AnyOptions], name: str, changes: Mapping[str, object]) -> AnyOptions:
    """Options as a run's record has them, each of its own type and within its own bounds."""
    try:
        require_fields(run, name)
        return from_plain(kind, {**run.record[name], **changes})
    except ValueError as error:
        why = f"{name}.{str(error).removeprefix(f'{kind.__name__}.')}"
    except PellucidError as error:
        why = f"{name}: {error.what}"
    raise damage_in(run.path, "run.json", why)


def load_vocabulary(run: Run) -> Vocabulary:
    """The vocabulary of a run of sequences."""
    return _require_size(run, vocabulary_from_json(run.read_json("vocabulary.json")))


def load_pair_vocabulary(run: Run) -> PairVocabulary:
    """The vocabulary of a run of pairs."""
    return _require_size(run, pair_vocabulary_from_json(run.read_json("vocabulary.json")))


def _require_size(run: Run, vocabulary: AnyVocabulary) -> AnyVocabulary:
    vocab_size = run.config.get("vocab_size")
    if len(vocabulary) != vocab_size:
        raise PellucidError(
            f"the network of {quoted(run.name)} has {vocab_size:,} symbols and vocabulary.json {len(vocabulary):,}",
            fix="Take both from a copy of the run",
        )
    return vocabulary


def load_preparation(run: Run) -> Preparation:
    """How a run turns tables or images into numbers."""
    from pellucid.data.prepare import preparation_from_json

    preparation = preparation_from_json(run.read_json("preparation.json"))
    if preparation.kind != run.kind:
        raise Damaged(f"the files of {quoted(run.name)} do not belong together", fix="Take them from a copy")
    return preparation


def load_trained_on(run: Run) -> Words:
    """The hashes of the rows or images that a run learned from; none of a run that was made before they were kept."""
    is_kept = TRAINED_ON in (run.record.get("files") or {}) or is_regular(run.path / TRAINED_ON)
    content = run.read_file(TRAINED_ON, LARGEST_TRAINED_ON) if is_kept else b""
    return np.frombuffer(content[: len(content) // 8 * 8], dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class KnownData:
    """What samples are compared with: the data that a model was trained on."""

    items: Known | None = None  # of a list
    text: str = ""  # of running text: its train side
    notes: tuple[Statement, ...] = ()  # why there is nothing to compare with


def load_known_data(run: Run, vocabulary: Vocabulary) -> KnownData:
    """The data of a run, opened again, if they are still there and the same."""
    if not run.record.get("reading"):
        return KnownData(notes=(make_note("data-unknown"),))
    try:
        data = open_with(data_options_of(run, find_source(run)))
    except PellucidError as error:
        return KnownData(notes=(make_note("data-gone", error=error.what),))
    if data.fingerprint != run.data.fingerprint:
        return KnownData(notes=(make_note("data-changed", name=data.name),))
    if isinstance(data, ListData):
        split = split_list(data.items, divided=training_sides(data.items, data.divided_by, data.sides))
        return KnownData(Known(split.train, split.dev))
    assert isinstance(data, TextData)
    tokens = encode_text(data, vocabulary).tokens
    train = tokens[: int(len(tokens) * text_cuts(data)[0])]
    if len(train) > MOST_SEARCHED:
        return KnownData(notes=(make_note("train-too-long", n=len(train)),))
    return KnownData(text=vocabulary.decode(train.tolist()))
