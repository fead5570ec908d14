"""Opening data: a path, "-" for standard input, or the name of a set that comes with pellucid."""

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pellucid.cards import cards
from pellucid.data.card import DatasetCard
from pellucid.data.decoding import characters, refuse_wide, require_encoding, require_newlines, scan
from pellucid.data.inference import SAMPLE, TABLE_ENDINGS, Guess, guess_kind
from pellucid.data.kinds import FEWEST_ROWS, KINDS, Data
from pellucid.data.lists import read_list
from pellucid.data.magic import HEAD, is_parquet, refuse_foreign
from pellucid.data.pairs import read_pairs
from pellucid.data.sources import STDIN, Source, missing, open_source, refuse_addresses
from pellucid.data.texts import read_text
from pellucid.errors import PellucidError, did_you_mean, quoted


def datasets() -> dict[str, DatasetCard]:
    """The cards of all sets that come with pellucid."""
    return cards("pellucid.data.sets", "DATASET", DatasetCard)


def quiet(_: str) -> None:
    """Tells nobody how far the reading is."""


def open_data(
    source: str | Path,
    *,
    kind: str = "",
    encoding: str = "utf-8",
    separator: str = "",
    newlines: str = "keep",
    missing_values: str = "usual",
    as_number: Sequence[str] = (),
    skip_bad: bool = False,
    skip_empty: bool = False,
    fewest_rows: int = FEWEST_ROWS,
    progress: Callable[[str], None] = quiet,
) -> Data:
    """Open a file, a folder, standard input or an embedded set, and say in one line what it was taken for.

    kind            "list", "text", "table", "pairs" or "images"; "" looks and decides
    separator       of a table, one character; "" looks: a comma, or a tab in .tsv
    newlines        "keep", or "unix" to make every line end LF
    missing_values  of a table: "usual" (see pellucid.data.columns.MISSING) or "empty" for empty cells alone
    as_number       names of columns to read as numbers in spite of $, % and thousands separators
    fewest_rows     that a table must have; 2 for what is to be learned from, 1 for a single new row
    skip_bad        leave out images that cannot be read; skip_empty leaves out class folders without images

    >>> open_data("names").said
    'names: a list of 30,000 items (comes with pellucid)'
    """
    if kind and kind not in KINDS:
        fix = did_you_mean(kind, KINDS)
        raise PellucidError(f"there is no kind of data called {quoted(kind)}", fix=fix)
    require_newlines(newlines)
    encoding = require_encoding(encoding)
    text = str(source)
    is_bare = isinstance(source, str) and not any(mark in text for mark in (os.sep, "/", "."))
    if is_bare and text != STDIN and is_set(text):
        return _embedded(text, kind)
    path = Path(source)
    if text != STDIN:
        refuse_addresses(text)
        if not text.strip():
            raise PellucidError("the path is empty", fix="Give the path of a file, or the name of a set such as names")
        if not os.path.lexists(os.fspath(path).replace("\0", "")):
            raise missing(path, also=tuple(datasets()) if is_bare else ())
        if kind == "images" or (not kind and path.is_dir()):
            from pellucid.data.images import open_images

            return open_images(path, skip_bad=skip_bad, skip_empty=skip_empty, progress=progress)
    opened = open_source(source if text == STDIN else path)
    if opened.size == 0:
        raise PellucidError(f"{opened.name} is empty", fix="Check that it is the file you meant")
    head = opened.read(0, HEAD)
    guess = Guess(kind, "")
    if is_parquet(head):
        if kind not in ("", "table"):
            raise PellucidError(f"{opened.name} is a Parquet file", fix="Try --kind table")
        guess = Guess("table", "a Parquet file")
    else:
        refuse_foreign(head, opened.name)
        if not kind and path.suffix.lower() in TABLE_ENDINGS:
            guess = Guess("table", f"its name ends in {path.suffix.lower()}")
    if guess.kind == "table":
        return _table(opened, path, guess, encoding, separator, missing_values, as_number, fewest_rows)
    found = scan(opened, encoding)
    refuse_wide(opened, encoding, found)
    if not guess.kind:
        sample = next(iter(characters(opened, encoding)), "")
        guess = guess_kind(sample[:SAMPLE], is_all=found.n_characters <= SAMPLE)
        if guess.kind == "table":
            return _table(opened, path, guess, encoding, separator, missing_values, as_number, fewest_rows)
    if guess.kind == "list":
        return read_list(opened, found, encoding=encoding, newlines=newlines, because=guess.because)
    if guess.kind == "pairs":
        return read_pairs(opened, found, encoding=encoding, newlines=newlines, because=guess.because)
    return read_text(opened, found, encoding=encoding, newlines=newlines, because=guess.because)


def _table(
    source: Source,
    path: Path,
    guess: Guess,
    encoding: str,
    separator: str,
    missing_values: str,
    as_number: Sequence[str],
    fewest_rows: int,
) -> Data:
    from pellucid.data.tables import read_table

    return read_table(
        source,
        ending=path.suffix.lower(),
        because=guess.because,
        encoding=encoding,
        separator=separator,
        missing_values=missing_values,
        as_number=tuple(as_number),
        fewest_rows=fewest_rows,
    )


def is_set(source: str) -> bool:
    """Whether this names a set that comes with pellucid, perhaps with settings behind a colon.

    >>> is_set("house-numbers:n=500"), is_set("house.csv")
    (True, False)
    """
    return source.partition(":")[0] in datasets()


def _embedded(source: str, kind: str) -> Data:
    """The set of this name, as large as it was asked for: `house-numbers:n=20000,seed=1`."""
    name, _, wishes = source.partition(":")
    card = datasets()[name]
    loaders = {card.kind: card.load, **card.also}
    if kind and kind not in loaders:
        raise PellucidError(f"the data set {card.name} is a {card.kind}", fix=f"Try --kind {' or '.join(loaders)}")
    load = loaders[kind or card.kind]
    data = load(**_settings(name, wishes, load))
    if os.path.lexists(card.name):
        note = f"the set that comes with pellucid, not the file; for the file write ./{card.name}"
        data = replace(data, notes=(note, *data.notes))
    return data


def _settings(name: str, wishes: str, load: Callable[..., Data]) -> dict[str, int | bool]:
    """What stands behind the colon: whole numbers, true or false, for settings that the set has."""
    known = list(inspect.signature(load).parameters)
    found: dict[str, int | bool] = {}
    for wish in wishes.split(",") if wishes else ():
        word, _, value = wish.partition("=")
        if word not in known:
            fix = did_you_mean(word, known, f"It has {', '.join(known)}, as in {name}:n=500")
            raise PellucidError(f"{quoted(word)} is no setting of {name}", fix=fix)
        if value in ("true", "false"):
            found[word] = value == "true"
        elif value.isascii() and value.isdigit() and len(value) <= 9:
            found[word] = int(value)
        else:
            raise PellucidError(f"{word} of {name} is {quoted(value)}", fix=f"Give a whole number, as {word}=500")
    return found
