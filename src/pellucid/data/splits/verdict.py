"""What a split's numbers say, in plain sentences, and whether something is wrong."""

from collections.abc import Sequence

from pellucid.data.splits.agreement import largest_distance
from pellucid.data.splits.proposal import DRIFT_MATTERS
from pellucid.records import Agreement, Drift, Straddle, Wander

WANDERS = 1.5  # a random split wanders when its range is this many times the stratified one's


def verdict(
    strategy: str,
    straddles: Sequence[Straddle],
    agreements: Sequence[Agreement],
    drifts: Sequence[Drift],
    wanders: Sequence[Wander],
) -> tuple[tuple[str, ...], bool]:
    """Sentences, the gravest first, and whether any of them tells of something wrong."""
    leaks = [
        f"Leak: {one.n_shared:,} of {one.n_rows:,} {one.side} rows ({_percent(one.n_shared / one.n_rows)}) "
        f"have a twin in train: {one.what}."
        for one in straddles
        if one.is_leak and one.n_shared
    ]
    ahead = _looks_ahead(strategy, drifts)
    said = [*leaks, *ahead]
    if not leaks:
        checked = " and ".join(dict.fromkeys(one.what for one in straddles if one.is_leak))
        said.append(f"No leak: there are no {checked} on different sides." if checked else "No leak was looked for.")
    said += _near(straddles) + _agreement(strategy, agreements) + _wandering(wanders)
    return tuple(said), bool(leaks or ahead)


def _looks_ahead(strategy: str, drifts: Sequence[Drift]) -> list[str]:
    worst = max(drifts, key=lambda one: one.distance, default=None)
    if worst is None or worst.distance < DRIFT_MATTERS:
        return []
    moved = f"{worst.column} drifts along {worst.order} ({worst.measure} {worst.distance:.3g})"
    if strategy == "time":
        return []
    return [f"It looks ahead: {moved}, and train holds rows later than test's. Take --strategy time."]


def _near(straddles: Sequence[Straddle]) -> list[str]:
    near = [one for one in straddles if not one.is_leak and one.n_shared]
    return [
        f"Near-duplicates: {one.n_shared:,} of {one.n_rows:,} {one.side} rows ({_percent(one.n_shared / one.n_rows)}) "
        f"have one in train: {one.what}."
        for one in near
    ]


def _agreement(strategy: str, agreements: Sequence[Agreement]) -> list[str]:
    worst = largest_distance(agreements)
    if not isinstance(worst, Agreement):
        return []
    number = f"{worst.column} on {worst.side}, {worst.measure} {worst.distance:.3g}"
    chance = f"where chance alone gives up to {worst.by_chance:.3g}"
    if worst.distance <= worst.by_chance:
        return [f"The sides agree: farthest from train is {number}, {chance}."]
    if strategy == "time":
        return [f"The future differs from the past: farthest from train is {number}, {chance}. Scores will show it."]
    return [f"The sides differ: farthest from train is {number}, {chance}."]


def _wandering(wanders: Sequence[Wander]) -> list[str]:
    said = []
    for one in wanders:
        loose, tight = max(one.at_random) - min(one.at_random), max(one.stratified) - min(one.stratified)
        if loose > 0 and loose >= WANDERS * tight:
            said.append(f"{one.statistic} of {one.column} {_range(one.at_random, one)} ({_range(one.stratified, one)})")
    if not said:
        return ["A random split would not let the tail wander more than a stratified one."] if wanders else []
    n = len(wanders[0].at_random)
    return [
        f"A random split lets the tail wander. On test, over {n} random splits (stratified ones): {'; '.join(said)}."
    ]


def _range(values: Sequence[float], one: Wander) -> str:
    low, high = min(values), max(values)
    return f"{_percent(low)} to {_percent(high)}" if one.is_share else f"{low:,.6g} to {high:,.6g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
