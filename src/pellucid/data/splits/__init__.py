"""Honest splits into train, dev and test, or train and test: what a user may ask of one, and every refusal that needs
no data.

split.py has `split_data`, assignment.py the strategies. Nothing heavy is loaded by this, so that a bad request is
refused at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.errors import PellucidError, quoted, require_one_of
from pellucid.options import option

if TYPE_CHECKING:
    from pellucid.data.kinds import Data

SIDES = ("train", "dev", "test")
TWO_SIDES = ("train", "test")
FRACTIONS = (0.8, 0.1, 0.1)
DEV_OF_TRAIN = 0.1  # the part of train that becomes dev where no dev side was asked for and choices are to be made
MOST_REPEATS = 1000
_PARTS = "Write parts such as 0.8,0.1,0.1, or 0.8,0.2 for train and test alone"

# Each strategy and what it is for.
STRATEGIES = {
    "hash": "by a hash of the item, the row or its key: nothing moves when rows are appended",
    "stratified": "the same part of every quantile bin, tail bins included: no side lacks the extremes",
    "time": "by an order column: train on what came first, test on what came last",
    "group": "by a hash of a group column: a group is never divided",
    "random": "by a seeded shuffle of the row numbers: to see what goes wrong",
}

# The options by which every command that trains on rows is told how they are divided.
DIVIDING = ("strategy", "group", "order")

# The columns that only some strategies ask for.
LISTENING = {"by": ("stratified",), "together_with": ("stratified",), "key": ("hash", "stratified")}

# Where an appended row may move old ones: quantiles, ranks and row numbers depend on all rows.
STABLE = ("hash", "group")


@dataclass(frozen=True)
class SplitRequest:
    """How to divide. Empty names are left to the data: a strategy is then proposed, with its reasons.

    >>> SplitRequest(strategy="time", order="seq_no").fractions
    (0.8, 0.1, 0.1)
    """

    strategy: str = option("", "How to split", choices=tuple(STRATEGIES))
    by: str = option("", "Numeric column whose quantile bins are the strata.", value_name="COLUMN")
    together_with: tuple[str, ...] = option(
        (), "Columns that divide each bin further.", flag="with", value_name="COLUMNS"
    )
    key: str = option("", "Column that stands for the row when it is hashed.", value_name="COLUMN")
    group: str = option("", "Column whose values are not to be divided.", value_name="COLUMN")
    order: str = option("", "Column that tells the order of the rows.", value_name="COLUMN")
    target: str = option("", "Column that is to be predicted.", value_name="COLUMN")
    fractions: tuple[float, ...] = FRACTIONS
    seed: str = ""
    repeats: int = 30  # splits over which the tail's wandering is measured

    def __post_init__(self) -> None:
        object.__setattr__(self, "fractions", require_fractions(self.fractions))
        if self.strategy:
            require_one_of("strategy", self.strategy, STRATEGIES)
        for name, strategies in LISTENING.items():
            if getattr(self, name) and self.strategy and self.strategy not in strategies:
                raise PellucidError(
                    f"{{{name}}} says nothing to the strategy {self.strategy}",
                    fix="Leave it out, or take {strategy}",
                    options={name: None, "strategy": strategies[0]},
                )
        if self.strategy == "group" and not self.group:
            raise PellucidError(
                "the strategy group needs to know the column",
                fix="Name it, as in {group}",
                options={"group": "customer"},
            )
        if self.key and self.group:
            raise PellucidError(
                "{key} and {group} both name what stays together",
                fix="Keep one of them",
                options={"key": None, "group": None},
            )
        if self.target and self.target in (self.key, self.group, self.order):
            raise PellucidError(
                f"{quoted(self.target)} is what is to be predicted, and cannot divide the rows",
                fix="Name another column",
            )
        if not 0 <= self.repeats <= MOST_REPEATS:
            raise PellucidError(
                f"{self.repeats} repeated splits are not possible", fix=f"Choose between 0 and {MOST_REPEATS}"
            )

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that are asked for.

        >>> SplitRequest(fractions=(0.8, 0.2)).sides
        ('train', 'test')
        """
        return SIDES if len(self.fractions) == len(SIDES) else TWO_SIDES

    def settings(self) -> dict[str, str]:
        """The options that ask for this again, by their names.

        >>> SplitRequest(strategy="time", order="seq_no").settings()
        {'strategy': 'time', 'order': 'seq_no', 'fractions': '0.8,0.1,0.1'}
        """
        chosen = {
            "strategy": self.strategy,
            "by": self.by,
            "with": ",".join(self.together_with),
            "key": self.key,
            "group": self.group,
            "order": self.order,
            "target": self.target,
            "fractions": ",".join(f"{part:g}" for part in self.fractions),
            "seed": self.seed,
        }
        return {name: value for name, value in chosen.items() if value}

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], fractions: Sequence[float]) -> "SplitRequest":
        """The request that has these settings. What they say of the fractions is rounded, and not looked at.

        >>> SplitRequest.from_settings({"strategy": "time", "order": "day", "fractions": "0.8,0.2"}, (0.8, 0.2)).order
        'day'
        """
        named = {
            name: str(settings.get(name, "")) for name in ("strategy", "by", "key", "group", "order", "target", "seed")
        }
        others = tuple(name for name in settings.get("with", "").split(",") if name)
        return cls(together_with=others, fractions=tuple(fractions), repeats=0, **named)


def require_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """The parts of train, dev and test, or of train and test alone, if they can be that.

    >>> require_fractions([0.5, 0.25, 0.25]), require_fractions([0.8, 0.2])
    ((0.5, 0.25, 0.25), (0.8, 0.2))
    """
    parts = tuple(float(part) for part in fractions)
    shown = ", ".join(f"{part:g}" for part in parts)
    sides = {len(SIDES): SIDES, len(TWO_SIDES): TWO_SIDES}.get(len(parts))
    fix = _PARTS
    if sides is None:
        raise PellucidError(
            f"{len(parts)} fractions came ({shown}), one is wanted for each of train, dev, test", fix=fix
        )
    for side, part in zip(sides, parts, strict=True):
        if not math.isfinite(part) or part <= 0:
            raise PellucidError(f"the fraction of {side} is {part:g}, and each has to be above 0", fix=fix)
    if abs(math.fsum(parts) - 1) > 1e-9:
        raise PellucidError(f"the fractions {shown} add up to {math.fsum(parts):.6g}, not to 1", fix=fix)
    return parts


def three_shares(fractions: Sequence[float]) -> tuple[float, float, float]:
    """The shares of train, dev and test; of two fractions dev has none.

    >>> three_shares((0.8, 0.2)), three_shares((0.8, 0.1, 0.1))
    ((0.8, 0.0, 0.2), (0.8, 0.1, 0.1))
    """
    first, *middle, last = fractions
    return first, sum(middle, 0.0), last


def training_cuts(fractions: Sequence[float]) -> tuple[float, float]:
    """Where train and dev end in what is divided in its own order, as a text is; dev is taken from train if need be.

    >>> training_cuts((0.8, 0.1, 0.1)), training_cuts((0.8, 0.2))
    ((0.8, 0.9), (0.72, 0.8))
    """
    train, dev, _ = three_shares(fractions)
    return (train, train + dev) if dev else (train - DEV_OF_TRAIN * train, train)


def dev_of_train(data: "Data") -> float:
    """The part of train that becomes dev when these data are trained on; 0 where they have a dev side of their own."""
    return DEV_OF_TRAIN if data.divided_by and data.divided_by.sides == TWO_SIDES else 0.0


def read_fractions(text: str) -> tuple[float, ...]:
    """The fractions in words such as 0.8,0.1,0.1 or 80/10/10; two are of train and test.

    >>> read_fractions("80/10/10"), read_fractions("0.8,0.2")
    ((0.8, 0.1, 0.1), (0.8, 0.2))
    """
    is_percent = "/" in text
    try:
        parts = [float(word) / (100 if is_percent else 1) for word in text.split("/" if is_percent else ",")]
    except ValueError as error:
        raise PellucidError(f"{quoted(text)} is not three fractions, nor two", fix=_PARTS) from error
    return require_fractions(parts)
