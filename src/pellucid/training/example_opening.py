"""From a table or images to a task: divided, in numbers, and told in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pellucid.data import ImagesData, PixelsData, TableData
from pellucid.data.examples import ExampleSides, image_sides, table_sides
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError
from pellucid.records import DataFacts
from pellucid.training.example_task import ExampleTask

if TYPE_CHECKING:
    from pellucid.training.opening import DataWishes


def example_task(data: TableData | ImagesData | PixelsData, wishes: DataWishes, source: str) -> ExampleTask:
    """Divide the examples, learn from train how to read them, and say what was found."""
    if isinstance(data, TableData):
        sides = table_sides(data, wishes.target, task=wishes.task, drop_missing=wishes.drop_missing_target)
    else:
        size = (wishes.image_size, wishes.image_size) if wishes.image_size else None
        if wishes.task == "regression":
            raise PellucidError(f"{data.name} holds images, which have classes", fix="Leave --task out")
        sides = image_sides(data, size=size, mode=wishes.colour, task=wishes.task or "classification")
    if wishes.examples:
        sides = sides.limited(wishes.examples)
    return ExampleTask(sides, _facts(data, sides, source))


def _facts(data: TableData | ImagesData | PixelsData, sides: ExampleSides, source: str) -> DataFacts:
    sizes = {name: len(getattr(sides, name)) for name in SIDES}
    first: list[str] = []
    if sides.classes:
        counts = np.bincount(sides.train.targets, minlength=len(sides.classes))
        first = [f"{name}: {n:,}" for name, n in zip(sides.classes, counts, strict=True)]
    return DataFacts(
        source=source,
        said=data.said,
        kind=data.kind,
        tokens="",
        fingerprint=data.fingerprint,
        vocab_size=len(sides.classes) if sides.task == "classification" else 0,
        symbols=sides.classes[:256] if sides.task == "classification" else (),
        items=sizes,
        n_tokens=sizes,
        notes=(*data.notes, *sides.notes),
        first=tuple(first[:24]),
        task=sides.task,
        target=sides.target,
        about=(read_words(sides),),
    )


def read_words(sides: ExampleSides) -> str:
    """What a network reads of one example.

    A table's numbers include a place for each that may be missing.
    """
    shape = sides.preparation.numbers_shape
    if len(shape) == 3:
        colours = "gray" if shape[0] == 1 else "colour"
        return f"an image of {shape[2]}×{shape[1]} pixels, {colours}, {math.prod(shape):,} numbers"
    n_columns = len(sides.preparation.category_sizes)
    columns = f"{n_columns} categor{'y' if n_columns == 1 else 'ies'}"
    return f"{shape[0]:,} number{'s' * (shape[0] != 1)}" + f" and {columns}" * bool(n_columns)
