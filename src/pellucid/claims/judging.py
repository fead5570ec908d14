"""Runs a claim and judges it: over its seeds, along its knob, in its control, and by a second route.

The rule is the same for all. Each run gives a margin, above 0 where it speaks for the claim. Over several seeds the
margins have a mean and a 95 % interval (Student's t): all of it above 0 the claim holds, all below it fails, between it
is not decided. A claim that is searched along a knob is tried at values over the whole range first; where the margin
changes its sign once, the place is closed in on by halving, to the next whole number, to a hundredth, or until the
interval of a value in between holds 0. Both sides of the place are values at which the claim is decided by itself.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from pellucid import __version__
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.errors import PellucidError, require_one_of
from pellucid.options import options_of, types_of
from pellucid.records import ClaimNumber, ClaimResult, TurningPoint

Found = tuple[str, TurningPoint | None, tuple[tuple[float, float], ...]]  # verdict, where it turns, what was tried

HALVINGS = 12
NEAR = 0.01  # of a turning point: relative


def run_claim(
    family: ClaimFamily,
    claim: Claim,
    given: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    on_run: Callable[[], None] = lambda: None,
) -> ClaimResult:
    """One claim with the knobs that were given. on_run: called after each measurement, such as to show progress."""
    asked = dict(given or {})
    result = ClaimResult(
        id=claim.id,
        family=family.name,
        where=claim.where,
        statement=claim.says,
        kind=claim.kind,
        verdict="not testable",
        rule=claim.rule,
        covers=claim.covers,
        knobs=asked,
        version=__version__,
        reason=claim.reason,
        other_reading=claim.other_reading,
    )
    if claim.measure is None:
        return result
    began = cpu_seconds()
    n_seeds = claim.seeds if seeds is None or claim.seeds == 1 else seeds
    measurer = _Measurer(claim, n_seeds, on_run)
    runs = measurer.measure(asked)
    margins = _margins(claim, runs)
    margin = interval("margin", margins)
    found: Found = _judge(margin), None, ()
    if claim.search and claim.search.knob not in asked:
        found = _search(claim, claim.search, asked, measurer)
    others = measurer.measure_again(asked) if not set(asked) - {"data"} else []
    seconds = {name: interval(name, [one[name] for one in others]).mean for name in (others[0] if others else {})}
    numbers = tuple(interval(name, [run[name] for run in runs])._replace(second=seconds.get(name)) for name in runs[0])
    for number in numbers:
        _require_same(claim, number)
    control = measurer.measure({**asked, **claim.control})
    verdict, condition, curve = found
    return replace(
        result,
        verdict=verdict,
        margin=margin,
        numbers=numbers,
        deciding=claim.decides or numbers[0].name,
        condition=condition,
        curve=curve,
        control=claim.control,
        control_margin=statistics.fmean(_margins(claim, control)),
        seeds=n_seeds,
        seconds=cpu_seconds() - began,
        timed_by="processor",
    )


def cpu_seconds() -> float:
    """Seconds that processors have worked for this process and its children; a crowded machine adds none to them."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def control_turns(result: ClaimResult) -> bool:
    """Whether the control came out the other way than the claim does by itself."""
    if result.margin is None or result.control_margin is None:
        return result.verdict == "not testable"
    return (result.control_margin > 0) != (result.margin.mean > 0)


def _judge(margin: ClaimNumber) -> str:
    return "holds" if margin.low > 0 else "fails" if margin.high <= 0 else "not decided"


def interval(name: str, values: Sequence[float]) -> ClaimNumber:
    """The mean with its 95 % interval; without one where there is one value.

    >>> found = interval("x", [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> found.mean, round(found.low, 2), round(found.high, 2)
    (3.0, 1.04, 4.96)
    """
    mean = statistics.fmean(values) if all(map(math.isfinite, values)) else values[0]
    from pellucid.records.intervals import student_factor

    if len(values) == 1 or not math.isfinite(mean):
        return ClaimNumber(name, float(mean), float(mean), float(mean))
    reach = student_factor(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return ClaimNumber(name, mean, mean - reach, mean + reach)


class _Measurer:
    """Measures a claim with each of its seeds, and what it has measured once not again."""

    def __init__(self, claim: Claim, n_seeds: int, on_run: Callable[[], None]) -> None:
        self.claim, self.n_seeds, self.on_run = claim, n_seeds, on_run
        self.known: dict[Any, Numbers] = {}

    def measure(self, asked: Mapping[str, Any]) -> list[Numbers]:
        return [self._measure_one(_knobs(self.claim, asked, seed)) for seed in self._seeds()]

    def measure_again(self, asked: Mapping[str, Any]) -> list[Numbers]:
        """By the other route, with each seed; nothing where there is none. It need not follow all knobs."""
        second = self.claim.second
        return [second(_knobs(self.claim, asked, seed)) for seed in self._seeds()] if second else []

    def _seeds(self) -> range:
        first = _first_seed(self.claim)
        return range(first, first + self.n_seeds)

    def _measure_one(self, knobs: Any) -> Numbers:
        assert self.claim.measure
        if knobs not in self.known:
            self.known[knobs] = self.claim.measure(knobs)
            self.on_run()
        return self.known[knobs]


def _first_seed(claim: Claim) -> int:
    return next((one.default for one in fields(claim.knobs) if one.name == "seed"), 0)  # type: ignore[return-value]


def _knobs(claim: Claim, asked: Mapping[str, Any], seed: int) -> Any:
    has_seed = "seed" in {one.name for one in fields(claim.knobs)}
    return claim.knobs(**({"seed": seed} if has_seed else {}), **{k: v for k, v in asked.items() if k != "seed"})


def _margins(claim: Claim, runs: Sequence[Numbers]) -> list[float]:
    assert claim.margin
    return [float(claim.margin(run)) for run in runs]


def _require_same(claim: Claim, number: ClaimNumber) -> None:
    """Two routes to one number that disagree are a bug of ours, whatever the claim says."""
    mean, second = number.mean, number.second
    if second is not None:
        is_same = abs(mean - second) <= claim.tolerance * max(1.0, abs(mean), abs(second)) or mean == second
        assert is_same, f"{claim.id}: {number.name} is {mean!r} by one route and {second!r} by another"


def _search(claim: Claim, search: Search, asked: Mapping[str, Any], measurer: _Measurer) -> Found:
    """The verdict over the whole range of a knob, with the place where it turns and all that was tried."""
    is_whole = types_of(claim.knobs)[search.knob] is int
    tried: dict[float, ClaimNumber] = {}

    def margin_at(value: float) -> ClaimNumber:
        if value not in tried:
            setting = {**asked, search.knob: int(value) if is_whole else value}
            tried[value] = interval("margin", _margins(claim, measurer.measure(setting)))
        return tried[value]

    values = _spread(search, is_whole)
    signs = [margin_at(value).mean > 0 for value in values]
    turns = [at for at in range(1, len(values)) if signs[at] != signs[at - 1]]
    if not turns:
        verdict = _judge(min((tried[value] for value in values), key=lambda one: abs(one.mean)))
        return verdict, None, _curve(tried)
    # The nearest values on both sides that are decided by themselves.
    below = [value for value in values[: turns[0]] if _judge(tried[value]) != "not decided"]
    above = [value for value in values[turns[0] :] if _judge(tried[value]) != "not decided"]
    if len(turns) > 1 or not below or not above:
        return "not decided", None, _curve(tried)
    low, high = below[-1], above[0]
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high) if search.is_log else (low + high) / 2
        middle = float(round(middle)) if is_whole else middle
        if middle in (low, high) or abs(high - low) <= NEAR * max(abs(low), abs(high)) * (not is_whole):
            break
        judged = _judge(margin_at(middle))
        if judged == "not decided":  # so near to the turn that these seeds cannot tell
            break
        low, high = (middle, high) if judged == _judge(tried[low]) else (low, middle)
    holds, fails = (low, high) if signs[0] else (high, low)
    return "only when", TurningPoint(search.knob, holds, fails, search.low, search.high), _curve(tried)


def _spread(search: Search, is_whole: bool) -> list[float]:
    steps = [at / (search.n_values - 1) for at in range(search.n_values)]
    if search.is_log:
        values = [search.low * (search.high / search.low) ** step for step in steps]
    else:
        values = [search.low + (search.high - search.low) * step for step in steps]
    return list(dict.fromkeys([float(round(value)) if is_whole else value for value in values]))


def _curve(tried: Mapping[float, ClaimNumber]) -> tuple[tuple[float, float], ...]:
    return tuple((value, tried[value].mean) for value in sorted(tried))


def require_knobs(claim: Claim, given: Mapping[str, object]) -> None:
    """Refuse a knob that the claim does not have, or a value that it cannot have."""
    known = options_of(claim.knobs)
    for name in given:
        if not known:
            raise PellucidError(f"{claim.id} has no knobs", fix=f"Leave {name} out")
        require_one_of("knob", name, known)
    claim.knobs(**given)


def read_knobs(claim: Claim, given: Mapping[str, str]) -> dict[str, Any]:
    """Knobs that came as words, as the numbers that they are."""
    types = types_of(claim.knobs)
    read: dict[str, Any] = {}
    for name, text in given.items():
        name = name.replace("-", "_")
        try:
            read[name] = types.get(name, str)(text)
        except ValueError:
            raise PellucidError(f"{name} is {text!r}, which is no number", fix=f"Write {name}=2") from None
    require_knobs(claim, read)
    return read
