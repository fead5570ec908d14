"""What a run's folder says about its network, without the network: no torch, so that a mistake is answered at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pellucid import runs
from pellucid.data import ListData, TextData, Vocabulary, open_data, vocabulary_from_json
from pellucid.data.prepare import encode_text
from pellucid.data.splits import FRACTIONS
from pellucid.data.splits.assignment import split_list
from pellucid.decoding.novelty import Known
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import find_network
from pellucid.records import DataFacts, Ladder
from pellucid.records.plain import from_plain
from pellucid.runs.disk import Damaged, read_regular
from pellucid.training.sources import found_again

LARGEST_VOCABULARY = 64 << 20
READING = ("source", "kind", "encoding", "newlines")
MOST_SEARCHED = 20_000_000  # tokens of running text in which copies are looked for


@dataclass(frozen=True)
class Seen:
    """What samples are compared with."""

    items: Known | None = None  # of a list
    text: str = ""  # of running text: its train side
    note: str = ""  # why there is nothing to compare with


@dataclass(frozen=True)
class StoredRun:
    """A run as its files describe it."""

    path: Path
    record: Mapping[str, Any]
    data: DataFacts
    vocabulary: Vocabulary

    @property
    def is_list(self) -> bool:
        return self.vocabulary.has_boundary

    @property
    def opening(self) -> int:
        """The token that stands before the first: of a list the boundary, of a text a line break.

        A text without line breaks begins after a space, and one without either after its first symbol.
        """
        if self.is_list:
            return 0
        tokens = self.vocabulary.tokens
        marks = ("\n", "<0A>", " ")  # as characters and words have it, as bytes do
        return next((tokens.index(mark) for mark in marks if mark in tokens), 0)

    @cached_property
    def baselines(self) -> tuple[tuple[str, float], ...]:
        """What counting reached on dev; nothing until the run is finished."""
        if not runs.is_finished(self.path):
            return ()
        ladder = from_plain(Ladder, runs.read_ending(self.path)["ending"]["ladder"])
        counted = sorted((rung for rung in ladder.rungs if rung.is_counted), key=lambda rung: -rung.dev)
        return tuple((rung.name, rung.dev) for rung in counted)

    @cached_property
    def seen(self) -> Seen:
        """What the network was trained on, opened again, if it is still there and the same."""
        reading = self.record["reading"]
        try:
            source = found_again(self.path, str(reading["source"]), self.data.fingerprint)
            data = open_data(source, kind=reading["kind"], encoding=reading["encoding"], newlines=reading["newlines"])
        except PellucidError as error:
            return Seen(note=f"what is new is not known: {error.what}")
        if data.fingerprint != self.data.fingerprint:
            return Seen(note=f"what is new is not known: {data.name} is not what the run was trained on any more")
        if isinstance(data, ListData):
            split = split_list(data.items)
            return Seen(Known(split.train, split.dev))
        assert isinstance(data, TextData)
        tokens = encode_text(data, self.vocabulary).tokens
        train = tokens[: int(len(tokens) * FRACTIONS[0])]
        if len(train) > MOST_SEARCHED:
            return Seen(note=f"what was copied is not known: train has {len(train):,} tokens")
        return Seen(text=self.vocabulary.decode(train.tolist()))


def stored_run(path: Path) -> StoredRun:
    """The files of a run that say what its network is; whatever does not fit together is refused."""
    record = runs.read_record(path)
    require_sequences(path, record)
    try:
        name, vocab_size = str(record["model"]), int(record["config"]["vocab_size"])
        data = from_plain(DataFacts, record["data"])
        if not all(isinstance(record["reading"][name], str) for name in READING):
            raise ValueError("how its data were read is not told")
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(
            f"run.json of {quoted(path.name)} does not describe a network: {error}",
            fix="Take it from a copy of the run",
        ) from error
    find_network(name, "list")
    vocabulary = stored_vocabulary(path)
    if len(vocabulary) != vocab_size:
        raise PellucidError(
            f"the network of {quoted(path.name)} has {vocab_size:,} symbols and vocabulary.json {len(vocabulary):,}",
            fix="Take both from a copy of the run",
        )
    return StoredRun(path, record, data, vocabulary)


def kind_of(record: Mapping[str, Any]) -> str:
    """The kind of data that a run was trained on; "" where its record does not tell."""
    data = record.get("data")
    return str(data.get("kind", "")) if isinstance(data, Mapping) else ""


def require_sequences(path: Path, record: Mapping[str, Any]) -> None:
    """Refuse a run whose network does not speak."""
    kind = kind_of(record)
    if kind in ("table", "images", "pairs"):
        raise PellucidError(
            f"the network of {quoted(path.name)} reads {'tables' if kind == 'table' else kind}, and only answers",
            fix=f"Try pellucid predict {path.name} FILE",
        )


def stored_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a run."""
    try:
        content = json.loads(read_regular(path / "vocabulary.json", LARGEST_VOCABULARY).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(
            f"vocabulary.json of {quoted(path.name)} cannot be read", fix="Take it from a copy of the run"
        ) from error
    return vocabulary_from_json(content)
