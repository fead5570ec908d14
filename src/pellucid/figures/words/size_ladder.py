"""Networks at several sizes of the training side, in a terminal and as JSON: who wins with few examples or many."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.merits import gap_size, metric_words
from pellucid.figures.words.model_facts import cut, show, table
from pellucid.records import Measure, SizeLadder, SizeRung, as_plain


class Reached(NamedTuple):
    """What one model reached with so many examples, over all its trainings."""

    n_train: int
    mean: float
    low: float
    high: float
    trainings: int


def show_size_ladder(ladder: SizeLadder) -> None:
    """Print the ladder on stdout."""
    show(*_parts(ladder))


def size_ladder_json(ladder: SizeLadder) -> str:
    """Everything as JSON."""
    return json.dumps(as_plain(ladder), ensure_ascii=False, allow_nan=False)


def by_model(ladder: SizeLadder) -> dict[str, list[SizeRung]]:
    """The rungs of each model; networks first, and among alike the one that is best with the most examples first."""
    models: dict[str, list[SizeRung]] = {}
    for rung in ladder.rungs:
        models.setdefault(rung.name, []).append(rung)

    def place(name: str) -> tuple[bool, float]:
        return models[name][0].is_counted, -reached(models[name])[-1].mean

    return {name: models[name] for name in sorted(models, key=place)}


def reached(rungs: list[SizeRung]) -> list[Reached]:
    """For each size the mean of its trainings, and the least and the most.

    >>> rungs = [SizeRung("cnn", 100, metric, None, 1.0, 9, False) for metric in (0.5, 0.75)]
    >>> reached(rungs)
    [Reached(n_train=100, mean=0.625, low=0.5, high=0.75, trainings=2)]
    """
    found = []
    for size in sorted({rung.n_train for rung in rungs}):
        metrics = [rung.metric for rung in rungs if rung.n_train == size]
        found.append(Reached(size, sum(metrics) / len(metrics), min(metrics), max(metrics), len(metrics)))
    return found


def size_ladder_table(ladder: SizeLadder) -> Table:
    """A row for each model, a column for each size; the best of a size is marked, and networks are bold."""
    models = by_model(ladder)
    made = table(
        (f"{ladder.metric} on dev", "left"),
        *[(f"{size:,}", "right") for size in ladder.sizes],
        ("test", "right"),
        ("parameters", "right"),
        ("seconds", "right"),
    )
    cells = {name: {each.n_train: each for each in reached(rungs)} for name, rungs in models.items()}
    best = {size: max([at[size].mean for at in cells.values() if size in at], default=0.0) for size in ladder.sizes}
    for name, rungs in models.items():
        largest = [rung for rung in rungs if rung.n_train == max([each.n_train for each in rungs])]
        tests = [rung.test_metric for rung in largest if rung.test_metric is not None]
        made.add_row(
            Text(cut(name, 30)),
            *[_cell(ladder.metric, cells[name].get(size), best[size]) for size in ladder.sizes],
            metric_words(ladder.metric, sum(tests) / len(tests) if tests else None),
            f"{largest[0].parameters:,}",
            f"{sum([rung.seconds for rung in largest]) / len(largest):.1f}",
            style="" if rungs[0].is_counted else "bold",
        )
    return made


def _cell(metric: str, at: Reached | None, best: float) -> str:
    if at is None:
        return ""
    return f"{metric_words(metric, at.mean)}{'*' if at.mean == best else ' '}"


def spread_words(ladder: SizeLadder) -> str:
    """How far apart the trainings of one model lie at most, where there are several."""
    found = [each for rungs in by_model(ladder).values() for each in reached(rungs) if each.trainings > 1]
    if not found:
        return ""
    widest = max(found, key=lambda each: each.high - each.low)
    apart = gap_size(Measure(metric=ladder.metric), widest.high - widest.low)
    return f"Means of up to {max([each.trainings for each in found])} trainings, which lie at most {apart} apart."


def winners(ladder: SizeLadder) -> list[str]:
    """Which network is best with the fewest examples, and which with the most, in sentences."""
    networks = {name: reached(rungs) for name, rungs in by_model(ladder).items() if not rungs[0].is_counted}
    if not networks or not ladder.sizes:
        return []
    said = []
    for size in sorted({ladder.sizes[0], ladder.sizes[-1]}):
        at = {name: each.mean for name, found in networks.items() for each in found if each.n_train == size}
        if not at:
            continue
        first = max(at, key=lambda name: at[name])
        second = max([name for name in at if name != first], key=lambda name: at[name], default="")
        beside = f", then {second} with {metric_words(ladder.metric, at[second])}" if second else ""
        said.append(
            f"With {size:,} examples {first} is the best network with {metric_words(ladder.metric, at[first])}{beside}."
        )
    return said


def _parts(ladder: SizeLadder) -> Iterator[RenderableType]:
    yield Text(printable(ladder.source), "dim")
    yield Text("")
    yield size_ladder_table(ladder)
    yield Text("* the best of this size; test, parameters and seconds are those with the most examples", "dim")
    if spread := spread_words(ladder):
        yield Text(spread, "dim")
    said = winners(ladder)
    if said:
        yield Text("")
        yield Text("\n".join([printable(line) for line in said]), "bold")
    for note in ladder.notes:
        yield Text(f"note: {printable(note)}", "yellow")
