"""The five kinds of data: each is declared once, in KINDS, and whoever lists kinds asks here."""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from pellucid.errors import PellucidError, did_you_mean, quoted, require_one_of
from pellucid.records import Statement

if TYPE_CHECKING:
    import numpy
    import polars

    from pellucid.data.readers.sources import Source
    from pellucid.data.splits import SplitRequest

NEWLINES = ("keep", "unix")
TOKENS = ("characters", "words", "bytes", "bpe")
BOUNDARIES = ("one", "two")  # tokens that stand around the items of a list
TARGETS = ("letters", "words", "changes")  # ways to write those of pairs
TASKS = ("classification", "regression", "reconstruction")
COLOURS = ("gray", "rgb")
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
MISSING_WORDS = ("NA", "N/A", "n/a", "NULL", "null", "None")  # that name a category as often as a gap
MISSING_WAYS = ("usual", "words", "empty")
FEWEST_ROWS = 2  # of a table that is to be learned from


@dataclass(frozen=True)
class Kind:
    """What is known of a kind of data before any are read."""

    name: str
    noun: str  # as in "this is a list"
    example: str  # what one of its examples is called
    family: str  # which tasks and networks are made for it: sequences, pairs or examples
    reader: str  # module:function, called as read(source, options, because)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("list", "a list", "item", "sequences", "pellucid.data.readers.text:read_list"),
        Kind("text", "a text", "item", "sequences", "pellucid.data.readers.text:read_text"),
        Kind("table", "a table", "row", "examples", "pellucid.data.readers:read_table"),
        Kind("pairs", "pairs", "pair", "pairs", "pellucid.data.readers.text:read_pairs"),
        Kind("images", "images", "image", "examples", "pellucid.data.readers.images:read_images"),
    )
}


def ignore_progress(_: str) -> None:
    """Tells nobody how far the reading is."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read, as `open_data` was asked; a reader takes from it what concerns its kind."""

    encoding: str = "utf-8"
    newlines: str = "keep"
    separator: str = ""
    missing_values: str = "usual"
    as_number: tuple[str, ...] = ()
    names_none: tuple[str, ...] | None = (
        None  # columns in which "None" and the like are categories; None: told by count
    )
    skip_bad: bool = False
    skip_empty: bool = False
    fewest_rows: int = FEWEST_ROWS
    progress: Callable[[str], None] = ignore_progress

    def __post_init__(self) -> None:
        require_one_of("way to treat newlines", self.newlines, NEWLINES)
        require_one_of("way to tell missing cells", self.missing_values, MISSING_WAYS)


def load_named(place: str) -> Any:
    """What a declaration names as "module:name", imported when it is first needed."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class _AnyData(ABC):
    """What data of every kind have."""

    kind: ClassVar[str]
    name: str
    _: KW_ONLY
    because: str  # how it was taken for this, or where it comes from
    fingerprint: str
    notes: tuple[Statement, ...] = ()
    is_file: bool = False  # and no set that comes with pellucid, so that it could be read as another kind
    # (example,): places in SIDES, where the data were divided before
    sides: "numpy.ndarray[Any, Any] | None" = field(default=None, repr=False, compare=False)
    # How they were divided, or are to be; None: as is usual
    divided_by: "SplitRequest | None" = field(default=None, repr=False, compare=False)

    @property
    def description(self) -> str:
        """What was inferred, in one line."""
        return f"{self.name}: {self.contents()}{f' ({self.because})' if self.because else ''}"

    @abstractmethod
    def contents(self) -> str:
        """How many there are of what."""

    @abstractmethod
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class ListData(_AnyData):
    """One item a line, as names or words are."""

    kind: ClassVar[str] = "list"
    items: Sequence[str] = field(repr=False)
    random_nats: float = field(default=0.0, repr=False)  # that what was drawn at random in an item costs; 0: not known

    def contents(self) -> str:
        return f"a list of {len(self):,} item{'s' * (len(self) != 1)}"

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class TextData(_AnyData):
    """Running text, read in pieces, so that it may be larger than memory."""

    kind: ClassVar[str] = "text"
    source: "Source" = field(repr=False)
    encoding: str
    newlines: str
    n_characters: int  # before newlines are converted
    first_nul: int

    def characters(self) -> Iterator[str]:
        """The text in pieces of about a million characters."""
        from pellucid.data.readers.text import characters

        return characters(self.source, self.encoding, self.newlines)

    def read(self) -> str:
        """The whole text at once."""
        return "".join(self.characters())

    def contents(self) -> str:
        return f"running text of {len(self):,} characters"

    def __len__(self) -> int:
        return self.n_characters


class Column(NamedTuple):
    """One column of a table and what was decided about it from all of its cells."""

    name: str
    kind: str  # "numeric", "category", "text" or "order"
    n_missing: int


@dataclass(frozen=True)
class TableData(_AnyData):
    """Rows and columns. `lines` gives the line of the file that each row begins on, where that is not row + 2."""

    kind: ClassVar[str] = "table"
    frame: "polars.DataFrame" = field(repr=False)
    columns: tuple[Column, ...]
    row_word: str = "line"
    target: str = ""  # the column to predict unless another is named, where whoever made the table says so
    lines: "numpy.ndarray[Any, Any] | None" = field(default=None, repr=False)

    def contents(self) -> str:
        return f"a table of {len(self):,} rows and {len(self.columns):,} column{'s' * (len(self.columns) != 1)}"

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
class PairsData(_AnyData):
    """Sequences and what they become: source TAB target, one pair a line."""

    kind: ClassVar[str] = "pairs"
    pairs: list[tuple[str, str]] = field(repr=False)
    targets: str = ""  # the one of TARGETS that targets are written in unless another is asked for; "": as suits them

    def contents(self) -> str:
        return f"{len(self):,} pairs"

    def __len__(self) -> int:
        return len(self.pairs)


class ImageFile(NamedTuple):
    """One image of a folder, known from its header."""

    path: Path
    label: str
    width: int
    height: int


@dataclass(frozen=True)
class ImagesData(_AnyData):
    """A folder of class folders. Pixels are decoded when asked for."""

    kind: ClassVar[str] = "images"
    files: tuple[ImageFile, ...] = field(repr=False)
    classes: tuple[str, ...]

    def contents(self) -> str:
        shapes = {(file.width, file.height) for file in self.files}
        width, height = min(shapes)
        sizes = f"{len(shapes):,} sizes" if len(shapes) > 1 else f"{width}×{height}"
        return f"{len(self):,} images in {len(self.classes)} classes, {sizes}"

    def __len__(self) -> int:
        return len(self.files)

    def place_of(self, image: int) -> str:
        """Where the user finds an image: its class folder and its file."""
        path = self.files[image].path
        # A name may hold bytes that are no text; they are shown, and nothing is lost.
        return os.fsencode(Path(path.parent.name) / path.name).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class PixelsData(_AnyData):
    """Images that are already numbers: pixels (image, height, width) or (image, height, width, 3), 0 to 255."""

    kind: ClassVar[str] = "images"
    pixels: "numpy.ndarray[Any, Any]" = field(repr=False)
    labels: "numpy.ndarray[Any, Any]" = field(repr=False)  # the place of each image's class in `classes`
    classes: tuple[str, ...]

    def contents(self) -> str:
        height, width = self.pixels.shape[1:3]
        return f"{len(self):,} images in {len(self.classes)} classes, {width}×{height}"

    def __len__(self) -> int:
        return len(self.labels)

    def place_of(self, image: int) -> str:
        """Its number, counted from 1."""
        return f"image {image + 1:,}"


Data: TypeAlias = ListData | TextData | TableData | PairsData | ImagesData | PixelsData


def require_kind(data: Data, *kinds: str) -> None:
    """Refuse data of another kind than the caller can use."""
    if data.kind not in kinds:
        wanted = " or ".join(kinds)
        raise PellucidError(
            f"{data.name} was read as {data.kind}, and {wanted} is wanted",
            fix="Try {kind}",
            options={"kind": kinds[0]},
        )


def unknown_column(wanted: str, known: Sequence[str], name: str) -> PellucidError:
    """The error for a column that is not there, with the one that was probably meant."""
    some = ", ".join(quoted(column, 20) for column in known[:6])
    fix = did_you_mean(wanted, known, f"It has {some}{' and more' if len(known) > 6 else ''}", show=quoted)
    return PellucidError(f"{name} has no column {quoted(wanted)}", fix=fix)
