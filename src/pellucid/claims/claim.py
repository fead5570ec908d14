"""The card of a claim: a statement, an experiment, the rule that judges it, and a control in which it must fail.

Adding a family is adding one file to this room that ends with `FAMILY = ClaimFamily(...)`. What is heavy (torch, NumPy)
is imported inside `measure`, so that listing the claims stays fast.

    from pellucid.claims.claim import Claim, ClaimFamily, closeness

    @dataclass(frozen=True)
    class SquareKnobs:
        at: float = option(3.0, "Where the slope is taken.", minimum=-100, maximum=100)

        def __post_init__(self) -> None:
            check_options(self)

    def measure_slope(knobs: SquareKnobs) -> dict[str, float]:
        return {"slope": derive("x^2", x=knobs.at).gradients["x"]}

    Claim(
        id="square-slope",
        says="the slope of x² at 3 is 6",
        where="notes 1",
        kind="arithmetic",
        measure=measure_slope,
        decides="slope",
        margin=lambda seen: closeness(seen["slope"], 6, digits=0),
        rule="the slope equals 6 to the last digit that is stated",
        knobs=SquareKnobs,
        control={"at": 4.0},
    )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pellucid.cards import cards
from pellucid.errors import require_one_of
from pellucid.lessons.lesson import NoKnobs
from pellucid.options import options_of
from pellucid.records import ClaimKnob, ClaimMethod

# arithmetic: one computation. proof: every case of a finite set, or an identity. draws: random numbers, no training.
# cost: parameters, operations, bytes, seconds. training: networks are trained. history: nothing to run.
KINDS = ("arithmetic", "proof", "draws", "cost", "training", "history")
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Search:
    """A knob along which the turning point of a claim is searched, from one end to the other."""

    knob: str
    low: float
    high: float
    n_values: int = 9
    is_log: bool = False


@dataclass(frozen=True)
class Claim:
    """One statement. `margin` gives a number above 0 where a measurement speaks for it, and below where against.

    Without `measure` it cannot be tested, and `reason` says why. A claim with a `search` is meant for all of that
    knob's range: where its margin changes sign inside, its verdict is "only when", with the turning point.
    """

    id: str
    says: str
    where: str
    kind: str
    measure: Callable[[Any], Numbers] | None = None
    margin: Callable[[Numbers], float] | None = None
    rule: str = ""  # the judgement in words
    decides: str = ""  # the number that is shown first
    knobs: type = NoKnobs
    control: Mapping[str, float | str] = field(default_factory=dict)
    search: Search | None = None
    second: Callable[[Any], Numbers] | None = None  # some of the same numbers by another route, with usual knobs
    tolerance: float = 1e-6  # relative, between the two routes
    seeds: int = 1  # of the knob `seed`, where it draws or trains
    covers: tuple[str, ...] = ()
    reason: str = ""
    other_reading: str = ""
    stated: str = ""  # the number that a document gives, where the deciding one can be held against it
    surprise: str = ""  # why its result is worth a page: one sentence that names no number
    changed: str = ""  # what of its rule, set-up, seeds or control was changed after numbers were seen, and why

    def __post_init__(self) -> None:
        assert self.kind in KINDS, f"{self.id}: {self.kind} is no kind of claim"
        if self.measure is None:
            assert self.reason, f"{self.id} is not measured and does not say why"
            return
        assert self.margin, f"{self.id} has no margin"
        assert self.rule, f"{self.id} does not say by what rule it is judged"
        assert self.control, f"{self.id} has no control, so nothing shows that it could fail"
        names = {one.name for one in fields(self.knobs)}
        unknown = {*self.control, *([self.search.knob] if self.search else [])} - names
        assert not unknown, f"{self.id}: {unknown} are no knobs of it"
        assert self.seeds == 1 or "seed" in names, f"{self.id} wants {self.seeds} seeds and has no knob for them"

    @property
    def takes_data(self) -> bool:
        """Whether it can be asked of a user's own data."""
        return "data" in {one.name for one in fields(self.knobs)}

    @property
    def takes_division(self) -> bool:
        """Whether it trains on a table's rows, which can be divided in several ways."""
        return "strategy" in {one.name for one in fields(self.knobs)} and self.takes_data


@dataclass(frozen=True)
class ClaimFamily:
    """Claims that share a set-up and a picture."""

    name: str
    title: str
    claims: tuple[Claim, ...]
    picture: str = ""  # the lesson or figure that shows what they are about
    changed: str = ""  # of all of them, as `Claim.changed`

    def changes_of(self, claim: Claim) -> str:
        """What was changed of a claim, or of its whole family, after numbers were seen; "" where nothing was."""
        return "; ".join([text for text in (claim.changed, self.changed) if text])


def closeness(value: float, stated: float, digits: int) -> float:
    """By how much a number is within what rounding the stated one to so many decimals allows; below 0 it is outside.

    Both a rounded and a cut number count as stated, for people write both.

    >>> closeness(2.041667, 2.0417, 4) > 0, closeness(2.0425, 2.0417, 4) > 0
    (True, False)
    """
    unit = 10.0**-digits
    rounded, cut = abs(value - stated) <= unit / 2 * (1 + 1e-9), 0 <= abs(value) - abs(stated) < unit * (1 - 1e-9)
    is_same_sign = value * stated >= 0
    return unit - abs(value - stated) if rounded or (cut and is_same_sign) else unit / 2 - abs(value - stated)


def agreement(*pairs: tuple[float, float], tolerance: float = 1e-9) -> float:
    """Above 0 where the numbers of every pair are equal but for a relative tolerance.

    >>> agreement((1.0, 1.0 + 1e-12)) > 0, agreement((1.0, 1.0), (2.0, 2.1)) > 0
    (True, False)
    """
    return tolerance - max(abs(a - b) / max(1.0, abs(a), abs(b)) for a, b in pairs)


def yes(is_so: object) -> float:
    """The margin of a yes or no: 1 or -1."""
    return 1.0 if is_so else -1.0


def describe_method(family: ClaimFamily, claim: Claim) -> ClaimMethod | None:
    """How a claim is tested: what its measurement says of itself, its knobs, and the picture of its family."""
    if claim.measure is None:
        return None
    usual = {one.name: one.default for one in fields(claim.knobs)}
    knobs = tuple(
        ClaimKnob(name, usual[name], one.help, one.choices, one.minimum, one.maximum)
        for name, one in options_of(claim.knobs).items()
    )
    done, second = _sentence_of(claim.measure), _sentence_of(claim.second)
    return ClaimMethod(done, second, knobs, family.picture, claim.takes_data, family.changes_of(claim))


def _sentence_of(function: Callable[[Any], Numbers] | None) -> str:
    """The docstring of a function in one line; "" where it has none."""
    return " ".join((function.__doc__ or "").split()) if function is not None else ""


def all_families() -> dict[str, ClaimFamily]:
    """Every family by its name."""
    return cards("pellucid.claims", "FAMILY", ClaimFamily)


def all_claims() -> dict[str, tuple[ClaimFamily, Claim]]:
    """Every claim by its id, with its family."""
    found: dict[str, tuple[ClaimFamily, Claim]] = {}
    for family in all_families().values():
        for claim in family.claims:
            assert claim.id not in found, f"two claims are called {claim.id}"
            found[claim.id] = family, claim
    return found


def find_claim(name: str) -> tuple[ClaimFamily, Claim]:
    """The claim of that id, or of another id that it covers; an unknown one is answered with the nearest."""
    known = all_claims()
    covering = {other: pair for pair in known.values() for other in pair[1].covers}
    require_one_of("claim", name, {**covering, **known})
    return known.get(name) or covering[name]
