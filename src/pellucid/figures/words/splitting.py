"""A split's report as words and tables for a terminal."""

import math
import shlex
from collections.abc import Iterator, Sequence

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Cell, Part, Table, heading, indent, right
from pellucid.figures.words.answers import describe_source
from pellucid.figures.words.notation import percent, short
from pellucid.figures.words.notes import note_sentences, plain_with_notes
from pellucid.records import (
    Agreement,
    Drift,
    GroupColumn,
    HeavyTail,
    Leak,
    OrderColumn,
    SplitChoice,
    SplitReport,
    Straddle,
    Wander,
)
from pellucid.records.splitting import DRIFT_MATTERS, worst_drift

SHARED_TARGET = 0.01  # what is written as 0.00 is not said
WANDERS = 1.5  # a random split wanders when its range is this many times the stratified one's
MOST_COLUMNS = 20  # of a table that are listed one by one


def split_parts(report: SplitReport) -> Iterator[Part]:
    """What a terminal shows of a split."""
    yield Text(printable(describe_source(report.description, report.kind, report.is_file)))
    yield from _strategy(report)
    yield heading("Sides")
    yield _sides(report)
    if report.agreements:
        yield heading("How far each column is from train")
        yield from _agreements(report)
    for column in dict.fromkeys(tail.column for tail in report.tails):
        yield heading(f"The tail of {column}")
        yield _tails(report, column)
    if report.wanders:
        first = report.wanders[0]
        yield heading(f"How far the tail of test wanders over {len(first.at_random)} splits by other seeds")
        yield _wanders(report)
    if report.drifts:
        yield heading(f"Along {report.drifts[0].order}: how far the last fifth is from the first")
        yield _drifts(report)
    yield heading("Twins in train")
    yield _straddles(report)
    if report.notes:
        yield heading("Notes")
        for sentence in note_sentences(report.notes):
            yield indent(Text(printable(sentence)))
    yield heading("Verdict")
    for number, sentence in enumerate(verdict_sentences(report)):
        is_grave = report.has_found_something_wrong and number == 0
        yield indent(Text(printable(sentence), style="bold red" if is_grave else "bold"))


def split_json(report: SplitReport) -> dict[str, object]:
    """The report as JSON can hold it, with the sentences that a terminal shows."""
    return {**plain_with_notes(report), "because": reasons(report), "verdict": verdict_sentences(report)}


def _strategy(report: SplitReport) -> Iterator[Part]:
    yield heading(f"Strategy: {report.strategy}{', proposed and used' if report.is_proposed else ''}")
    for number, reason in enumerate(reasons(report)):
        yield indent(Text(f"{'and' if number else 'because'} {printable(reason)}"))
    options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in report.settings.items())
    yield indent(Text(f"again  {printable(options)}", "dim"))
    stays = (
        "old rows keep their sides when rows are appended"
        if report.is_stable
        else "appending rows may move old ones; of all strategies only hash and group never do that"
    )
    yield indent(Text(stays, "dim"))


def _sides(report: SplitReport) -> Part:
    n = sum(report.sizes.values())
    table = Table("side", *right("rows", "share", "asked"))
    for (side, size), part in zip(report.sizes.items(), report.fractions, strict=True):
        table.add(side, f"{size:,}", percent(size / n), percent(part))
    return indent(table)


def _agreements(report: SplitReport) -> Iterator[Part]:
    held = [side for side in report.sizes if side != "train"]
    table = Table("column", "measure", *right(*held, "chance, 1 in 100 of all"), n_keys=2)
    rows: dict[str, dict[str, float]] = {}
    words: dict[str, tuple[str, float]] = {}
    for one in report.agreements:
        rows.setdefault(one.column, {})[one.side] = one.distance
        words[one.column] = (one.measure, max(one.by_chance, words.get(one.column, ("", 0.0))[1]))
    for column, distances in list(rows.items())[:MOST_COLUMNS]:
        measure, by_chance = words[column]
        cells = [_distance_cell(distances[side], by_chance) for side in held]
        table.add(column, measure, *cells, f"{by_chance:.4f}")
    yield indent(table)
    if len(rows) > MOST_COLUMNS:
        yield indent(Text(f"… and {len(rows) - MOST_COLUMNS:,} more columns; --json has them all", "dim"))


def _tails(report: SplitReport, column: str) -> Part:
    marks = right("mean", "median", "90 %", "99 %", "99.9 %", "largest", "tail index", "rows in the top 1 % of all")
    table = Table("side", *marks)
    for tail in report.tails:
        if tail.column == column:
            numbers = (tail.mean, tail.median, tail.q90, tail.q99, tail.q999, tail.largest)
            index = "not known" if tail.tail_index is None else f"{tail.tail_index:.2f}"
            share = "not known" if tail.top_share is None else percent(tail.top_share)
            table.add(tail.side, *[_number_words(number) for number in numbers], index, share)
    return indent(table)


def _wanders(report: SplitReport) -> Part:
    table = Table("on test", *right("all rows", "random, from", "to", "stratified, from", "to"))
    for one in report.wanders:
        write = percent if one.is_share else _number_words
        ends = [min(one.at_random), max(one.at_random), min(one.stratified), max(one.stratified)]
        whole = "" if one.is_share else _number_words(one.whole)
        table.add(f"{one.statistic} of {one.column}", whole, *(write(end) for end in ends))
    return indent(table)


def _drifts(report: SplitReport) -> Part:
    table = Table("column", "measure", *right("distance", "chance, 1 in 100"), n_keys=2)
    for one in report.drifts[:MOST_COLUMNS]:
        table.add(one.column, one.measure, _distance_cell(one.distance, one.by_chance), f"{one.by_chance:.4f}")
    return indent(table)


def _straddles(report: SplitReport) -> Part:
    held = [side for side in report.sizes if side != "train"]
    table = Table("what", *right(*[f"of {side}" for side in held]), "such as")
    for what in dict.fromkeys(one.what for one in report.straddles):
        both = {one.side: one for one in report.straddles if one.what == what}
        examples = dict.fromkeys(example for one in both.values() for example in one.examples)
        table.add(
            Cell(what, "red" if any(one.is_leak and one.n_shared for one in both.values()) else ""),
            *(f"{both[side].n_shared:,}" for side in held),
            Cell("; ".join(list(examples)[:3]), "dim"),
        )
    return indent(table)


def _distance_cell(distance: float, by_chance: float) -> Cell:
    return Cell(f"{distance:.4f}", "yellow" if distance > by_chance else "")


def _number_words(number: float | None) -> str:
    return "not known" if number is None or math.isnan(number) else short(number)


def reasons(report: SplitReport) -> list[str]:
    """Why the split was made in this way, as far as the user left that to the data."""
    order, tail = report.order, report.heavy_tail
    if not report.is_proposed:
        if report.strategy == "time" and "order" not in report.asked and order:
            return [_order_sentence(order)]
        if report.strategy == "stratified" and "by" not in report.asked:
            return [f"{report.settings['by']} is the most skewed column; --by names another"]
        return []
    if report.kind != "table":
        return [f"equal {_noun(report)} share a side, and adding a line moves no other"]
    if "group" in report.asked:
        return [f"--group says that {report.asked['group']} is not to be divided"]
    if "key" in report.asked:
        return [f"--key says that {report.asked['key']} stands for the row"]
    if "by" in report.asked or "with" in report.asked:
        return ["--by and --with are for strata"]
    if report.strategy == "group" and report.group:
        return group_sentences(report.group, report.target)
    because = [_order_sentence(order)] if order else []
    worst = worst_drift(report.drifts)
    if worst:
        because.append(_drift_sentence(worst))
    if report.strategy == "time":
        return because
    if tail and tail.is_heavy:
        because.append(f"{tail.column} has a heavy right tail: {_tail_words(tail)}")
        return because + [
            f"{name} has {n} different values, so each bin is shared out by it too"
            for name, n in report.n_values.items()
        ]
    if tail:
        because.append(f"no column has a heavy tail: the most skewed is {tail.column}, {_tail_words(tail)}")
    return [*because, "a hash leaves every row on its side when rows are appended"]


def _order_sentence(order: OrderColumn) -> str:
    if order.is_named:
        return f"{order.name} is an order column: you named it"
    if order.sorted_by:
        return f"{order.name} only numbers rows that are sorted by {order.sorted_by}, so it tells no time"
    if order.is_date:
        return f"{order.name} holds dates, {order.n_distinct:,} different ones"
    if order.ends:
        first, last = order.ends
        how = f"each whole number from {first:,} to {last:,} once; {percent(order.rising)} of its steps rise"
    else:
        how = f"{percent(order.rising)} of its steps rise, over {order.n_distinct:,} different values"
    return f"{order.name} is an order column: {how}"


def group_sentences(group: GroupColumn, target: str) -> list[str]:
    """Why a column is taken for a group, one clause for each thing that was seen."""
    each = group.n_rows / group.n_groups
    said = [f"{group.name} has {group.n_groups:,} values with {each:.3g} rows each on average"]
    if group.is_together:
        said.append("the rows of a value stand together in the file")
    if target and group.shared_target >= SHARED_TARGET:
        said.append(f"they share {target} beyond chance (intraclass correlation {group.shared_target:.2f})")
    if group.same:
        some = ", ".join(group.same[:3]) + (f" and {len(group.same) - 3:,} more" if len(group.same) > 3 else "")
        said.append(f"within a value {some} never change{'s' * (len(group.same) == 1)}")
    elif group.n_alike:
        said.append(f"{group.n_alike:,} of {group.n_columns:,} other columns are alike within a value")
    return said


def leak_words(leak: Leak) -> str:
    """What a column gives away, and what to do if it is known only after the target."""
    if leak.kind == "copy":
        said = f"correlation {leak.foretold:.4f}"
    elif leak.kind == "missing":
        said = f"that it is missing avoids {percent(leak.foretold)} of the errors of always saying the commonest class"
    else:
        said = f"alone it foretells {percent(leak.foretold)} of what there is to foretell"
    return f"{leak.column} gives the target away: {said}; leave_out={leak.column} if it is not known beforehand"


def choice_sentences(choice: SplitChoice, noun: str = "row") -> list[str]:
    """How the rows of a training were divided and why; nothing where it is by hash, as is usual, and nothing speaks
    against that. noun: what one example is called.

    >>> print(*choice_sentences(SplitChoice("none", True, n_different=4)))
    4 different rows are too few to hold any out, so all of them train: how it does on new ones is not known;
    strategy=hash holds some out all the same
    """
    if choice.strategy == "none":
        few = f"{choice.n_different:,} different {noun}s are too few to hold any out, so all of them train"
        forced = "; strategy=hash holds some out all the same" if noun == "row" and choice.is_proposed else ""
        return [f"{few}: how it does on new ones is not known{forced}"]
    group, order, drift = choice.group, choice.order, choice.drift
    said = []
    if choice.strategy == "group":
        why = group_sentences(group, choice.target) if group and choice.is_proposed else ["as asked"]
        said.append(f"divided by group, so that no {choice.column} stands on two sides: {'; '.join(why)}")
    elif choice.strategy == "time":
        why = [_drift_sentence(drift)] if drift and choice.is_proposed else ["as asked"]
        said.append(f"divided by time: the first rows by {choice.column} train, the last test; {'; '.join(why)}")
    elif choice.strategy == "stratified":
        said.append(f"divided by strata: each side has the same part of every value or quantile of {choice.column}")
    elif choice.strategy == "given":
        said.append("divided as the folder is")
    elif choice.strategy != "hash":
        said.append(f"divided by {choice.strategy}")
    if said and choice.is_proposed:
        said[0] += "; strategy=hash divides by row"
    if choice.strategy != "group" and group:
        seen = "; ".join(group_sentences(group, choice.target))
        said.append(
            f"{group.name} looks like a group, and stands on several sides: {seen}; group={group.name} keeps it whole"
        )
    if choice.strategy != "time" and order and not order.is_named:
        what = "dates" if order.is_date else "years"
        said.append(
            f"{order.name} holds {what}: for a model that is to foresee what comes later, take order={order.name}"
        )
    if choice.n_twins:
        part = percent(choice.n_twins / max(1, choice.n_held))
        said.append(f"{choice.n_twins:,} of {choice.n_held:,} rows of dev and test ({part}) have an equal in train")
    return said


def dev_sentence(part: float) -> str:
    """That dev was taken from train, where the data were divided into train and test alone.

    >>> dev_sentence(0.1)
    'only train and test were asked for: 10.00 % of train are dev, to choose by, taken as test was taken from all'
    """
    said = f"{percent(part)} of train are dev, to choose by, taken as test was taken from all"
    return f"only train and test were asked for: {said}"


def _drift_sentence(worst: Drift) -> str:
    if worst.matters:
        return (
            f"along it {worst.column} drifts: {worst.measure} {worst.distance:.3g} between the first and the last "
            f"fifth, where {DRIFT_MATTERS:g} would matter"
        )
    return (
        f"along it nothing drifts: the first and the last fifth differ most in {worst.column}, by {worst.measure} "
        f"{worst.distance:.3g}, where {max(DRIFT_MATTERS, worst.by_chance):.3g} would matter"
    )


def _tail_words(tail: HeavyTail) -> str:
    return f"skewness {tail.skewness:.3g}, tail index {tail.tail_index:.3g} (Hill, its top 1 %)"


def _noun(report: SplitReport) -> str:
    return {"list": "items", "pairs": "sources"}.get(report.kind, "rows")


def verdict_sentences(report: SplitReport) -> list[str]:
    """What the numbers of a split say, the gravest first."""
    noun = _noun(report)
    found_leaks = [one for one in report.straddles if one.is_leak]
    leaks = _twin_sentences("Leak", noun, found_leaks)
    said = [*leaks, *_looks_ahead(report.strategy, report.drifts)]
    if not leaks:
        checked = " and ".join(dict.fromkeys(one.what for one in found_leaks))
        said.append(f"No leak: there are no {checked} on different sides." if checked else "No leak was looked for.")
    return [
        *[f"{leak_words(leak).partition('; ')[0]}." for leak in report.leaks],
        *said,
        *_twin_sentences("Near-duplicates", noun, [one for one in report.straddles if not one.is_leak]),
        *_agreement_sentence(report.strategy, report.agreements),
        *_wander_sentence(report.wanders),
    ]


def _looks_ahead(strategy: str, drifts: Sequence[Drift]) -> list[str]:
    worst = worst_drift(drifts)
    if worst is None or not worst.matters or strategy in ("time", "group"):
        return []
    moved = f"{worst.column} drifts along {worst.order} ({worst.measure} {worst.distance:.3g})"
    return [f"It looks ahead: {moved}, and train holds rows later than test's. Take --strategy time."]


def _twin_sentences(word: str, noun: str, straddles: Sequence[Straddle]) -> list[str]:
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


def _agreement_sentence(strategy: str, agreements: Sequence[Agreement]) -> list[str]:
    # The one that exceeds chance by most, as a ratio.
    worst = max(agreements, key=lambda one: one.distance / one.by_chance if one.by_chance else 0.0, default=None)
    if worst is None:
        return []
    number = f"{worst.column} on {worst.side}, {worst.measure} {worst.distance:.3g}"
    n_columns = len({one.column for one in agreements})
    together = f" over all {n_columns:,} columns" if n_columns > 1 else ""
    chance = f"where chance alone gives up to {worst.by_chance:.3g} (99 %{together})"
    if worst.distance <= worst.by_chance:
        return [f"The sides agree: farthest from train is {number}, {chance}."]
    if strategy == "time":
        return [f"The future differs from the past: farthest from train is {number}, {chance}. Scores will show it."]
    return [f"The sides differ: farthest from train is {number}, {chance}."]


def _wander_sentence(wanders: Sequence[Wander]) -> list[str]:
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
