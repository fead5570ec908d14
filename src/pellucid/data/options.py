"""How data are to be read, as a user may ask for it. Nothing heavy, so that a bad value is refused at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pellucid.data.kinds import BOUNDARIES, COLOURS, KINDS, MISSING_WAYS, NEWLINES, TARGETS, TASKS, TOKENS, Data
from pellucid.data.splits import FRACTIONS, STRATEGIES, SplitRequest, read_fractions
from pellucid.errors import PellucidError
from pellucid.options import check_options, given_options, option, options_of

_TABLE, _IMAGES = ("table",), ("images",)
AnyData = TypeVar("AnyData", bound=Data)


def boundary_option() -> Any:
    """How the items of a list begin and end, wherever that may be asked for."""
    return option(
        "one",
        "Boundary tokens of a list; one opens and closes every item, two are <S> and <E>",
        noun="number of boundaries",
        choices=BOUNDARIES,
        kinds=("list",),
    )


@dataclass(frozen=True)
class DataOptions:
    """Where the data are and how they are read.

    >>> DataOptions(tokens="letters")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is no kind of tokens called 'letters'. Choose one of characters, words, bytes,
    bpe.
    """

    source: str = "names"
    kind: str = option(
        "",
        "Kind of the data; by default it is inferred",
        noun="kind of data",
        choices=tuple(KINDS),
    )
    encoding: str = option("utf-8", "Character encoding of the file.")
    newlines: str = option(
        "keep", "Line endings; unix makes them all LF", noun="way to treat newlines", choices=NEWLINES
    )
    tokens: str = option(
        "characters", "Tokens of a text or list", noun="kind of tokens", choices=TOKENS, is_common=True
    )
    boundary: str = boundary_option()
    targets: str = option(
        "",
        "How the targets of pairs are written; by default as suits them",
        noun="way to write targets",
        choices=TARGETS,
        kinds=("pairs",),
    )
    context: int = 0  # tokens in a window of a text; 0: as many as usual. The option is the network's own.
    separator: str = option("", "Column separator, if it is no comma or tab.", flag="sep", kinds=_TABLE)
    as_number: str = option(
        "", "Columns to read as numbers in spite of $, % and commas.", kinds=_TABLE, value_name="COLUMNS"
    )
    missing_values: str = option(
        "usual",
        "Cells that count as missing; usual: None, NA and the like too, unless they are a frequent category; words: "
        "those always; empty: empty cells alone",
        noun="way to tell missing cells",
        choices=MISSING_WAYS,
        kinds=_TABLE,
    )
    target: str = option("", "Column to predict.", kinds=_TABLE, is_common=True, value_name="COLUMN")
    task: str = option(
        "", "What to learn; by default it follows from the target", choices=TASKS, kinds=(*_TABLE, *_IMAGES)
    )
    leave_out: str = option("", "Columns that are not read, with commas.", kinds=_TABLE, value_name="COLUMNS")
    strategy: str = option(
        "",
        "How rows are divided into train, dev and test; by default as suits them, which is told",
        choices=tuple(STRATEGIES),
        kinds=_TABLE,
    )
    group: str = option("", "Column whose values are not to be divided.", kinds=_TABLE, value_name="COLUMN")
    order: str = option("", "Column that tells the order of the rows.", kinds=_TABLE, value_name="COLUMN")
    by: str = option("", "Column whose values or quantiles are the strata.", kinds=_TABLE, value_name="COLUMN")
    fractions: str = option(
        "",
        "Shares of train, dev and test, as 0.7,0.15,0.15; where there are two, as 0.8,0.2, they are of train and test, "
        "and dev is taken from train.",
        value_name="NUMBERS",
    )
    refuse_missing_target: bool = option(
        False, "Refuse a table with rows that have no target; else they are left out.", kinds=_TABLE
    )
    drop_missing_target: bool = option(False, "Leave out rows without a target, as is usual.", kinds=_TABLE)
    skip_bad: bool = option(False, "Leave out images that cannot be read.", kinds=_IMAGES)
    skip_empty: bool = option(False, "Leave out class folders without images.", kinds=_IMAGES)
    image_size: int = option(0, "Resize every image to a square of this many pixels.", minimum=1, kinds=_IMAGES)
    colour: str = option(
        "", "Colour mode of images; by default as they are", noun="colour mode", choices=COLOURS, kinds=_IMAGES
    )
    examples: int = option(
        0,
        "Number of training examples to use; by default all.",
        noun="the number of examples",
        minimum=1,
        kinds=(*_TABLE, *_IMAGES),
    )
    examples_seed: int = option(
        0,
        "Which training examples those are; other seeds draw others.",
        noun="the seed of the examples",
        minimum=0,
        maximum=(1 << 64) - 1,
        kinds=(*_TABLE, *_IMAGES),
    )

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.split
        if self.examples_seed and not self.examples:
            raise PellucidError(
                "{examples_seed} says which of the training examples are used, and all of them are",
                fix="Add {examples}, or leave it out",
                options={"examples_seed": None, "examples": "100"},
            )
        if self.refuse_missing_target and self.drop_missing_target:
            raise PellucidError(
                "{refuse_missing_target} and {drop_missing_target} contradict each other",
                fix="Keep one of them",
                options={"refuse_missing_target": None, "drop_missing_target": None},
            )

    @property
    def split(self) -> SplitRequest:
        """How the rows are to be divided, as far as it was said."""
        return SplitRequest(
            strategy=self.strategy,
            group=self.group,
            order=self.order,
            by=self.by,
            target=self.target,
            fractions=read_fractions(self.fractions) if self.fractions else FRACTIONS,
            repeats=0,
        )


def with_division(data: AnyData, options: DataOptions) -> AnyData:
    """The data, which know how they are to be divided."""
    if not options.fractions:
        return data
    if data.sides is not None:
        raise PellucidError(
            f"{data.name} was divided before, so {{fractions}} changes nothing",
            fix="Leave it out",
            options={"fractions": None},
        )
    return replace(data, divided_by=options.split)


def open_with(options: DataOptions) -> Data:
    """Open the data as asked. An option that means nothing for their kind is refused."""
    from pellucid.data.readers import open_data

    data = open_data(
        options.source,
        kind=options.kind,
        encoding=options.encoding,
        separator=options.separator,
        newlines=options.newlines,
        missing_values=options.missing_values,
        as_number=tuple(name for name in options.as_number.split(",") if name),
        skip_bad=options.skip_bad,
        skip_empty=options.skip_empty,
    )
    require_used(options, data.kind)
    return with_division(data, options)


def require_used(options: object, kind: str) -> None:
    """Refuse an option that changes nothing for this kind of data."""
    declared = options_of(type(options))
    for name in given_options(options):
        if declared[name].kinds and kind not in declared[name].kinds:
            raise PellucidError(
                f"{{{name}}} changes nothing for {KINDS[kind].noun}", fix="Leave it out", options={name: None}
            )
