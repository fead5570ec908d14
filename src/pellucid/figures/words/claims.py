"""Claims in words: the ledger as a table, one claim with its numbers, its condition and its control."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from pellucid.figures.tables import Cell, FittedTable, Part, Table, TableColumn, indent, right
from pellucid.figures.words.notation import count_of, duration, join_words
from pellucid.records import (
    VERDICTS,
    ClaimKnob,
    ClaimMethod,
    ClaimNumber,
    ClaimResult,
    Ledger,
    TurningPoint,
    as_plain,
)

NEAR = 0.05  # two sides of a turning point that are nearer, relative to their size, are told as one place
ROOM = 110  # columns that a table of claims needs, whose ids are long
STYLES = {"holds": "green", "fails": "red", "only when": "yellow", "not decided": "dim", "not testable": "dim"}
KIND_WORDS = {
    "arithmetic": "computed",
    "proof": "every case tried",
    "draws": "random numbers drawn",
    "cost": "counted or timed",
    "training": "networks trained",
    "history": "nothing to run",
}


def condition_words(turn: TurningPoint | None) -> str:
    """Where a claim holds.

    >>> condition_words(TurningPoint("length", 3073, 3072, 16, 10_000))
    'length > 3072'
    >>> condition_words(TurningPoint("items", 3162, 10_000, 100, 10_000))  # what lies between was not decided
    'items ≤ 3162, not at 10000'
    """
    if turn is None:
        return ""
    knob, holds, fails = turn.knob.replace("_", " "), f"{turn.holds_at:.6g}", f"{turn.fails_at:.6g}"
    apart, size = abs(turn.holds_at - turn.fails_at), max(abs(turn.holds_at), abs(turn.fails_at))
    if apart <= max(1.0 if turn.holds_at == round(turn.holds_at) else 0.0, NEAR * size):
        words = f"{knob} {'>' if turn.holds_above else '<'} {fails}"
    else:
        words = f"{knob} {'≥' if turn.holds_above else '≤'} {holds}, not at {fails}"
    return words.replace("-", "−")


def number_words(number: ClaimNumber) -> str:
    """A number with its interval, where it has one.

    >>> number_words(ClaimNumber("loss", 2.0, 1.5, 2.5)), number_words(ClaimNumber("loss", 2.0, 2.0, 2.0))
    ('2 (1.5 to 2.5)', '2')
    """
    shown = exact_words(number.mean)
    if number.low == number.high:
        return shown
    return f"{shown} ({exact_words(number.low)} to {exact_words(number.high)})"


def exact_words(value: float) -> str:
    """A number as far as a claim may be about its digits."""
    return f"{value:,.6g}".replace("-", "−").replace("e+0", "e").replace("e+", "e")


def claim_verdict_words(result: ClaimResult) -> str:
    """The verdict with its condition."""
    condition = condition_words(result.condition)
    return f"{result.verdict} {condition}" if condition else result.verdict


def deciding_words(result: ClaimResult) -> str:
    """The number that decides, by its name."""
    found = next((one for one in result.numbers if one.name == result.deciding), None)
    return f"{found.name} {number_words(found)}" if found else ""


def ledger_parts(ledger: Ledger) -> Iterator[Part]:
    """All claims, family by family, and how many have which verdict."""
    families = dict.fromkeys([one.family for one in ledger.results])
    for family in families:
        yield f"\n{family}\n"
        yield FamilyRows([one for one in ledger.results if one.family == family])
    yield f"\n{tally_words(ledger)}"
    for name, before in ledger.changed.items():
        now = next(one for one in ledger.results if one.id == name)
        yield f"{name}: {claim_verdict_words(now)} here and now, {before} in the stored ledger"
    yield from [f"{name}: not asked. {reason}" for name, reason in ledger.refused.items()]


class FamilyRows:
    """The claims of a family: a table where there is room for one, else a few lines for each."""

    def __init__(self, results: Sequence[ClaimResult]) -> None:
        self.results = results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if options.max_width >= ROOM:
            yield FittedTable(self.table())
        else:
            for one in self.results:
                yield Text.assemble(one.id, "  ", (claim_verdict_words(one), STYLES[one.verdict]))
                yield indent(*[text for text in (one.statement, _because(one)) if text])

    def table(self) -> Table:
        table = Table(
            "claim", TableColumn("says", "wrap"), TableColumn("verdict"), TableColumn("because", "wrap", spare=1)
        )
        for one in self.results:
            verdict = Cell(claim_verdict_words(one), STYLES[one.verdict])
            table.add(one.id, one.statement, verdict, _because(one))
        return table


def _because(result: ClaimResult) -> str:
    return deciding_words(result) or result.reason


def tally_words(ledger: Ledger) -> str:
    """How many claims have which verdict."""
    counts = Counter([one.verdict for one in ledger.results])
    n_covered = sum([len(one.covers) for one in ledger.results])
    if not ledger.results:
        return "No claim is like that."
    told = join_words([f"{verdict} {counts[verdict]}" for verdict in VERDICTS if counts[verdict]])
    covering = f", which decide {len(ledger.results) + n_covered} statements" if n_covered else ""
    return f"{count_of(len(ledger.results), 'claim')}{covering}: {told}."


def claim_parts(result: ClaimResult) -> Iterator[Part]:
    """One claim: what it says, how it was judged, its numbers, its condition and its control."""
    yield f"{result.id}: {claim_verdict_words(result)}"
    told = Table("", TableColumn("", "wrap"))
    for word, text in _told(result):
        if text:
            told.add(f"  {word}", text)
    yield told
    if result.verdict == "not testable":
        return
    yield ""
    yield numbers_table(result)
    yield from [f"\n{line}" for line in condition_lines(result)]
    if result.method and result.curve:
        yield ""
        yield curve_table(result)
    if result.method:
        yield from _method_parts(result, result.method)


def _told(result: ClaimResult) -> Iterator[tuple[str, str]]:
    """What is said, what was done about it, and by what rule it was judged."""
    yield "says", f"{result.statement} ({result.where})"
    yield "decides", f"{', '.join(result.covers)} too" if result.covers else ""
    if result.verdict == "not testable":
        yield "because", result.reason
        return
    method = result.method or ClaimMethod("")
    over = f" with {count_of(result.seeds, 'seed')}" if result.seeds > 1 else ""
    clock = "of processor time" if result.timed_by == "processor" else "on a busy machine"
    yield "done", f"{KIND_WORDS[result.kind]}{over}, in {duration(result.seconds)} {clock}"
    yield "measures", method.done
    yield "also by", method.second
    yield "rule", result.rule
    yield "changed", method.changed and f"after a first run: {method.changed}"
    yield "or read", result.other_reading


def _method_parts(result: ClaimResult, method: ClaimMethod) -> Iterator[Part]:
    """The knobs with their ranges, the picture, and the code to do it oneself."""
    if method.knobs:
        yield ""
        table = Table("knob", *right("usual"), "from", TableColumn("what it is", "wrap"))
        for knob in method.knobs:
            table.add(knob.name, str(knob.usual), range_words(knob), knob.help)
        yield table
    turned = next((knob.name for knob in method.knobs if knob.name in result.control), "")
    value = result.control[turned] if turned else ""
    yield "\nDo it yourself:"
    run = f"pellucid claims run {result.id}"
    yield _code_line(run + (f" --knob {shlex.quote(f'{turned}={value}')}" if turned else ""))
    if method.takes_data:
        yield _code_line(f"{run} --data FILE")
    if method.picture:
        yield _code_line(f"pellucid draw {method.picture}")
    knobs = f", {turned}={json.dumps(value, ensure_ascii=False)}" if turned else ""
    code = f'import pellucid.claims; print(pellucid.claims.run("{result.id}"{knobs}))'
    yield _code_line(f"python -c {shlex.quote(code)}")


def _code_line(code: str) -> Text:
    """A line that is never broken, so that it can be copied."""
    return Text(f"  {code}", no_wrap=True, overflow="ignore")


def range_words(knob: ClaimKnob) -> str:
    """What a knob may be.

    >>> range_words(ClaimKnob("n", 4, "", (), 1, 1000)), range_words(ClaimKnob("kind", "a", "", ("a", "b")))
    ('1 to 1,000', 'a, b')
    """
    if knob.choices:
        return ", ".join(knob.choices)
    ends = [("at least", knob.lowest), ("at most", knob.highest)]
    if knob.lowest is not None and knob.highest is not None:
        return f"{exact_words(knob.lowest)} to {exact_words(knob.highest)}"
    return next((f"{word} {exact_words(end)}" for word, end in ends if end is not None), "")


def numbers_table(result: ClaimResult) -> Table:
    """Every number of a claim, with its interval and a second route where there is one."""
    has_second = any(one.second is not None for one in result.numbers)
    table = Table("number", *right("measured", *(["by another route"] if has_second else [])))
    for one in result.numbers:
        style = "bold" if one.name == result.deciding else ""
        second = "" if one.second is None else exact_words(one.second)
        table.add(one.name, number_words(one), *([second] if has_second else []), style=style)
    return table


def curve_table(result: ClaimResult) -> Table:
    """The margin at every value of the knob that was tried, and the two between which it turns."""
    turn = result.condition
    table = Table(*right((turn.knob if turn else "knob").replace("_", " "), "margin"), "")
    for value, margin in result.curve:
        is_edge = turn is not None and value in (turn.holds_at, turn.fails_at)
        said = "for it" if margin > 0 else "against it"
        style = STYLES["holds" if margin > 0 else "fails"] if is_edge else ""
        table.add(
            exact_words(value), exact_words(margin), f"{said}, next to the turn" if is_edge else said, style=style
        )
    return table


def condition_lines(result: ClaimResult) -> list[str]:
    """Where it turns, and what the control gave."""
    lines = []
    if turn := result.condition:
        lines.append(
            f"Searched for {turn.knob.replace('_', ' ')} from {turn.lowest:.6g} to {turn.highest:.6g}: it holds at "
            f"{turn.holds_at:.6g} and not at {turn.fails_at:.6g}."
        )
    if result.margin and result.control_margin is not None:
        setting = join_words([f"{name}={value}" for name, value in result.control.items()])
        lines.append(
            f"Its margin is {number_words(result.margin)}, above 0 for and below 0 against it; in the control, with "
            f"{setting}, it is {exact_words(result.control_margin)}."
        )
    return lines


def plain_claim(result: ClaimResult) -> dict[str, object]:
    """A claim for machines."""
    plain: dict[str, object] = as_plain(result)
    return {**plain, "condition": condition_words(result.condition), "turning_point": plain["condition"]}


def plain_ledger(ledger: Ledger) -> list[dict[str, object]]:
    """A list of claims for machines; those whose verdict changed say what is stored."""
    return [
        {**plain_claim(one), **({"stored_verdict": ledger.changed[one.id]} if one.id in ledger.changed else {})}
        for one in ledger.results
    ]
