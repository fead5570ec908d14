"""What testing a claim gave: its verdict, the numbers that decide it, and where it turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

VERDICTS = ("holds", "fails", "only when", "not decided", "not testable")


class ClaimNumber(NamedTuple):
    """A number over several seeds: its mean and the 95 % interval of that; of one seed it is the number itself."""

    name: str
    mean: float
    low: float
    high: float
    second: float | None = None  # the same by another route


class ClaimKnob(NamedTuple):
    """A knob of a claim: its usual value, and what it may be."""

    name: str
    usual: object
    help: str
    choices: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None


class ClaimMethod(NamedTuple):
    """How a claim is tested, as its card says it."""

    done: str  # what is measured, in a sentence or two
    second: str = ""  # the other route to some of the numbers
    knobs: tuple[ClaimKnob, ...] = ()
    picture: str = ""  # the lesson or figure that shows what it is about
    takes_data: bool = False
    changed: str = ""  # what was changed after numbers were seen


class TurningPoint(NamedTuple):
    """Where along a knob a claim turns, as far as a search told."""

    knob: str
    holds_at: float  # the last value tried at which it holds
    fails_at: float  # and the nearest one at which it does not
    lowest: float  # what was searched
    highest: float

    @property
    def holds_above(self) -> bool:
        return self.holds_at > self.fails_at


@dataclass(frozen=True)
class ClaimResult:
    """A claim that was run. Above 0, `margin` speaks for it."""

    id: str
    family: str
    where: str
    statement: str
    kind: str
    verdict: str
    rule: str  # by which it was judged, written before it was run
    covers: tuple[str, ...] = ()  # other ids that it decides
    margin: ClaimNumber | None = None
    numbers: tuple[ClaimNumber, ...] = ()
    deciding: str = ""  # the name of one of the numbers
    condition: TurningPoint | None = None
    curve: tuple[tuple[float, float], ...] = ()  # the knob that it turns on, and the margin there
    control: Mapping[str, object] = field(default_factory=dict)  # knobs with which it must come out the other way
    control_margin: float | None = None
    knobs: Mapping[str, object] = field(default_factory=dict)  # those that were set
    seeds: int = 0
    seconds: float = 0.0
    timed_by: str = "clock"  # or "processor", whose seconds do not depend on what else the machine does
    version: str = ""
    reason: str = ""  # why it cannot be tested
    other_reading: str = ""  # where the statement can be read in two ways
    method: ClaimMethod | None = None  # where it is told in full; the stored ledger has none


class Ledger(NamedTuple):
    """Results of many claims, in the order of their families."""

    results: tuple[ClaimResult, ...]
    changed: Mapping[str, str] = {}  # of claims whose verdict is another than the stored one: the stored one
    refused: Mapping[str, str] = {}  # claims that could not be asked of the data, and why


__all__ = ["VERDICTS", "ClaimKnob", "ClaimMethod", "ClaimNumber", "ClaimResult", "Ledger", "TurningPoint"]
