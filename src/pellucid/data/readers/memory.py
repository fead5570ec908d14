"""Data that are in Python already: frames, lists, arrays, columns. They become what a file with the same content would.

No library is asked for: a frame is what has columns as pandas', Polars', Arrow's and Hugging Face's have them.

    ["emma", "ava"], a Series of texts      a list, as of a file with one item a line
    [("2+3", "5"), …]                       pairs
    a frame, {name: column}, [{name: cell}] a table; a frame of one column of texts is a list
    an array (rows, columns)                a table with the columns x1, x2, …
    (rows, targets), frame or array, array  the same with a column target
    (images, classes), two arrays           images: (image, height, width) or (image, height, width, 3)
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pellucid.data.kinds import (
    FEWEST_ROWS,
    KINDS,
    Data,
    ImagesData,
    ListData,
    PairsData,
    PixelsData,
    ReadOptions,
    TableData,
    TextData,
    load_named,
    require_kind,
)
from pellucid.data.readers import require_header, require_rows
from pellucid.data.readers.sources import MemorySource
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import numpy
    import polars

MEMORY = ":memory:"  # what stands where the path of a file would
TARGET = "target"  # the column that the second of two arrays becomes
_ASKED = "Give a DataFrame, a list of texts or of pairs, columns by name, an array, or the path of a file"
_PLAIN = "Turn it into plain numbers or text, or drop it"


@runtime_checkable
class PandasFrame(Protocol):
    """Columns by place, as pandas has them."""

    columns: Any
    iloc: Any


@runtime_checkable
class PolarsFrame(Protocol):
    def get_columns(self) -> list[Any]: ...


@runtime_checkable
class NamedColumns(Protocol):
    """Columns by name, as a Dataset of Hugging Face or a table of Arrow has them."""

    column_names: Any

    def __getitem__(self, name: str) -> Any: ...


def is_place(given: object) -> bool:
    """Whether it is a path, or the name of a set, and not the data themselves."""
    import os

    return isinstance(given, str | os.PathLike)


def has_targets(given: object) -> bool:
    """Whether it is examples, a frame or an array, and what is to be predicted of each, an array or a Series."""
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    examples, targets = given
    return (_is_array(examples) or _is_frame(examples)) and hasattr(targets, "__array__")


def read_memory(given: Any, *, kind: str = "", fewest_rows: int = FEWEST_ROWS) -> Data:
    """The data as one of the kinds. kind: which, where it could be several; "" looks.

    >>> read_memory(["emma", "ava", "mia"]).description
    'list: a list of 3 items'
    >>> read_memory({"size": [1.5, 2.0], "name": ["a", None]}).contents()
    'a table of 2 rows and 2 columns'
    """
    if isinstance(given, ListData | TextData | TableData | PairsData | ImagesData | PixelsData):
        if kind:
            require_kind(given, kind)
        return given
    name = type(given).__name__
    if has_targets(given):
        return _read_examples(given[0], given[1], kind, fewest_rows)
    if _is_array(given) and given.ndim == 2:
        return _table({f"x{place + 1}": column for place, column in enumerate(_numbers_of(given))}, name, fewest_rows)
    columns = _columns_of(given)
    if columns is not None:
        return _read_columns(columns, name, kind, fewest_rows)
    if isinstance(given, Iterable) and not isinstance(given, bytes | bytearray):
        return _read_items(list(given), name, kind, fewest_rows)
    raise PellucidError(f"data cannot be read from {_a(name)}", fix=_ASKED)


def _a(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _is_array(given: object) -> bool:
    """Numbers in rows: NumPy's, or whatever gives itself as such and has a shape, but no frame and no Series."""
    is_like_one = all(hasattr(given, name) for name in ("shape", "ndim", "__array__"))
    return is_like_one and not hasattr(given, "to_frame") and not _is_frame(given)


def _is_frame(given: object) -> bool:
    return isinstance(given, PandasFrame | PolarsFrame)


def _columns_of(given: Any) -> dict[str, Any] | None:
    """The columns by name, each whatever it is; None where there are none."""
    if isinstance(given, Mapping):
        for name, column in given.items():
            if _columns_of(column) is not None:  # the splits of a Dataset, or several frames
                splits = ", ".join(quoted(str(split)) for split in given)
                raise PellucidError(f"there are several sets of data: {splits}", fix="Give one of them")
            if isinstance(column, str) or not isinstance(column, Iterable):
                raise PellucidError(f"{quoted(str(name))} is no column but {_a(type(column).__name__)}", fix=_ASKED)
        return {str(name): column for name, column in given.items()}
    if isinstance(given, PolarsFrame):
        return {column.name: column for column in given.get_columns()}
    if isinstance(given, PandasFrame):
        names = require_header([str(name) for name in given.columns], type(given).__name__)
        return {name: given.iloc[:, place] for place, name in enumerate(names)}
    if isinstance(given, NamedColumns) and isinstance(given.column_names, list):
        return {str(name): given[name] for name in given.column_names}
    return None


def _read_columns(columns: Mapping[str, Any], name: str, kind: str, fewest_rows: int) -> Data:
    table = _table(columns, name, fewest_rows)
    texts = [column.name for column in table.columns if table.frame[column.name].dtype == _string()]
    wanted = {"list": 1, "text": 1, "pairs": 2}
    is_list = not kind and len(table.columns) == len(texts) == 1
    if kind in ("", "table") and not is_list:
        return table
    n_wanted = wanted.get(kind, 1)
    if kind == "images" or len(table.columns) != n_wanted or len(texts) != n_wanted:
        noun = KINDS[kind].noun
        raise PellucidError(
            f"{_a(name)} of {len(table.columns)} columns is no {noun.removeprefix('a ')}",
            fix=f"Give {n_wanted} column{'s' * (n_wanted > 1)} of texts, or use {{kind}}",
            options={"kind": "table"},
        )
    rows = table.frame.drop_nulls()
    cells: list[Any] = rows[texts[0]].to_list() if n_wanted == 1 else list(rows.select(texts).iter_rows())
    return _read_items(cells, name, kind or "list", fewest_rows)


def _string() -> Any:
    import polars

    return polars.String


def _read_items(items: list[Any], name: str, kind: str, fewest_rows: int) -> Data:
    """Texts, pairs of them, or rows by name."""
    if not items:
        raise PellucidError(f"the {name} is empty", fix=_ASKED)
    first = items[0]
    if isinstance(first, Mapping):
        names = list(dict.fromkeys(str(key) for item in items for key in item))
        return _read_columns({key: [item.get(key) for item in items] for key in names}, name, kind, fewest_rows)
    is_pairs = isinstance(first, tuple | list) and len(first) == 2 and all(isinstance(one, str) for one in first)
    if is_pairs and kind in ("", "pairs"):
        return _read_lines(
            ["\t".join(_require_texts(pair, place, 2)) for place, pair in enumerate(items, 1)], name, "pairs"
        )
    if isinstance(first, tuple | list) and all(isinstance(one, numbers.Real) for one in first):
        import numpy

        return read_memory(numpy.array(items), kind=kind, fewest_rows=fewest_rows)
    texts = [_require_texts([item], place, 1)[0] for place, item in enumerate(items, 1) if not _is_missing(item)]
    if kind == "text":
        return _read_lines(texts, name, "text")
    if kind not in ("", "list"):
        raise PellucidError(f"texts are no {kind}", fix="Try {kind}", options={"kind": "list"})
    return _read_lines(texts, name, "list")


def _require_texts(cells: Sequence[Any], place: int, n: int) -> Sequence[str]:
    """Texts that can each be a line, or a part of one."""
    if len(cells) != n:
        raise PellucidError(f"item {place:,} has {len(cells)} parts, and {n} are wanted", fix=_ASKED)
    for cell in cells:
        if not isinstance(cell, str):
            raise PellucidError(f"item {place:,} is {_a(type(cell).__name__)}, and no text", fix=_ASKED)
        if n > 1 and "\t" in cell:
            raise PellucidError(f"item {place:,} holds a tab", fix="Replace it by a space")
    return cells


def _read_lines(lines: Sequence[str], name: str, kind: str) -> Data:
    """As a file with these lines is read: its notes, and its fingerprint, are the same."""
    broken = next((place for place, line in enumerate(lines, 1) if "\n" in line), 0) if kind != "text" else 0
    if broken:
        raise PellucidError(
            f"item {broken:,} holds a line break", fix="Replace it by a space, or use {kind}", options={"kind": "text"}
        )
    content = ("\n".join(lines) + "\n" * (kind != "text")).encode("utf-8", "surrogatepass")
    data: Data = load_named(KINDS[kind].reader)(MemorySource(name, content), ReadOptions(), "")
    return data


def _table(columns: Mapping[str, Any], name: str, fewest_rows: int) -> TableData:
    """The columns as a table whose types are decided."""
    import polars

    from pellucid.data.readers.columns import decide_column, make_table, require_plain_types
    from pellucid.data.splits.hashing import row_hashes

    require_header([column.strip() for column in columns], name)
    made = [_series(label, column) for label, column in columns.items()]
    lengths = {len(column) for column in made}
    if len(lengths) > 1:
        raise PellucidError(
            f"the columns of the {name} are of different length: {min(lengths):,} to {max(lengths):,}",
            fix="Give each as many cells",
        )
    require_rows(max(lengths, default=0), f"the {name}", fewest_rows)
    frame = polars.DataFrame(made)
    require_plain_types(frame.schema, f"the {name}")
    decided = [decide_column(column, lambda row: f"row {row + 1:,} of the {name}", is_typed=True) for column in frame]
    rows = row_hashes(polars.DataFrame([one.values for one in decided]))
    content = json.dumps([one.column.name for one in decided]).encode() + rows.tobytes()
    return make_table(name, decided, because="", fingerprint=hashlib.sha256(content).hexdigest(), row_word="row")


def _series(name: str, column: Any) -> polars.Series:
    """A column of any kind as one of Polars: numbers, truth values or days where all cells are that, else texts."""
    import numpy
    import polars

    if isinstance(column, polars.Series):
        return column.rename(name)
    if isinstance(getattr(column, "dtype", None), numpy.dtype) and column.dtype.kind in "iufbM":
        values = numpy.asarray(column)
        if values.ndim == 1:
            values = values.astype("datetime64[us]") if values.dtype.kind == "M" else values
            values = values.astype(numpy.float32) if values.dtype == numpy.float16 else values
            return polars.Series(name, values, nan_to_null=True)
    is_gone = column.isna().tolist() if hasattr(column, "isna") else None
    raw = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    cells = [None if gone else cell for gone, cell in zip(is_gone or map(_is_missing, raw), raw, strict=True)]
    there = [cell for cell in cells if cell is not None]
    if there and all(isinstance(cell, bool | numpy.bool_) for cell in there):
        return polars.Series(name, [None if cell is None else bool(cell) for cell in cells], dtype=polars.Boolean)
    if there and all(isinstance(cell, numbers.Integral) for cell in there):
        whole = [None if cell is None else int(cell) for cell in cells]
        if all(cell is None or abs(cell) < 1 << 63 for cell in whole):
            return polars.Series(name, whole, dtype=polars.Int64)
    elif there and all(isinstance(cell, numbers.Real | decimal.Decimal) for cell in there):
        return polars.Series(name, [None if cell is None else float(cell) for cell in cells], dtype=polars.Float64)
    elif there and all(isinstance(cell, datetime.date) for cell in there):
        return polars.Series(name, cells, strict=False)
    for row, cell in enumerate(cells, 1):
        if cell is not None and not isinstance(cell, str | numbers.Number | numpy.bool_ | datetime.date):
            raise PellucidError(f"row {row:,} of column {quoted(name)} holds {_a(type(cell).__name__)}", fix=_PLAIN)
    return polars.Series(name, [None if cell is None else str(cell) for cell in cells], dtype=polars.String)


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _numbers_of(rows: Any) -> Iterable[numpy.ndarray[Any, Any]]:
    """The columns of an array (rows, columns)."""
    import numpy

    return numpy.ascontiguousarray(numpy.asarray(rows).T)


def _read_examples(examples: Any, targets: Any, kind: str, fewest_rows: int) -> Data:
    """Two arrays: rows of numbers or images, and one target for each."""
    import numpy

    columns = _columns_of(examples) if _is_frame(examples) else None
    examples, targets = examples if columns else numpy.asarray(examples), numpy.asarray(targets)
    if targets.ndim != 1 or len(targets) != len(examples):
        raise PellucidError(
            f"{len(examples):,} examples and targets of the shape {targets.shape} do not belong together",
            fix="Give one target for each example",
        )
    if columns is None and examples.ndim == 2:
        columns = {f"x{place + 1}": column for place, column in enumerate(_numbers_of(examples))}
    if columns is not None:
        return _read_columns({**columns, TARGET: targets}, type(examples).__name__, kind, fewest_rows)
    from pellucid.data.sets import fingerprint_of

    pixels = as_pixels(examples)
    classes = sorted({str(target) for target in targets.tolist()})
    places = {label: place for place, label in enumerate(classes)}
    labels = numpy.array([places[str(target)] for target in targets.tolist()])
    made = PixelsData(
        "array",
        pixels=pixels,
        labels=labels,
        classes=tuple(classes),
        because="",
        fingerprint=fingerprint_of(pixels, labels),
    )
    if kind:
        require_kind(made, kind)
    return made


def as_pixels(images: Any) -> numpy.ndarray[Any, Any]:
    """Images (image, height, width) or (image, height, width, 3) as pixels from 0 to 255; fractions are from 0 to 1."""
    import numpy

    images = numpy.asarray(images)
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        shape = " × ".join(str(size) for size in images.shape)
        raise PellucidError(
            f"an array of {shape} holds no images", fix="Give (image, height, width) or (image, height, width, 3)"
        )
    highest, lowest = images.max(initial=0), images.min(initial=0)
    if images.dtype.kind == "f" and highest <= 1:
        images, highest = numpy.rint(255 * images), 255 * highest
    if lowest < 0 or highest > 255 or not numpy.isfinite(images).all():
        raise PellucidError(
            f"the pixels reach from {lowest:g} to {highest:g}",
            fix="Give numbers from 0 to 255, or fractions from 0 to 1",
        )
    pixels: numpy.ndarray[Any, Any] = images.astype(numpy.uint8)
    return pixels
