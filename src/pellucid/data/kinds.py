"""The five kinds of data. Each says what it is, why it was taken for that, and how to say otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from pellucid.data.decoding import characters
from pellucid.data.sources import Source
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    import numpy
    import polars

FEWEST_ROWS = 2  # of a table that is to be learned from
KINDS = ("list", "text", "table", "pairs", "images")


@dataclass(frozen=True)
class ListData:
    """One item a line, as names or words are."""

    kind: ClassVar[str] = "list"
    name: str
    items: list[str] = field(repr=False)
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class TextData:
    """Running text, read in pieces, so that it may be larger than memory."""

    kind: ClassVar[str] = "text"
    name: str
    source: Source = field(repr=False)
    encoding: str
    newlines: str
    n_characters: int  # before newlines are converted
    first_nul: int
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def characters(self) -> Iterator[str]:
        """The text in pieces of about a million characters."""
        return characters(self.source, self.encoding, self.newlines)

    def read(self) -> str:
        """The whole text at once."""
        return "".join(self.characters())

    def __len__(self) -> int:
        return self.n_characters


class Column(NamedTuple):
    """One column of a table and what was decided about it from all of its cells."""

    name: str
    kind: str  # "numeric", "category", "text" or "order"
    n_missing: int


@dataclass(frozen=True)
class TableData:
    """Rows and columns. `lines` gives the line of the file that each row begins on, where that is not row + 2."""

    kind: ClassVar[str] = "table"
    name: str
    frame: "polars.DataFrame" = field(repr=False)
    columns: tuple[Column, ...]
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()
    row_word: str = "line"
    lines: "numpy.ndarray[Any, Any] | None" = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.frame.height

    def place_of(self, row: int) -> str:
        """Where the user finds a row: its line in a text file, its number elsewhere, both counted from 1."""
        if self.row_word != "line":
            return f"row {row + 1:,}"
        return f"line {int(self.lines[row]) if self.lines is not None else row + 2:,}"

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class PairsData:
    """Sequences and what they become: source TAB target, one pair a line."""

    kind: ClassVar[str] = "pairs"
    name: str
    pairs: list[tuple[str, str]] = field(repr=False)
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)


class ImageFile(NamedTuple):
    """One image of a folder, known from its header."""

    path: Path
    label: str
    width: int
    height: int


@dataclass(frozen=True)
class ImagesData:
    """A folder of class folders. Pixels are decoded when asked for."""

    kind: ClassVar[str] = "images"
    name: str
    files: tuple[ImageFile, ...] = field(repr=False)
    classes: tuple[str, ...]
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.files)


@dataclass(frozen=True)
class PixelsData:
    """Images that are already numbers: pixels (image, height, width) or (image, height, width, 3), 0 to 255."""

    kind: ClassVar[str] = "images"
    name: str
    pixels: "numpy.ndarray[Any, Any]" = field(repr=False)
    labels: "numpy.ndarray[Any, Any]" = field(repr=False)  # the place of each image's class in `classes`
    classes: tuple[str, ...]
    said: str
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


Data: TypeAlias = ListData | TextData | TableData | PairsData | ImagesData | PixelsData


def require_kind(data: Data, *kinds: str) -> None:
    """Refuse data of another kind than the caller can use."""
    if data.kind not in kinds:
        wanted = " or ".join(kinds)
        raise PellucidError(
            f"{data.name} was read as {data.kind}, and {wanted} is wanted", fix=f"Try --kind {kinds[0]}"
        )
