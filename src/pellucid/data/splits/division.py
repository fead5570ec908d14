"""Dividing data: which side each row stands on, and the report that comes with it."""

from dataclasses import dataclass, replace

import numpy as np

from pellucid.data.kinds import ListData, PairsData, TableData
from pellucid.data.splits.agreement import agreements
from pellucid.data.splits.duplicates import MOST_EXAMPLES, is_in_train, straddles, twins
from pellucid.data.splits.hashing import item_hashes
from pellucid.data.splits.levels import Levels
from pellucid.data.splits.near import MOST_CHARACTERS, folded, is_one_edit, one_edit_apart
from pellucid.data.splits.request import SIDES, STABLE, SplitRequest
from pellucid.data.splits.sides import Sides, at_random, by_hash
from pellucid.data.splits.tables import examine
from pellucid.data.splits.verdict import verdict
from pellucid.errors import PellucidError, printable
from pellucid.records import SplitReport, Straddle

Divisible = ListData | PairsData | TableData


@dataclass(frozen=True)
class Division:
    """sides: (row,), places in SIDES."""

    sides: Sides
    report: SplitReport


def divide(data: Divisible, request: SplitRequest | None = None) -> Division:
    """Divide a list, pairs or a table as asked, or as the data propose, and look at what came out."""
    request = request or SplitRequest()
    division = Division(*examine(data, request)) if isinstance(data, TableData) else _divide_items(data, request)
    for side, size in division.report.sizes.items():
        if not size:
            raise PellucidError(
                f"the {side} side of {len(division.sides):,} rows, {division.report.n_distinct:,} different ones, "
                "came out empty",
                where=f"in {data.name}",
                fix="Give more rows, a larger fraction or another --seed",
            )
    return division


def _divide_items(data: ListData | PairsData, request: SplitRequest) -> Division:
    for option, value in (
        ("--by", request.by),
        ("--with", "".join(request.together_with)),
        ("--key", request.key),
        ("--group", request.group),
        ("--order", request.order),
    ):
        if value:
            raise PellucidError(f"{option} names a column, and {data.name} has none", fix="Leave it out")
    if request.strategy not in ("", "hash", "random"):
        raise PellucidError(
            f"the strategy {request.strategy} needs columns, and {data.name} has none", fix="Take --strategy hash"
        )
    items = data.items if isinstance(data, ListData) else [source for source, _ in data.pairs]
    noun = "items" if isinstance(data, ListData) else "sources"
    strategy = request.strategy or "hash"
    hashes = item_hashes(items, request.seed)
    if strategy == "hash":
        sides = by_hash(hashes, request.fractions)
    else:
        sides = at_random(len(items), request.fractions, request.seed)
    found = twins(hashes, sides)
    straddling = straddles(found, sides, f"equal {noun}", is_leak=True, show=lambda row: printable(items[row][:60]))
    near, notes = _near(items, sides, noun)
    straddling += near
    lengths = np.array([len(item) for item in items])
    length = Levels("length", True, np.arange(int(lengths.max(initial=0)) + 1), lengths, False)
    compared = agreements(length, length.counts(sides, len(SIDES)))
    sentences, is_wrong = verdict(strategy, noun, straddling, compared, (), ())
    sizes = np.bincount(sides, minlength=len(SIDES)).tolist()
    because = () if request.strategy else (f"equal {noun} share a side, and adding a line moves no other",)
    report = SplitReport(
        name=data.name,
        kind=data.kind,
        said=data.said,
        strategy=strategy,
        settings=replace(request, strategy=strategy).settings(),
        is_proposed=not request.strategy,
        because=because,
        is_stable=strategy in STABLE,
        fractions=request.fractions,
        sizes=dict(zip(SIDES, sizes, strict=True)),
        n_distinct=found.n_distinct,
        agreements=compared,
        tails=(),
        straddles=straddling,
        drifts=(),
        wanders=(),
        notes=(*data.notes, *notes),
        verdict=sentences,
        has_found_something_wrong=is_wrong,
    )
    return Division(sides, report)


def _near(items: list[str], sides: Sides, noun: str) -> tuple[list[Straddle], list[str]]:
    """Near-duplicates of dev and test items in train, copies left out, and notes on what was not looked for."""
    is_copy = is_in_train(item_hashes(items), sides)
    is_alike = is_in_train(item_hashes([folded(item) for item in items]), sides) & ~is_copy
    alike = f"{noun} equal but for case, spaces and punctuation"
    found = {alike: is_alike}
    notes = []
    train = [items[row] for row in np.flatnonzero(sides == 0)]
    n_characters = sum(map(len, items))
    if n_characters <= MOST_CHARACTERS:
        held = np.flatnonzero((sides > 0) & ~is_copy & ~is_alike)
        is_close = np.zeros(len(items), dtype=bool)
        is_close[held] = one_edit_apart([items[row] for row in held], train)
        found[f"{noun} one edit apart, 4 to 32 characters long"] = is_close
    else:
        notes.append(f"{noun} one edit apart were not looked for: {n_characters:,} characters are too many")
    straddling = []
    for what, is_near in found.items():
        for number, side in enumerate(SIDES[1:], 1):
            rows = np.flatnonzero(is_near & (sides == number))
            examples = [_with_twin(items[row], train, what == alike) for row in rows[:MOST_EXAMPLES]]
            straddling.append(Straddle(what, side, len(rows), int((sides == number).sum()), False, tuple(examples)))
    return straddling, notes


def _with_twin(item: str, train: list[str], is_alike: bool) -> str:
    """The item and the first training item that it nearly is."""
    if is_alike:
        twin = next(other for other in train if folded(other) == folded(item))
    else:
        twin = next(other for other in train if is_one_edit(item, other))
    return f"{printable(item[:40])} ~ {printable(twin[:40])}"
