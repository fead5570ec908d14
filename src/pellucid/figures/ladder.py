"""The ladder in a terminal: one table, the best on dev first, with what each rung earns over counting."""

import json
import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.model_facts import cut, show, table
from pellucid.records import Ladder, Rung, as_plain


def show_ladder(ladder: Ladder) -> None:
    """Print the ladder on stdout."""
    show(*_parts(ladder))


def ladder_json(ladder: Ladder) -> str:
    """Everything as JSON, with each rung's gap to the best that only counts."""
    return json.dumps(plain_ladder(ladder), ensure_ascii=False, allow_nan=False)


def plain_ladder(ladder: Ladder) -> dict[str, object]:
    """The ladder as what JSON can hold."""
    rungs = [{**rung._asdict(), "gap": ladder.gap(rung)} for rung in ladder.rungs]
    plain = as_plain({"source": ladder.source, "rungs": rungs, "notes": ladder.notes})
    assert isinstance(plain, dict)
    return plain


def ladder_table(ladder: Ladder) -> Table:
    """A row for each rung, the best on dev first; networks are bold."""
    has_test = any(rung.test is not None for rung in ladder.rungs)
    made = table(
        ("model", "left"),
        ("dev nats", "right"),
        ("bits/char", "right"),
        ("train", "right"),
        *([("test", "right")] if has_test else []),
        ("parameters", "right"),
        ("seconds", "right"),
        ("tokens/s", "right"),
        ("over counting", "right"),
    )
    for rung in sorted(ladder.rungs, key=lambda rung: rung.dev if not math.isnan(rung.dev) else math.inf):
        test = [_nats(rung.test)] if has_test else []
        numbers = [_nats(rung.dev), _bits(rung.bits_per_character), _nats(rung.train), *test]
        made.add_row(
            cut(rung.name, 24),
            *numbers,
            f"{rung.parameters:,}",
            f"{rung.seconds:.1f}",
            "" if rung.tokens_per_second is None else f"{rung.tokens_per_second:,.0f}",
            gap_words(ladder, rung),
            style="" if rung.is_counted else "bold",
        )
    return made


def gap_words(ladder: Ladder, rung: Rung) -> str:
    """What a rung earns over the best that only counts, with its sign; nothing for that one itself.

    >>> counted = Rung("bigram", True, 9, 2.4, 2.5, None, 3.6, 0.0, None)
    >>> gap_words(Ladder("x", (counted,)), counted._replace(name="mlp", is_counted=False, dev=2.25))
    '+0.2500'
    """
    gap = ladder.gap(rung)
    if rung is ladder.best_count or not math.isfinite(gap):
        return ""
    return f"{gap:+.4f}".replace("-", "−")


def _nats(loss: float | None) -> str:
    if loss is None:
        return "not read"
    return f"{loss:.4f}" if math.isfinite(loss) else "infinite" if loss > 0 else "not a number"


def _bits(bits: float) -> str:
    return f"{bits:.3f}" if math.isfinite(bits) else ""


def _parts(ladder: Ladder) -> Iterator[RenderableType]:
    yield Text(printable(ladder.source), "dim")
    yield Text("")
    yield ladder_table(ladder)
    networks = [rung for rung in ladder.rungs if not rung.is_counted and math.isfinite(rung.dev)]
    best = ladder.best_count
    if networks and best:
        first = min(networks, key=lambda rung: rung.dev)
        gap = ladder.gap(first)
        yield Text("")
        earns = f"earns {gap:.4f} nats a token over" if gap > 0 else f"is {-gap:.4f} nats a token behind"
        yield Text(
            f"The best network, {printable(first.name)}, {earns} the best that only counts, {best.name}.", "bold"
        )
    for note in ladder.notes:
        yield Text(f"note: {printable(note)}", "yellow")
