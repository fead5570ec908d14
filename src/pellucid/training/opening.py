"""How data are to be read, and the reading, without torch."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.data import Data, open_data


@dataclass(frozen=True)
class DataWishes:
    """How the data are to be read, as it was asked for. What does not concern their kind is not looked at."""

    source: str = "names"
    kind: str = ""
    encoding: str = "utf-8"
    newlines: str = "keep"
    tokens: str = "characters"
    context: int = 0  # tokens in a window of a text; 0: as many as usual
    separator: str = ""  # of a table; "" looks
    as_number: str = ""  # columns of a table to read as numbers, with commas
    target: str = ""  # the column of a table to predict
    task: str = ""  # classification, regression or reconstruction; "" looks
    drop_missing_target: bool = False
    skip_bad: bool = False  # images that cannot be read
    skip_empty: bool = False  # class folders without images
    image_size: int = 0  # every image as a square of so many pixels; 0: as they are
    colour: str = ""  # gray or rgb; "" looks
    examples: int = 0  # of the training side; 0: all


def read(wishes: DataWishes) -> Data:
    """Open the data as asked, without torch."""
    return open_data(
        wishes.source,
        kind=wishes.kind,
        encoding=wishes.encoding,
        separator=wishes.separator,
        newlines=wishes.newlines,
        as_number=tuple(name for name in wishes.as_number.split(",") if name),
        skip_bad=wishes.skip_bad,
        skip_empty=wishes.skip_empty,
    )
