"""The surprise of each token of a text in a terminal: a table with bars, the total, and what it means."""

import json
import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.model_facts import cut, facts_lines, nats, show, table
from pellucid.figures.words.numbers import counted, rough
from pellucid.records import ScoredText, Surprise, as_plain

BAR = 24  # characters of the longest bar
EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_scored(scored: ScoredText) -> None:
    """Print the scores on stdout."""
    show(*_parts(scored))


def scored_json(scored: ScoredText) -> str:
    """Everything as JSON, with the sums."""
    loss = scored.loss
    sums = {"nats": scored.nats, "mean_nats": loss.nats, "mean_bits": loss.bits, "perplexity": loss.perplexity}
    plain = as_plain(scored)
    assert isinstance(plain, dict)
    return json.dumps({**plain, "sums": as_plain(sums)}, ensure_ascii=False, allow_nan=False)


def _parts(scored: ScoredText) -> Iterator[RenderableType]:
    for line in facts_lines(scored.model):
        yield Text(printable(line), "dim")
    yield Text("")
    yield _listing(scored.surprises)
    yield Text("")
    loss = scored.loss
    total = f"{scored.nats:.4f}" if scored.nats < math.inf else "infinite"
    yield Text(f"in all {total} nats, probability {rough(math.exp(-scored.nats))}", "bold")
    yield Text(f"a mean over {counted(loss.n_tokens, 'token')} of {nats(loss)}")
    if scored.where:
        where = "it is new: neither in train nor in dev" if scored.where == "new" else f"it is one of {scored.where}'s"
        yield Text(where)
    for note in scored.notes:
        yield Text(f"note: {printable(note)}", "yellow")


def _listing(surprises: tuple[Surprise, ...]) -> Table:
    listing = table(
        ("after", "right"),
        ("comes", "left"),
        ("probability", "right"),
        ("nats", "right"),
        ("bits", "right"),
        ("", "left"),
        ("likeliest", "left"),
    )
    highest = max((one.nats for one in surprises if one.nats < math.inf), default=1.0)
    for one in surprises:
        is_finite = one.nats < math.inf
        listing.add_row(
            cut(one.context, 24),
            Text(cut(one.token, 24), "bold"),
            f"{one.probability:.4f}" if one.probability >= 0.001 or not one.probability else f"{one.probability:.1e}",
            f"{one.nats:.3f}" if is_finite else "∞",
            f"{one.nats / math.log(2):.3f}" if is_finite else "∞",
            bar(one.nats, highest) if is_finite else "impossible: never seen here",
            "this" if one.rank == 1 else f"{cut(one.expected, 24)} (this is {ordinal(one.rank)})",
        )
    return listing


def bar(value: float, highest: float, width: int = BAR) -> str:
    """A bar in proportion, to an eighth of a character.

    >>> bar(1.0, 2.0, width=4), bar(2.0, 2.0, width=4), bar(0.5, 4.0, width=4)
    ('██', '████', '▌')
    """
    eighths = round(8 * width * value / highest) if highest > 0 else 0
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def ordinal(n: int) -> str:
    """
    >>> ordinal(2), ordinal(11), ordinal(23)
    ('2nd', '11th', '23rd')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return f"{n}{ending}"
