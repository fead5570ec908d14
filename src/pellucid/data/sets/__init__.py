"""The sets that come with pellucid, one file each, so that everything runs without a network; their card, and what they
share. A file here that ends with DATASET is a set: nothing else has to be told of it.
"""

import gzip
import hashlib
import inspect
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from pellucid.cards import cards
from pellucid.data.kinds import Column, Data, PairsData, TableData
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.records import make_note

if TYPE_CHECKING:
    import numpy
    import polars

SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of generated sequences
LONGEST_SEQUENCE = 1_000
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True)
class DatasetCard:
    """A data set that comes with pellucid: what it is, where its facts come from, and how to get it.

    `load(seed=0, n=...)` gives the data; n is how many rows, items or images, and a generator makes as many as it is
    asked for. A set that is not generated ignores the seed. Some sets take more, such as transactions(drift=True).
    """

    name: str
    kind: str
    summary: str  # one sentence
    source: str  # where its facts come from
    licence: str
    is_generated: bool
    load: Callable[..., Data]
    also: Mapping[str, Callable[..., Data]] = field(default_factory=dict)  # other kinds it can be read as


def datasets() -> dict[str, DatasetCard]:
    """The cards of all sets that come with pellucid."""
    return cards("pellucid.data.sets", "DATASET", DatasetCard)


def is_dataset(source: str) -> bool:
    """Whether this names a set that comes with pellucid, perhaps with settings behind a colon.

    >>> is_dataset("house-numbers:n=500"), is_dataset("xor:noise=0.1"), is_dataset("house.csv")
    (True, True, False)
    """
    return source.partition(":")[0] in datasets()


def load_dataset(source: str, kind: str = "") -> Data:
    """The set of this name, as large as it was asked for: `house-numbers:n=20000,seed=1`."""
    name, _, settings = source.partition(":")
    card = datasets()[name]
    loaders = {card.kind: card.load, **card.also}
    if kind and kind not in loaders:
        raise PellucidError(
            f"the data set {card.name} is a {card.kind}", fix=f"It can be read as {' or '.join(loaders)}"
        )
    load = loaders[kind or card.kind]
    data = load(**_settings(name, settings, load))
    if os.path.lexists(card.name):
        data = replace(data, notes=(make_note("set-not-file", name=card.name), *data.notes))
    return data


def _settings(name: str, text: str, load: Callable[..., Data]) -> dict[str, int | float | bool]:
    """What stands behind the colon: numbers, true or false, for settings that the set has.

    >>> from pellucid.data.sets.xor import load
    >>> _settings("xor", "n=40,noise=0.1", load)
    {'n': 40, 'noise': 0.1}
    """
    known = inspect.signature(load).parameters
    found: dict[str, int | float | bool] = {}
    for setting in text.split(",") if text else ():
        word, _, value = setting.partition("=")
        if word not in known:
            fix = did_you_mean(word, list(known), f"It has {', '.join(known)}, as in {name}:n=500")
            raise PellucidError(f"{quoted(word)} is no setting of {name}", fix=fix)
        if value in ("true", "false") and isinstance(known[word].default, bool):
            found[word] = value == "true"
        elif value.isascii() and value.isdigit() and len(value) <= 9:
            found[word] = int(value)
        elif isinstance(known[word].default, float):
            if not _DECIMAL.fullmatch(value):
                raise PellucidError(f"{word} of {name} is {quoted(value)}", fix=f"Give a number, as {word}=0.1")
            found[word] = float(value)
        else:
            raise PellucidError(f"{word} of {name} is {quoted(value)}", fix=f"Give a whole number, as {word}=500")
    return found


def read_embedded(name: str) -> bytes:
    """The unpacked content of a file that is shipped in data/embedded."""
    return gzip.decompress((resources.files("pellucid.data") / "embedded" / name).read_bytes())


def require_count(n: int, noun: str, most: int) -> None:
    """Refuse a number of examples that is none or that no machine holds."""
    if not 1 <= n <= most:
        raise PellucidError(f"{n:,} {noun} cannot be made", fix=f"Ask for 1 to {most:,}")


def draw_sequences(seed: int, n: int, n_symbols: int, shortest: int, longest: int) -> list[str]:
    """n different sequences of the first symbols, their lengths drawn first; half of all that there are, at most.

    >>> draw_sequences(seed=0, n=3, n_symbols=4, shortest=1, longest=6)
    ['DBBC', 'DDDB', 'CB']
    """
    if not 2 <= n_symbols <= len(SYMBOLS):
        raise PellucidError(f"{n_symbols} symbols cannot be used", fix=f"Choose 2 to {len(SYMBOLS)}")
    if not 1 <= shortest <= longest <= LONGEST_SEQUENCE:
        lengths = f"{longest:,}" if shortest == longest else f"{shortest:,} to {longest:,}"
        raise PellucidError(
            f"sequences of {lengths} symbols cannot be drawn",
            fix=f"Choose lengths from 1 to {LONGEST_SEQUENCE:,}, the shortest first",
        )
    possible = sum(n_symbols**length for length in range(shortest, longest + 1))
    if not 1 <= n <= possible // 2:
        raise PellucidError(
            f"{n:,} different sources cannot be drawn from {possible:,}", fix=f"Ask for 1 to {possible // 2:,}"
        )
    draw = random.Random(seed)
    drawn: dict[str, None] = {}
    while len(drawn) < n:
        length = draw.randint(shortest, longest)
        drawn.setdefault("".join(draw.choices(SYMBOLS[:n_symbols], k=length)))
    return list(drawn)


def generated_pairs(name: str, pairs: Sequence[tuple[str, str]], because: str) -> PairsData:
    """Pairs that a generator made. Targets are written letter by letter, since their symbols are what is learned."""
    content = "\n".join(f"{source}\t{target}" for source, target in pairs)
    return PairsData(
        name=name,
        pairs=list(pairs),
        because=because,
        fingerprint=hashlib.sha256(content.encode()).hexdigest(),
        targets="letters",
    )


def fingerprint_of(*arrays: "numpy.ndarray[Any, Any]") -> str:
    """sha256 over the shapes, types and contents of arrays."""
    import numpy

    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(numpy.ascontiguousarray(array).data)
    return digest.hexdigest()


def dataset_table(
    name: str, frame: "polars.DataFrame", kinds: Mapping[str, str], because: str, fingerprint: str, *, target: str = ""
) -> TableData:
    """A set that is a table without gaps. kinds: of each column, as "numeric"; target: what it is there to predict."""
    return TableData(
        name=name,
        frame=frame,
        columns=tuple(Column(column, kind, 0) for column, kind in kinds.items()),
        because=because,
        fingerprint=fingerprint,
        row_word="row",
        target=target,
    )
