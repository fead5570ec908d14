"""What a network answered, in a terminal: its metrics, what it confuses, and a few answers, the wrong ones first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.data_words import is_judged, one_of, read_as
from pellucid.figures.words.merits import metric_words, percent
from pellucid.figures.words.model_facts import cut, table
from pellucid.figures.words.numbers import counted
from pellucid.records import Answered, Answers, Calibration, Confusion, DataFacts

MOST_CLASSES = 12  # whose matrix still fits a terminal
MOST_SHOWN = 8
LONGEST, LONGEST_CLASS = 34, 10  # letters of a cell


class Mistake(NamedTuple):
    """One class that was taken for another, and how often."""

    truth: str
    answer: str
    n: int
    of: int  # examples of the true class


def answer_parts(answers: Answers, data: DataFacts) -> Iterator[RenderableType]:
    """Everything that a terminal shows of them."""
    yield Text("\n".join(metric_lines(answers, data)))
    if answers.confusion:
        yield Text("")
        yield from _confusion_parts(answers.confusion, one_of(data.kind))
    if answers.calibration and (line := calibration_line(answers.calibration)):
        yield Text(line)
    shown = [example for example in answers.examples if not example.answer_pixels][:MOST_SHOWN]
    if shown:
        yield Text("")
        yield examples_table(shown, read_as(data.kind), has_mark=is_judged(data))


def metric_lines(answers: Answers, data: DataFacts) -> list[str]:
    """The metrics on dev and on test, and what of the data the network could not know."""
    lines = [f"on dev, {counted(answers.n, one_of(data.kind))}: {metrics_words(answers.metrics, data.target)}"]
    if answers.test_metrics:
        lines.append(f"on test, read once: {metrics_words(answers.test_metrics, data.target)}")
    if answers.n_unknown:
        lines.append(f"{counted(answers.n_unknown, 'cell')} of dev and test held a category that train does not have")
    return [printable(line) for line in lines]


def metrics_words(metrics: Mapping[str, float], target: str) -> str:
    """The metrics in a row; after the last that has the unit of the target, it is said.

    >>> metrics_words({"R²": 0.71, "MAE": 312.5, "RMSE": 400.0}, "mass")
    'R² 0.7100, MAE 312.5, RMSE 400 (in units of mass)'
    """
    parts = [f"{name} {metric_words(name, value)}" for name, value in metrics.items()]
    with_unit = [place for place, name in enumerate(metrics) if name in ("MAE", "RMSE")]
    if with_unit and target:
        parts[with_unit[-1]] += f" (in units of {target})"
    return ", ".join(parts)


def mistakes(confusion: Confusion) -> list[Mistake]:
    """Every pair of classes that were confused, the most frequent first.

    >>> mistakes(Confusion(("a", "b"), ((5, 1), (2, 4))))
    [Mistake(truth='b', answer='a', n=2, of=6), Mistake(truth='a', answer='b', n=1, of=6)]
    """
    found = [
        Mistake(confusion.classes[i], confusion.classes[j], n, sum(row))
        for i, row in enumerate(confusion.counts)
        for j, n in enumerate(row)
        if i != j and n
    ]
    return sorted(found, key=lambda mistake: -mistake.n)


def confused_words(confusion: Confusion, noun: str, most: int = 3) -> str:
    """The most frequent mistakes in a sentence.

    >>> confused_words(Confusion(("a", "b"), ((5, 0), (2, 4))), "row")
    'Most often confused: b was taken for a in 2 of 6 rows.'
    """
    found = mistakes(confusion)
    if not found:
        return f"Every {noun} was told right."
    said = [
        f"{cut(truth, 24)} was taken for {cut(answer, 24)} in {n:,} of {counted(of, noun)}"
        for truth, answer, n, of in found[:most]
    ]
    return f"Most often confused: {'; '.join(said)}."


def calibration_line(calibration: Calibration) -> str:
    """How sure the network was and how often it was right, over all answers.

    >>> from pellucid.records import ConfidenceBin
    >>> print(calibration_line(Calibration((ConfidenceBin(0.5, 1.0, 10, 0.9, 0.8),), 0.1)))
    It was sure of 90.00 % on average and right in 80.00 %; among answers alike in confidence the two are 10.00 points
    apart.
    """
    bins = [each for each in calibration.bins if each.n]
    n = sum([each.n for each in bins])
    if not n:
        return ""
    sure, right = [sum([each.n * getattr(each, name) for each in bins]) / n for name in ("confidence", "share_right")]
    return (
        f"It was sure of {percent(sure)} on average and right in {percent(right)}; "
        f"among answers alike in confidence the two are {100 * calibration.error:.2f} points apart."
    )


def _confusion_parts(confusion: Confusion, noun: str) -> Iterator[RenderableType]:
    if len(confusion.classes) <= MOST_CLASSES:
        yield _matrix(confusion)
        yield Text("")
    yield Text(confused_words(confusion, noun))


def _matrix(confusion: Confusion) -> Table:
    """A row for each true class, a column for each answer, and the share of each class that was found."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    made.add_column("true \\ answer", no_wrap=True)
    for name in confusion.classes:
        made.add_column(Text(cut(name, LONGEST_CLASS)), justify="right", no_wrap=True)
    made.add_column("found", justify="right", no_wrap=True)
    for i, (name, row) in enumerate(zip(confusion.classes, confusion.counts, strict=True)):
        cells = [Text(f"{n:,}" if n else "·", "bold" if i == j else "" if n else "dim") for j, n in enumerate(row)]
        found = percent(row[i] / sum(row)) if sum(row) else ""
        made.add_row(Text(cut(name, LONGEST)), *cells, found)
    return made


def examples_table(examples: Sequence[Answered], noun: str, *, has_mark: bool) -> Table:
    """A few answers beside the truth; has_mark: a wrong one is marked, which of numbers would be nearly all."""
    has_probability = any(example.probability is not None for example in examples)
    made = table(
        (noun, "left"),
        ("truth", "left"),
        ("answer", "left"),
        *[("probability", "right")] * has_probability,
        *[("", "left")] * has_mark,
    )
    for example in examples:
        cells = [Text(cut(part, LONGEST) or "(empty)") for part in (example.what, example.truth, example.answer)]
        probability = [chance_words(example.probability)] if has_probability else []
        mark = Text("" if example.is_right else "wrong", "yellow")
        made.add_row(*cells, *probability, *[mark] * has_mark)
    return made


def chance_words(probability: float | None) -> str:
    """
    >>> chance_words(0.71234), chance_words(None)
    ('0.7123', '')
    """
    return "" if probability is None or not math.isfinite(probability) else f"{probability:.4f}"
