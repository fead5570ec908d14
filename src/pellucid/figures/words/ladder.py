"""The ladder in a terminal: one table, the best on dev first, with what each rung earns over the simple models."""

import json
import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.merits import gap_size, gap_words, loss_unit, loss_words, metric_words, ranked
from pellucid.figures.words.model_facts import cut, show, table
from pellucid.records import Ladder, Rung, as_plain


def show_ladder(ladder: Ladder) -> None:
    """Print the ladder on stdout."""
    show(*_parts(ladder))


def ladder_json(ladder: Ladder) -> str:
    """Everything as JSON, with each rung's gap to the best simple model."""
    return json.dumps(plain_ladder(ladder), ensure_ascii=False, allow_nan=False)


def plain_ladder(ladder: Ladder) -> dict[str, object]:
    """The ladder as what JSON can hold."""
    rungs = [{**rung._asdict(), "gap": ladder.gap(rung)} for rung in ladder.rungs]
    plain = as_plain({"source": ladder.source, "rungs": rungs, "notes": ladder.notes, "measure": ladder.measure})
    assert isinstance(plain, dict)
    return plain


def ladder_table(ladder: Ladder) -> Table:
    """A row for each rung, the best on dev first; networks are bold."""
    made = table(
        ("model", "left"),
        *[(heading, "right") for heading in _headings(ladder)],
        ("parameters", "right"),
        ("seconds", "right"),
        (f"{ladder.measure.one}s/s", "right"),
        (f"over {ladder.measure.simple}", "right"),
    )
    for rung in ranked(ladder):
        made.add_row(
            cut(rung.name, 24),
            *_reached(ladder, rung),
            f"{rung.parameters:,}",
            f"{rung.seconds:.1f}",
            "" if rung.tokens_per_second is None else f"{rung.tokens_per_second:,.0f}",
            gap_words(ladder, rung),
            style="" if rung.is_counted else "bold",
        )
    return made


def _headings(ladder: Ladder) -> list[str]:
    metric, unit = ladder.measure.metric, loss_unit(ladder.measure)
    if metric:
        return [f"dev {metric}", *["test"] * has_test(ladder), f"dev {unit}", "train"]
    return [f"dev {unit}", "bits/char", "train", *["test"] * has_test(ladder)]


def _reached(ladder: Ladder, rung: Rung) -> list[str]:
    metric = ladder.measure.metric
    if metric:
        test = [metric_words(metric, rung.test_metric)] if has_test(ladder) else []
        losses = [loss_words(loss, metric) for loss in (rung.dev, rung.train)]
        return [metric_words(metric, rung.metric), *test, *losses]
    test = [loss_words(rung.test)] if has_test(ladder) else []
    return [loss_words(rung.dev), _bits(rung.bits_per_character), loss_words(rung.train), *test]


def has_test(ladder: Ladder) -> bool:
    """Whether any rung was read on test, by what the ladder is judged by."""
    return any((rung.test_metric if ladder.measure.metric else rung.test) is not None for rung in ladder.rungs)


def _bits(bits: float) -> str:
    return f"{bits:.3f}" if math.isfinite(bits) else ""


def earned(ladder: Ladder) -> str:
    """What the best network earns over the best simple model, in one sentence; nothing where one of them is missing."""
    networks = [rung for rung in ranked(ladder) if not rung.is_counted and math.isfinite(ladder.merit(rung))]
    best = ladder.best_count
    if not networks or best is None:
        return ""
    gap = ladder.gap(networks[0])
    earns = f"earns {gap_size(ladder.measure, gap)} over" if gap > 0 else f"is {gap_size(ladder.measure, gap)} behind"
    beside = f"the best that only counts, {best.name}."
    if ladder.measure.metric:
        beside = f"{printable(ladder.measure.simple)}, of which {printable(best.name)} is the best."
    return f"The best network, {printable(networks[0].name)}, {earns} {beside}"


def _parts(ladder: Ladder) -> Iterator[RenderableType]:
    yield Text(printable(ladder.source), "dim")
    yield Text("")
    yield ladder_table(ladder)
    if says := earned(ladder):
        yield Text("")
        yield Text(says, "bold")
    for note in ladder.notes:
        yield Text(f"note: {printable(note)}", "yellow")
