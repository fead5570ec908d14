"""What a network can learn from each kind of data: sequences, examples (tables and images) or pairs."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from pellucid.data import Data, ListData, PairsData, TextData
from pellucid.data.options import DataOptions, open_with, with_division

if TYPE_CHECKING:
    from pellucid.training.fine_tuning import Origin
    from pellucid.training.tasks.counted_sides import CountedSides
    from pellucid.training.tasks.task import Task


def open_task(
    options: DataOptions,
    data: Data | None = None,
    origin: Origin | None = None,
    counted: CountedSides | None = None,
) -> Task:
    """Split the data and make a task of them, or refuse where there is nothing to learn or to measure it on.

    data: where they are open already. origin: the run that a training on them begins from. counted: a list or a text
    that was split already.
    """
    data = open_with(options) if data is None else with_division(data, options)
    source = source_word(options)
    if isinstance(data, ListData | TextData):
        from pellucid.training.tasks.sequences import open_sequences

        return open_sequences(data, source, options, origin, counted)
    if isinstance(data, PairsData):
        from pellucid.training.tasks.pairs import open_pairs

        return open_pairs(data, source, options.targets)
    from pellucid.training.tasks.examples import open_examples

    return open_examples(data, source, options)


def source_word(options: DataOptions) -> str:
    """What opens the data again. A run can go elsewhere, so it holds no path of this machine."""
    return PurePath(options.source).name if PurePath(options.source).is_absolute() else options.source
