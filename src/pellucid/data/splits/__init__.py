"""Honest splits into train, dev and test: what a user may ask of one, and every refusal that needs no data.

split.py has `split_data`, assignment.py the strategies. Nothing heavy is loaded by this, so that a bad request is
refused at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.errors import PellucidError, quoted, require_one_of
from pellucid.options import option

SIDES = ("train", "dev", "test")
FRACTIONS = (0.8, 0.1, 0.1)
MOST_REPEATS = 1000

# Each strategy and what it is for.
STRATEGIES = {
    "hash": "by a hash of the item, the row or its key: nothing moves when rows are appended",
    "stratified": "the same part of every quantile bin, tail bins included: no side lacks the extremes",
    "time": "by an order column: train on what came first, test on what came last",
    "group": "by a hash of a group column: a group is never divided",
    "random": "by a seeded shuffle of the row numbers: to see what goes wrong",
}

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


def require_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    """The three parts of train, dev and test, if they can be that.

    >>> require_fractions([0.5, 0.25, 0.25])
    (0.5, 0.25, 0.25)
    """
    parts = tuple(float(part) for part in fractions)
    shown = ", ".join(f"{part:g}" for part in parts)
    fix = "Write three parts such as 0.8,0.1,0.1"
    if len(parts) != len(SIDES):
        raise PellucidError(
            f"{len(parts)} fractions came ({shown}), one is wanted for each of train, dev, test", fix=fix
        )
    for side, part in zip(SIDES, parts, strict=True):
        if not math.isfinite(part) or part <= 0:
            raise PellucidError(f"the fraction of {side} is {part:g}, and each has to be above 0", fix=fix)
    if abs(math.fsum(parts) - 1) > 1e-9:
        raise PellucidError(f"the fractions {shown} add up to {math.fsum(parts):.6g}, not to 1", fix=fix)
    return parts


def read_fractions(text: str) -> tuple[float, ...]:
    """The fractions in words such as 0.8,0.1,0.1 or 80/10/10.

    >>> read_fractions("80/10/10")
    (0.8, 0.1, 0.1)
    """
    is_percent = "/" in text
    try:
        parts = [float(word) / (100 if is_percent else 1) for word in text.split("/" if is_percent else ",")]
    except ValueError as error:
        raise PellucidError(
            f"{quoted(text)} is not three fractions", fix="Write three parts such as 0.8,0.1,0.1"
        ) from error
    return require_fractions(parts)
