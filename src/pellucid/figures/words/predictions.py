"""What a trained network says about new rows, images or sources, in a terminal and as JSON."""

import json
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.answers import chance_words
from pellucid.figures.words.model_facts import cut, show, table
from pellucid.records import Predictions, as_plain

MOST_ROWS = 500  # beyond them, a table is no longer for reading
MOST_RANKED = 3  # classes told after the answer
LONGEST = 40  # letters of a cell


def show_predictions(predictions: Predictions) -> None:
    """Print the predictions on stdout."""
    show(*_parts(predictions))


def predictions_json(predictions: Predictions) -> str:
    """Everything as JSON."""
    return json.dumps(as_plain(predictions), ensure_ascii=False, allow_nan=False)


def _parts(predictions: Predictions) -> Iterator[RenderableType]:
    predicts = f" predicts {predictions.target}" if predictions.target else ""
    yield Text(printable(f"{predictions.network} of the run {predictions.run}{predicts}"), "dim")
    yield Text("")
    yield _listing(predictions)
    left_out = len(predictions.predictions) - MOST_ROWS
    if left_out > 0:
        yield Text(f"and {left_out:,} more; --json tells them all", "dim")
    yield from _notes(predictions)


def _listing(predictions: Predictions) -> Table:
    """A row for each example; columns that nothing stands in are left out."""
    shown = predictions.predictions[:MOST_ROWS]
    has_probability = any(each.probability is not None for each in shown)
    has_others = any(len(each.ranked) > 1 for each in shown)
    made = table(
        ("", "left"),
        (cut(predictions.target, LONGEST) or "answer", "left"),
        *[("probability", "right")] * has_probability,
        *[("or", "left")] * has_others,
    )
    for each in shown:
        made.add_row(
            Text(cut(each.what, LONGEST)),
            Text(cut(each.answer, LONGEST) or "(empty)", "bold"),
            *[chance_words(each.probability)] * has_probability,
            *[Text(_others(each.answer, each.ranked), "dim")] * has_others,
        )
    return made


def _others(answer: str, ranked: tuple[tuple[str, float], ...]) -> str:
    """The next likeliest classes.

    >>> _others("5", (("5", 0.7), ("3", 0.2), ("8", 0.1)))
    '3 0.2000, 8 0.1000'
    """
    others = [(name, chance) for name, chance in ranked if name != answer][:MOST_RANKED]
    return ", ".join([f"{cut(name, LONGEST // 2)} {chance_words(chance)}" for name, chance in others])


def _notes(predictions: Predictions) -> Iterator[RenderableType]:
    """Those of all, and those of single examples, each said once with how many it is true of."""
    single: dict[str, list[str]] = {}
    for each in predictions.predictions:
        for note in each.notes:
            single.setdefault(note, []).append(each.what)
    of_some = [f"{_named(whose)}: {note}" for note, whose in single.items()]
    said = [*predictions.notes, *of_some]
    if said:
        yield Text("")
    for note in said:
        yield Text(f"note: {printable(note)}", "yellow")


def _named(whose: list[str]) -> str:
    """
    >>> _named(["row 3"]), _named(["row 3", "row 5", "row 9"])
    ('row 3', 'row 3 and 2 more')
    """
    return whose[0] if len(whose) == 1 else f"{whose[0]} and {len(whose) - 1:,} more"
