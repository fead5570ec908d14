"""What a split's numbers say, in plain sentences, and whether something is wrong."""

from collections.abc import Sequence

from pellucid.data.splits.distributions import largest_distance
from pellucid.data.splits.proposal import does_matter, worst_drift
from pellucid.records import Agreement, Drift, Straddle, Wander

WANDERS = 1.5  # a random split wanders when its range is this many times the stratified one's


def verdict(
    strategy: str,
    noun: str,
    straddles: Sequence[Straddle],
    agreements: Sequence[Agreement],
    drifts: Sequence[Drift],
    wanders: Sequence[Wander],
) -> tuple[tuple[str, ...], bool]:
    """Sentences, the gravest first, and whether any of them tells of something wrong. noun: rows, items or sources."""
    leaks = _twins("Leak", noun, [one for one in straddles if one.is_leak])
    ahead = _looks_ahead(strategy, drifts)
    said = [*leaks, *ahead]
    if not leaks:
        checked = " and ".join(dict.fromkeys(one.what for one in straddles if one.is_leak))
        said.append(f"No leak: there are no {checked} on different sides." if checked else "No leak was looked for.")
    said += (
        _twins("Near-duplicates", noun, [one for one in straddles if not one.is_leak])
        + _agreement(strategy, agreements)
        + _wandering(wanders)
    )
    return tuple(said), bool(leaks or ahead)


def _looks_ahead(strategy: str, drifts: Sequence[Drift]) -> list[str]:
    worst = worst_drift(drifts)
    if worst is None or not does_matter(worst) or strategy == "time":
        return []
    moved = f"{worst.column} drifts along {worst.order} ({worst.measure} {worst.distance:.3g})"
    return [f"It looks ahead: {moved}, and train holds rows later than test's. Take --strategy time."]


def _twins(word: str, noun: str, straddles: Sequence[Straddle]) -> list[str]:
    """A sentence for each kind of twins that were found on dev or test and in train."""
    said = []
    for what in dict.fromkeys(one.what for one in straddles):
        found = [one for one in straddles if one.what == what and one.n_shared]
        parts = [
            f"{one.n_shared:,} of {one.n_rows:,} {one.side} {noun} ({percent(one.n_shared / one.n_rows)})"
            for one in found
        ]
        if parts:
            said.append(f"{word}: {' and '.join(parts)} have a twin in train: {what}.")
    return said


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
    if not wanders:
        return []
    said = []
    for one in wanders:
        loose, tight = max(one.at_random) - min(one.at_random), max(one.stratified) - min(one.stratified)
        if loose > 0 and loose >= WANDERS * tight:
            said.append(
                f"its {one.statistic} from {_range(one.at_random, one)} (stratified {_range(one.stratified, one)})"
            )
    if not said:
        return ["A random split would not let the tail wander more than a stratified one does."]
    n = len(wanders[0].at_random)
    return [f"A random split lets the tail of {wanders[0].column} wander: over {n} of them test had {', '.join(said)}."]


def _range(values: Sequence[float], one: Wander) -> str:
    low, high = min(values), max(values)
    return f"{percent(low)} to {percent(high)}" if one.is_share else f"{low:.6g} to {high:.6g}"


def percent(share: float) -> str:
    """
    >>> percent(0.8), percent(0.0123)
    ('80.0 %', '1.23 %')
    """
    return f"{100 * share:.{1 if share >= 0.0995 else 2}f} %"
