"""A search for the learning rate in a terminal: what each rule says for each seed, a curve, and how sure it is."""

import json
import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.charts.braille import Canvas
from pellucid.figures.words.model_facts import show, table
from pellucid.figures.words.numbers import rough
from pellucid.records import RateSearch, as_plain


def show_rate_search(search: RateSearch) -> None:
    """Print the search on stdout."""
    show(*_parts(search))


def rate_search_json(search: RateSearch) -> str:
    """Everything as JSON."""
    return json.dumps(as_plain(search), ensure_ascii=False, allow_nan=False)


def _parts(search: RateSearch) -> Iterator[RenderableType]:
    yield Text(f"{search.network} on {printable(search.source)}", "dim")
    yield Text("")
    listing = table(("seed", "right"), ("percentile rule", "right"), ("valley rule", "right"), ("lowest at", "right"))
    for i, (seed, sweep) in enumerate(zip(search.seeds, search.sweeps, strict=True)):
        finite = [trial for trial in sweep if math.isfinite(trial.smoothed)]
        lowest = rough(min(finite, key=lambda trial: trial.smoothed).rate) if finite else "no answer"
        listing.add_row(str(seed), _answer(search.by_percentile[i]), _answer(search.by_valley[i]), lowest)
    yield listing
    lines = _curve(search)
    if lines:
        yield Text("")
        yield Text("\n".join(lines))
    yield Text("")
    for place, sentence in enumerate(search.says):
        # The first says which rate to try, or that there is none.
        yield Text(printable(sentence), "" if place else "bold yellow" if search.suggestion is None else "bold")


def _answer(rate: float | None) -> str:
    return "no answer" if rate is None else rough(rate)


def _curve(search: RateSearch) -> list[str]:
    """The smoothed loss of every seed against the logarithm of the rate."""
    points = [
        (math.log10(trial.rate), trial.smoothed)
        for sweep in search.sweeps
        for trial in sweep
        if trial.rate > 0 and math.isfinite(trial.smoothed)
    ]
    if len(points) < 2:
        return []
    low, first = min(loss for _, loss in points), points[0][1]
    # Where a sweep flies apart it leaves the picture.
    high = min(max(loss for _, loss in points), first + 0.5 * max(first - low, 0.05 * abs(first)))
    canvas = Canvas((min(x for x, _ in points), max(x for x, _ in points)), (low, max(high, low + 1e-9)))
    for sweep in search.sweeps:
        canvas.line([(math.log10(trial.rate), trial.smoothed) for trial in sweep if trial.rate > 0])
    if search.suggestion:
        canvas.upright(math.log10(search.suggestion))
    ends = [rough(10**x) for x in canvas.x]
    below = f"rate {ends[0]}".ljust(canvas.width - len(ends[1])) + ends[1]
    return [*canvas.lines("{:.2f}".format), " " * 8 + below]
