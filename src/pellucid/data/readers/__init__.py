"""Opening data: a path, "-" for standard input, or the name of a set that comes with pellucid.

What a file holds is told by its first bytes, else by the ending of its name, else by its first lines. Each format has a
file here: KINDS in kinds.py names the reader of each kind, TABLE_FORMATS those of tables.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pellucid.data.kinds import FEWEST_ROWS, KINDS, Data, ReadOptions, TableData, ignore_progress, load_named
from pellucid.data.readers.sources import (
    HEAD,
    STDIN,
    FileSource,
    Source,
    missing_file,
    read_standard_input,
    refuse_addresses,
    refuse_foreign,
    require_memory,
)
from pellucid.data.readers.text import characters, require_encoding
from pellucid.data.sets import datasets, is_dataset, load_dataset
from pellucid.errors import PellucidError, TooLarge, quoted, require_one_of

SAMPLE = 1 << 16
MOST_WORDS = 3.0  # an item of a list is a name or a phrase, not a sentence
LONGEST_ITEM = 80
MOST_COLUMNS = 20_000
FEWEST_PAIRS = 3
PAIR_SEPARATORS = {".tsv": "\t", ".tab": "\t", ".csv": ","}
USUAL_HEADERS = frozenset(
    ("source", "target", "input", "output", "word", "text", "label", "class", "category", "name", "id", "key", "value")
)
_NO_TEXT = re.compile(r"[-+.,/:\d\s$€£¥%]+")
_OBJECT = re.compile(r"\s*\{.*\}\s*$")


@dataclass(frozen=True)
class TableFormat:
    """A way to write a table into a file, told by the ending of its name or by its first bytes."""

    noun: str
    endings: tuple[str, ...]
    start: bytes
    reader: str  # module:function, called as read(source, options, because)
    is_binary: bool = False  # no text, whatever its first line looks like
    memory_factor: int = 0  # bytes of memory for each byte of the file; 0 where the reader asks itself


TABLE_FORMATS = (
    TableFormat("a Parquet file", (".parquet", ".pq"), b"PAR1", "pellucid.data.readers.parquet:read_parquet", True),
    # The bytes, their cells as texts, and the columns that are made of them.
    TableFormat(
        "JSON lines", (".jsonl", ".ndjson", ".json"), b"{", "pellucid.data.readers.jsonl:read_jsonl", memory_factor=5
    ),
    TableFormat(
        "separated values", (".csv", ".tsv", ".tab"), b"", "pellucid.data.readers.csv:read_csv", memory_factor=5
    ),
)
TABLE_ENDINGS = tuple(ending for one in TABLE_FORMATS for ending in one.endings)


def open_data(
    source: str | Path,
    *,
    kind: str = "",
    encoding: str = "utf-8",
    separator: str = "",
    newlines: str = "keep",
    missing_values: str = "usual",
    as_number: Sequence[str] = (),
    names_none: Sequence[str] | None = None,
    skip_bad: bool = False,
    skip_empty: bool = False,
    fewest_rows: int = FEWEST_ROWS,
    progress: Callable[[str], None] = ignore_progress,
) -> Data:
    """Open a file, a folder, standard input or an embedded set, and say in one line what it was taken for.

    kind            "list", "text", "table", "pairs" or "images"; "" looks and decides
    separator       of a table, one character; "" looks: a comma, or a tab in .tsv
    newlines        "keep", or "unix" to make every line end LF
    missing_values  of a table: "usual" (see pellucid.data.readers.columns.MISSING), where "None" and the like are a
                    category if they are frequent among words; "words" for always missing; "empty" for empty cells alone
    as_number       names of columns to read as numbers in spite of $, % and thousands separators
    names_none      columns in which "None" and the like are categories, where that is known; None looks
    fewest_rows     that a table must have; 2 for what is to be learned from, 1 for a single new row
    skip_bad        leave out images that cannot be read; skip_empty leaves out class folders without images

    >>> open_data("names").description
    'names: a list of 30,000 items (comes with pellucid)'
    """
    if kind:
        require_one_of("kind of data", kind, KINDS)
    options = ReadOptions(
        encoding=require_encoding(encoding),
        newlines=newlines,
        separator=separator,
        missing_values=missing_values,
        as_number=tuple(as_number),
        names_none=None if names_none is None else tuple(names_none),
        skip_bad=skip_bad,
        skip_empty=skip_empty,
        fewest_rows=fewest_rows,
        progress=progress,
    )
    text = str(source)
    if text != STDIN:
        # A point stands in the name of a file; behind a set's name it is that of a number, as in xor:noise=0.1.
        is_bare = isinstance(source, str) and not any(mark in text for mark in (os.sep, "/"))
        if is_bare and is_dataset(text) and ("." not in text or "=" in text):
            return load_dataset(text, kind)
        is_bare = is_bare and "." not in text
        _require_there(text, also=tuple(datasets()) if is_bare else ())
        if kind != "images" and os.path.isdir(source) and os.path.isfile(os.path.join(source, "split.json")):
            return _read_divided(Path(source), kind, options)
        if kind == "images" or (not kind and os.path.isdir(source)):
            return _read("images", Path(source), options)
    opened = read_standard_input() if text == STDIN else FileSource(Path(source))
    found = _guess(opened, kind, options.encoding)
    return _read(found.kind, opened, options, found.because)


def _read(kind: str, source: Source | Path, options: ReadOptions, because: str = "") -> Data:
    data: Data = load_named(KINDS[kind].reader)(source, options, because)
    return replace(data, is_file=True)


def _read_divided(folder: Path, kind: str, options: ReadOptions) -> Data:
    """A folder that `pellucid split` wrote."""
    from pellucid.data.readers.split_folder import read_split_folder

    data = read_split_folder(folder, options)
    if kind and kind != data.kind:
        raise PellucidError(
            f"{quoted(folder.name)} holds {KINDS[data.kind].noun} that was divided",
            fix="Leave {kind} out",
            options={"kind": None},
        )
    return data


def _require_there(text: str, also: tuple[str, ...]) -> None:
    refuse_addresses(text)
    if not text.strip():
        raise PellucidError("the path is empty", fix="Give the path of a file, or the name of a set such as names")
    if not os.path.lexists(text.replace("\0", "")):
        raise missing_file(Path(text), also=also)


def _guess(source: Source, kind: str, encoding: str) -> "KindGuess":
    """What a file holds, and how that is known; the asked kind where one is asked for and can be."""
    if source.size == 0:
        raise PellucidError(f"{source.name} is empty", fix="Check that it is the file you meant")
    head = source.read(0, HEAD)
    binary = next((one for one in TABLE_FORMATS if one.is_binary and head.startswith(one.start)), None)
    if binary:
        if kind not in ("", "table"):
            raise PellucidError(f"{source.name} is {binary.noun}", fix="Try {kind}", options={"kind": "table"})
        return KindGuess("table", binary.noun)
    refuse_foreign(head, source.name)
    if kind:
        return KindGuess(kind, "")
    separator = PAIR_SEPARATORS.get(source.ending, "")
    if separator and looks_like_pairs(source.read(0, SAMPLE).decode(encoding, "ignore"), separator):
        return KindGuess("pairs", "two columns of text, no header")
    if source.ending in TABLE_ENDINGS:
        return KindGuess("table", f"its name ends in {source.ending}")
    # No encoding takes more than four bytes for a character, so one piece is enough to see whether there are more.
    sample = next(iter(characters(source, encoding)), "")
    return guess_kind(sample[:SAMPLE], is_all=len(sample) <= SAMPLE)


class KindGuess(NamedTuple):
    kind: str
    because: str


def guess_kind(sample: str, is_all: bool) -> KindGuess:
    """The kind of data that begins with this sample; `is_all` says that nothing comes after it.

    >>> guess_kind("emma\\nolivia\\nava\\n", is_all=True)
    KindGuess(kind='list', because='short lines, no commas')
    >>> guess_kind("one\\tun\\ntwo\\tdeux\\n", is_all=True)
    KindGuess(kind='pairs', because='one tab on every line')
    """
    lines = re.split("\r\n|\r|\n", sample)
    if len(lines) > 1:
        # The last line may be cut where the sample ends; after a final newline it is empty.
        lines = lines if is_all and lines[-1] else lines[:-1]
    while lines and not lines[-1].strip():
        lines.pop()
    written = [line for line in lines if line.strip()]
    if not written:
        return KindGuess("text", "white space only")
    if all(_OBJECT.match(line) for line in written):
        return KindGuess("table", "a JSON object on every line")
    for separator, word in (("\t", "tab"), (",", "comma"), (";", "semicolon")):
        counts = {line.count(separator) for line in written}
        if len(written) < 2 or len(counts) != 1 or counts == {0}:
            continue
        n = counts.pop()
        if separator == "\t" and n == 1:
            return KindGuess("pairs", "one tab on every line")
        if separator == "\t" or _looks_like_header(written[0], separator):
            many = f"{n} {word}{'s' if n > 1 else ''}"
            return KindGuess("table", f"{many} on every line")
    return _list_or_text(lines, written)


def looks_like_pairs(sample: str, separator: str) -> bool:
    """Whether lines hold two texts each and none of them names columns: no quotes, no numbers, no classes below a name.

    >>> looks_like_pairs("mouse\\tmice\\nhouse\\thouses\\nfoot\\tfeet\\n", "\\t")
    True
    >>> looks_like_pairs("text\\tmood\\nwell done\\tgood\\noh no\\tbad\\nnice\\tgood\\nugh\\tbad\\n", "\\t")
    False
    """
    lines = [line for line in re.split("\r\n|\r|\n", sample)[:-1] if line.strip()]
    if len(lines) < FEWEST_PAIRS or any(line.count(separator) != 1 for line in lines):
        return False
    rows = [line.split(separator) for line in lines]
    if not all(cell.strip() for row in rows for cell in row):
        return False
    if any('"' in line for line in lines) or any(name.strip().lower() in USUAL_HEADERS for name in rows[0]):
        return False
    for column in zip(*rows, strict=True):
        if sum(bool(_NO_TEXT.fullmatch(cell.strip())) for cell in column) > len(column) / 10:
            return False
        # A name stands once above few values that repeat; the first of a column of classes stands there again.
        below = set(column[1:])
        if column[0] not in below and len(below) <= len(column) / 2:
            return False
    return True


def _list_or_text(lines: list[str], written: list[str]) -> KindGuess:
    longest = max(len(line) for line in written)
    words = sum(len(line.split()) for line in written) / len(written)
    if len(written) < 2:
        return KindGuess("text", "a single line")
    if longest > LONGEST_ITEM:
        return KindGuess("text", "long lines")
    if words > MOST_WORDS:
        return KindGuess("text", f"about {words:.0f} words a line")
    if len(lines) - len(written) > len(lines) / 10:
        return KindGuess("text", "many empty lines")
    return KindGuess("list", "short lines, no commas" if not any("," in line for line in written) else "short lines")


def _looks_like_header(line: str, separator: str) -> bool:
    """Whether a first line could name columns: different, not empty, no numbers, no sentences."""
    names = [name.strip().strip('"') for name in line.split(separator)]
    return (
        len(set(names)) == len(names)
        and all(names)
        and not any(re.fullmatch(r"[-+.\d]+", name) for name in names)
        and all(len(name.split()) <= 4 and not name.endswith((".", "!", "?", ":")) for name in names)
    )


def table_format(source: Source) -> TableFormat:
    """The format of a table: by its first bytes, else by its ending, else separated values."""
    head = source.read(0, HEAD)
    for one in TABLE_FORMATS:
        if source.ending in one.endings or head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(one.start):
            return one
    raise AssertionError("every file starts with nothing")


def read_table(source: Source, options: ReadOptions, because: str = "") -> TableData:
    """The table in a file of any of these formats."""
    found = table_format(source)
    if found.memory_factor:
        require_memory(source.size * found.memory_factor, source.name, "Keep fewer rows or columns")
    read: Callable[[Source, ReadOptions, str], TableData] = load_named(found.reader)
    return read(source, options, because)


def require_header(names: list[str], where: str) -> list[str]:
    """The names of the columns: none blank, none twice, not too many."""
    if len(names) > MOST_COLUMNS:
        raise TooLarge(f"{where} has {len(names):,} columns, and at most {MOST_COLUMNS:,} are read", fix="Keep fewer")
    numbers: dict[str, int] = {}
    for number, column in enumerate(names, start=1):
        if not column:
            raise PellucidError(f"column {number} of {where} has no name", fix="Give it one in the first line")
        if column in numbers:
            raise PellucidError(
                f"columns {numbers[column]} and {number} of {where} are both called {quoted(column)}", fix="Rename one"
            )
        numbers[column] = number
    return names


def require_rows(n_rows: int, name: str, fewest: int) -> None:
    """Refuse a table with fewer rows than its user needs."""
    if n_rows < 1:
        raise PellucidError(
            f"{name} has a header and no rows", fix=f"Give it at least {fewest} row{'s' * (fewest > 1)}"
        )
    if n_rows < fewest:
        raise PellucidError(f"{name} has 1 row, and at least {fewest} are needed", fix="Give it more rows")
