"""What a run's data are and what a network answered about them, in words: metrics, confusions, answers, predictions."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.text import Text

from pellucid.data.kinds import KINDS
from pellucid.errors import printable
from pellucid.figures.tables import Cell, Part, Table, note_lines, right
from pellucid.figures.words.ladder import models_table, shown_metrics
from pellucid.figures.words.notation import (
    chance_words,
    count_of,
    cut_end,
    is_share,
    metric_words,
    percent,
    token_label,
)
from pellucid.figures.words.notes import note_sentences
from pellucid.records import (
    AnsweredExample,
    Answers,
    Calibration,
    Confusion,
    Cutoff,
    DataFacts,
    Importance,
    MetricInterval,
    ModelMetrics,
    Predictions,
    TokenConfusion,
    TokenMistakes,
    TrainingReport,
)

MOST_CLASSES = 12  # that are listed, and whose matrix still fits a terminal
MOST_SHOWN = 8
LONGEST, LONGEST_CLASS = 34, 10  # letters of a cell
LONGEST_LISTED = 20  # letters of a class in a sentence
MOST_PREDICTED = 500  # beyond them, a table is no longer for reading
MOST_RANKED = 3  # classes told after the answer
LONGEST_PREDICTED = 40
# How a file could be read otherwise.
OTHER_KINDS = {
    "list": "--kind text to read it as running text",
    "text": "--kind list to read each line as an item",
    "table": "--kind text to read it as text",
    "pairs": "--kind table to read it as a table",
    "images": "--kind list, text or table wants a file",
}


def describe_source(description: str, kind: str, is_file: bool) -> str:
    """What was inferred of the data, and how to say otherwise where they are a user's own.

    >>> describe_source("a.txt: a list of 3 items", "list", is_file=True)
    'a.txt: a list of 3 items; --kind text to read it as running text'
    """
    return f"{description}; {OTHER_KINDS[kind]}" if is_file and kind in OTHER_KINDS else description


def example_noun(kind: str) -> str:
    """What one example of such data is called.

    >>> example_noun("images"), example_noun("list")
    ('image', 'item')
    """
    return KINDS[kind].example if kind in KINDS else "item"


def source_noun(kind: str) -> str:
    """What the thing is called that was read for an answer.

    >>> source_noun("pairs"), source_noun("table")
    ('source', 'row')
    """
    return "source" if kind == "pairs" else example_noun(kind)


def has_tokens(data: DataFacts) -> bool:
    """Whether the data are sequences, whose tokens are predicted: lists, texts and pairs."""
    return data.kind not in KINDS or KINDS[data.kind].family != "examples"


def judged_words(report: TrainingReport, n: int) -> str:
    """So many examples of the side that a run's network is judged on, as a caption begins with them."""
    return f"{report.data.name}, {count_of(n, example_noun(report.data.kind))} of {report.ladder.measure.side}"


def is_judged(data: DataFacts) -> bool:
    """Whether an answer is right or wrong, and not only nearer or farther, as a number is."""
    return data.task not in ("regression", "reconstruction")


def side_sizes(data: DataFacts) -> dict[str, str]:
    """How much each side holds: examples, and of sequences the tokens that are predicted."""
    sizes = {}
    held_out = [side for side in data.n_tokens if side != "train" and data.n_tokens[side]]
    for side, n in data.n_tokens.items():
        if side != "train" and not held_out:
            continue
        if has_tokens(data):
            items = data.items.get(side, 0)
            held = f"{count_of(items, example_noun(data.kind))}, " if items else ""
            sizes[side] = f"{held}{count_of(n, 'token')}"
        else:
            sizes[side] = count_of(n, example_noun(data.kind))
    return sizes


def task_words(data: DataFacts) -> str:
    """What a network of rows or images is to say, and what guessing would come to.

    >>> rows = DataFacts("a.csv", "", "table", "", "", 2, ("no", "yes"), {}, {}, task="classification", target="paid")
    >>> task_words(rows)
    'predicts paid, one of 2 classes (no, yes); guessing is right in 50.00 % and costs ln 2 = 0.6931 nats'
    >>> task_words(rows._replace(task="regression", vocab_size=0))
    'predicts paid, a number; R² is 0 for always saying their mean'
    """
    if data.task == "reconstruction":
        return "gives back what it read, through a narrow place; R² is 0 for always giving the mean"
    predicts = f"predicts {data.target}" if data.target else "predicts"
    if data.task == "regression":
        return f"{predicts}, a number; R² is 0 for always saying their mean"
    shown = [cut_end(name, LONGEST_LISTED) for name in data.symbols[:MOST_CLASSES]]
    more = [f"{len(data.symbols) - MOST_CLASSES:,} more"] if len(data.symbols) > MOST_CLASSES else []
    # The classes of images often have no better name than that.
    among = f"{predicts}, one of" if data.target not in ("", "class") else "predicts one of"
    n = max(1, data.vocab_size)
    guessing = f"guessing is right in {percent(1 / n)} and costs {guessing_costs(n)} nats"
    return f"{among} {data.vocab_size:,} classes ({', '.join([*shown, *more])}); {guessing}"


def guessing_costs(n: int) -> str:
    """
    >>> guessing_costs(3)
    'ln 3 = 1.0986'
    """
    return f"ln {n:,} = {math.log(n):.4f}" if n > 0 else "nothing: there is no symbol, so 0"


def answer_parts(
    answers: Answers, data: DataFacts, network: str = "network", metric: str = "accuracy"
) -> Iterator[Part]:
    """Everything that a terminal shows of them. network: its name; metric: what the ladder ranks by."""
    yield Text("\n".join(metric_lines(answers, data)))
    for made in metric_tables(answers, network):
        yield Text("")
        yield made
    if answers.confusion:
        yield Text("")
        if len(answers.confusion.classes) <= MOST_CLASSES:
            yield confusion_table(answers.confusion)
            yield Text("")
        yield Text(confusion_words(answers.confusion, example_noun(data.kind)))
    if answers.calibration and (line := calibration_words(answers.calibration)):
        yield Text(line)
    if answers.importances:
        yield Text("")
        yield importance_table(answers, metric)
    shown = [example for example in answers.examples if not example.answer_pixels][:MOST_SHOWN]
    if shown:
        yield Text("")
        yield examples_table(shown, data)


def metric_lines(answers: Answers, data: DataFacts) -> list[str]:
    """The metrics on dev and on test, and what of the data the network could not know."""
    side = answers.side
    on = {side: [one for one in answers.intervals if one.side == side] for side in (side, "test")}
    judged = metrics_words(answers.metrics, data.target, on[side] if side == "dev" else ())
    learned_from = ", which it learned from" if side == "train" else ""
    lines = [f"on {side}, {count_of(answers.n, example_noun(data.kind))}{learned_from}: {judged}"]
    if answers.test_metrics:
        lines.append(f"on test, read once: {metrics_words(answers.test_metrics, data.target, on['test'])}")
    lines += [line for line in (majority_words(answers, data), cutoff_words(answers.cutoff)) if line]
    if answers.n_unknown:
        lines.append(f"{count_of(answers.n_unknown, 'cell')} of dev and test held a category that train does not have")
    return [printable(line) for line in lines]


def metrics_words(metrics: Mapping[str, float], target: str = "", intervals: Sequence[MetricInterval] = ()) -> str:
    """The metrics in a row; after the last that has the unit of the target, it is said.

    >>> metrics_words({"R²": 0.71, "MAE": 312.5, "RMSE": 400.0}, "mass")
    'R² 0.7100, MAE 312.5, RMSE 400 (in units of mass)'
    >>> metrics_words({"R²": 0.71}, intervals=[MetricInterval("dev", "R²", 0.65, 0.77)])
    'R² 0.7100 (95 % interval 0.6500 to 0.7700)'
    """
    ranges = {
        one.name: f" (95 % interval {metric_words(one.name, one.low)} to {metric_words(one.name, one.high)})"
        for one in intervals
        if math.isfinite(one.low) and math.isfinite(one.high)
    }
    parts = [f"{name} {metric_words(name, value)}{ranges.get(name, '')}" for name, value in metrics.items()]
    with_unit = [place for place, name in enumerate(metrics) if name in ("MAE", "RMSE")]
    if with_unit and target:
        parts[with_unit[-1]] += f" (in units of {target})"
    return ", ".join(parts)


def metric_tables(answers: Answers, network: str) -> list[Table]:
    """The network beside the simple models by every metric, on each side; where the ladder shows all of them, nothing.

    >>> simple = ModelMetrics("majority class", {"accuracy": 0.94, "AUC": 0.5, "log loss": 0.23})
    >>> answers = Answers(50, {"accuracy": 0.96, "AUC": 0.9, "log loss": 0.1}, {}, simple={"dev": (simple,)})
    >>> from pellucid.figures.tables import parts_text
    >>> print(parts_text(metric_tables(answers, "tabm")))
    on dev          accuracy     AUC
    tabm             96.00 %  0.9000
    majority class   94.00 %  0.5000
    """
    found = []
    for side, simple in answers.simple.items() if len(shown_metrics(answers.metrics)) > 1 else ():
        mine = answers.metrics if side == answers.side else answers.test_metrics
        intervals = tuple(one for one in answers.intervals if one.side == side)
        found.append(models_table(f"on {side}", [ModelMetrics(network, mine, intervals), *simple]))
    return found


def majority_words(answers: Answers, data: DataFacts) -> str:
    """Where one class has most of train: whether the network is right more often than that class alone.

    >>> data = DataFacts("a.csv", "", "table", "", "", 2, ("no", "yes"), {}, {}, class_counts=(94, 6))
    >>> from pellucid.records import Gain
    >>> level = Answers(100, {"accuracy": 0.94}, {}, over_majority=(Gain("dev", 0.0, -0.03, 0.03, 100),))
    >>> print(majority_words(level, data))
    Saying no always is right in 94.00 % of dev as well: by accuracy nothing is earned.
    >>> ahead = Answers(500, {"accuracy": 0.97}, {}, over_majority=(Gain("dev", 0.03, 0.01, 0.05, 500),))
    >>> print(majority_words(ahead, data))
    Saying no always is right in 94.00 % of dev: the network is right in 3.00 points more (95 % interval 1.00 to 5.00).
    """
    on_dev = next((gain for gain in answers.over_majority if gain.side == "dev"), None)  # of train it would say nothing
    if on_dev is None or not data.class_counts or not math.isfinite(on_dev.mean):
        return ""
    usual = cut_end(data.symbols[data.class_counts.index(max(data.class_counts))], LONGEST_LISTED)
    always = f"Saying {usual} always is right in {percent(answers.metrics['accuracy'] - on_dev.mean)} of dev"
    interval = f"(95 % interval {100 * on_dev.low:.2f} to {100 * on_dev.high:.2f})".replace("-", "−")
    if on_dev.verdict == "ahead":
        return f"{always}: the network is right in {100 * on_dev.mean:.2f} points more {interval}."
    if on_dev.verdict == "behind":
        return f"{always}: the network is right in {-100 * on_dev.mean:.2f} points less {interval}."
    if on_dev.mean == 0:
        return f"{always} as well: by accuracy nothing is earned."
    sign = "more" if on_dev.mean > 0 else "less"
    points = f"{abs(100 * on_dev.mean):.2f} points {sign} {interval}"
    return f"{always}: the network has {points}, no more than chance can make."


def cutoff_words(cutoff: Cutoff | None) -> str:
    """What is found of a rare class where it is said from a chosen probability on.

    >>> dev, test = Confusion(("no", "yes"), ((450, 50), (3, 12))), Confusion(("no", "yes"), ((440, 60), (5, 10)))
    >>> print(cutoff_words(Cutoff("yes", 0.0625, dev, test)))
    With yes said from a probability of 0.0625 on, chosen on dev, 12 of 15 yes are found and 50 of 500 others are called
    so too (on test 10 of 15, and 60 of 500).
    """
    if cutoff is None:
        return ""
    rare = cut_end(cutoff.rare, LONGEST_LISTED)

    def counts(confusion: Confusion) -> tuple[str, str]:
        (kept, called), (missed, found) = confusion.counts
        return f"{found:,} of {found + missed:,}", f"{called:,} of {kept + called:,}"

    found, called = counts(cutoff.dev)
    on_test = "" if cutoff.test is None else " (on test {}, and {})".format(*counts(cutoff.test))
    return (
        f"With {rare} said from a probability of {chance_words(cutoff.at)} on, chosen on dev, {found} {rare} are found "
        f"and {called} others are called so too{on_test}."
    )


def importance_words(one: Importance, metric: str) -> str:
    """What is lost without a column, and its interval.

    >>> importance_words(Importance("age", 0.125, 0.05, 0.2, 300), "accuracy")
    '12.50 points (5.00 to 20.00)'
    >>> importance_words(Importance("age", -0.001, -0.004, 0.002, 300), "R²")
    '−0.0010 (−0.0040 to 0.0020)'
    """
    if is_share(metric):
        words = f"{100 * one.fall:.2f} points ({100 * one.low:.2f} to {100 * one.high:.2f})"
    else:
        words = f"{one.fall:.4f} ({one.low:.4f} to {one.high:.4f})"
    return words.replace("-", "−")


def importance_table(answers: Answers, metric: str) -> Table:
    """The columns that the network needs most."""
    made = Table("column", *right(f"{metric} lost without it"))
    for one in answers.importances[:MOST_SHOWN]:
        made.add(cut_end(one.column, LONGEST), importance_words(one, metric), style="" if one.low > 0 else "dim")
    left = len(answers.importances) - MOST_SHOWN
    if left > 0:
        made.add(Cell(f"and {left:,} more", "dim"), "")
    return made


def importance_lines(report: TrainingReport) -> list[str]:
    """How it was measured which columns a network needs."""
    answers = report.answers
    if answers is None or not answers.importances:
        return []
    rows = count_of(answers.importances[0].n_rows, "row")
    is_side = answers.importances_on in ("dev", "train")
    where = answers.importances_on if is_side else "the parts of the cross-validation"
    return [
        f"Each column was shuffled among {rows} of {where}; the more {report.ladder.measure.metric} is lost, the more "
        "the network needs it. With 95 % intervals.",
        "Of two columns that say the same the network may need either, and neither may show.",
    ]


class ClassMistake(NamedTuple):
    """One class that was taken for another, and how often."""

    truth: str
    answer: str
    n: int
    of: int  # examples of the true class


def class_mistakes(confusion: Confusion) -> list[ClassMistake]:
    """Every pair of classes that were confused, the most frequent first.

    >>> class_mistakes(Confusion(("a", "b"), ((5, 1), (2, 4))))
    [ClassMistake(truth='b', answer='a', n=2, of=6), ClassMistake(truth='a', answer='b', n=1, of=6)]
    """
    found = [
        ClassMistake(confusion.classes[i], confusion.classes[j], n, sum(row))
        for i, row in enumerate(confusion.counts)
        for j, n in enumerate(row)
        if i != j and n
    ]
    return sorted(found, key=lambda mistake: -mistake.n)


def confusion_words(confusion: Confusion, noun: str, most: int = 3) -> str:
    """The most frequent mistakes in a sentence.

    >>> confusion_words(Confusion(("a", "b"), ((5, 0), (2, 4))), "row")
    'Most often confused: b was taken for a in 2 of 6 rows.'
    """
    found = class_mistakes(confusion)
    if not found:
        return f"Every {noun} was told right."
    parts = [
        f"{cut_end(truth, 24)} was taken for {cut_end(answer, 24)} in {n:,} of {count_of(of, noun)}"
        for truth, answer, n, of in found[:most]
    ]
    return f"Most often confused: {'; '.join(parts)}."


def calibration_words(calibration: Calibration) -> str:
    """How sure the network was and how often it was right, over all answers.

    >>> from pellucid.records import ConfidenceBin
    >>> print(calibration_words(Calibration((ConfidenceBin(0.5, 1.0, 10, 0.9, 0.8),), 0.1)))
    It was sure of 90.00 % on average and right in 80.00 %; among answers alike in confidence the two are 10.00 points
    apart.
    """
    bins = [each for each in calibration.bins if each.n]
    n = sum([each.n for each in bins])
    if not n:
        return ""
    sure = sum([each.n * each.confidence for each in bins]) / n
    right = sum([each.n * each.share_right for each in bins]) / n
    return (
        f"It was sure of {percent(sure)} on average and right in {percent(right)}; "
        f"among answers alike in confidence the two are {100 * calibration.error:.2f} points apart."
    )


def token_mistake_lines(seen: TokenMistakes) -> list[str]:
    """What was read, how surprising it was in the mean, and how often the likeliest token was the true one."""
    unit = "item" if seen.kind == "list" else "window"
    part = "all" if seen.n_tokens == seen.n_side else f"{seen.n_tokens:,} of"
    right_words = f"the likeliest was the true one in {percent(seen.share_right)}"
    return [
        f"{seen.source}, {part} {count_of(seen.n_side, 'token')} of dev in {count_of(seen.n_read_at_once, unit)}.",
        f"A token costs {seen.nats:.4f} nats in the mean; {right_words}.",
    ]


def token_confusion_table(confusions: Sequence[TokenConfusion]) -> Table:
    """A row for each pair of tokens: the true one, the one that was likeliest in its place, and how often."""
    made = Table("true", "likeliest", *right("times", "of the true one's"))
    for one in confusions:
        names = (token_label(one.truth), token_label(one.likeliest))
        made.add(*names, f"{one.n:,}", f"{one.of:,}")
    return made


def confusion_table(confusion: Confusion) -> Table:
    """A row for each true class, a column for each answer, and the share of each class that was found."""
    names = [cut_end(name, LONGEST_CLASS) for name in confusion.classes]
    made = Table("true \\ answer", *right(*names, "found"))
    for i, (name, row) in enumerate(zip(confusion.classes, confusion.counts, strict=True)):
        cells = [Cell(f"{n:,}" if n else "·", "bold" if i == j else "" if n else "dim") for j, n in enumerate(row)]
        made.add(cut_end(name, LONGEST), *cells, percent(row[i] / sum(row)) if sum(row) else "")
    return made


def examples_table(examples: Sequence[AnsweredExample], data: DataFacts, longest: int = LONGEST) -> Table:
    """A few answers beside the truth; a wrong one is marked, which of numbers would be nearly all."""
    has_mark = is_judged(data)
    has_probability = any(example.probability is not None for example in examples)
    probability = right("probability") * has_probability
    made = Table(source_noun(data.kind), "truth", "answer", *probability, *[""] * has_mark)
    for example in examples:
        texts = [cut_end(part, longest) or "(empty)" for part in (example.what, example.truth, example.answer)]
        mark = Cell("" if example.is_right else "wrong", "" if example.is_right else "yellow")
        made.add(
            *[Cell(text, is_code=True) for text in texts],
            *[chance_words(example.probability)] * has_probability,
            *[mark] * has_mark,
        )
    return made


def prediction_parts(predictions: Predictions) -> Iterator[Part]:
    """What a terminal shows of what a network says about new rows, images or sources."""
    predicts = f" predicts {predictions.target}" if predictions.target else ""
    yield Text(printable(f"{predictions.network} of the run {predictions.run}{predicts}"), "dim")
    yield Text("")
    yield prediction_table(predictions)
    left_out = len(predictions.predictions) - MOST_PREDICTED
    if left_out > 0:
        yield Text(f"and {left_out:,} more; --json tells them all", "dim")
    notes = _prediction_notes(predictions)
    if notes:
        yield Text("")
    yield from note_lines(notes)


def prediction_table(predictions: Predictions) -> Table:
    """A row for each example; columns that nothing stands in are left out."""
    shown = predictions.predictions[:MOST_PREDICTED]
    has_probability = any(each.probability is not None for each in shown)
    has_others = any(len(each.ranked) > 1 for each in shown)
    answer = cut_end(predictions.target, LONGEST_PREDICTED) or "answer"
    made = Table("", answer, *right("probability") * has_probability, *["or"] * has_others)
    for each in shown:
        made.add(
            cut_end(each.what, LONGEST_PREDICTED),
            Cell(cut_end(each.answer, LONGEST_PREDICTED) or "(empty)", "bold"),
            *[chance_words(each.probability)] * has_probability,
            *[Cell(_other_classes(each.answer, each.ranked), "dim")] * has_others,
        )
    return made


def _other_classes(answer: str, ranked: tuple[tuple[str, float], ...]) -> str:
    """The next likeliest classes.

    >>> _other_classes("5", (("5", 0.7), ("3", 0.2), ("8", 0.1)))
    '3 0.2000, 8 0.1000'
    """
    others = [(name, chance) for name, chance in ranked if name != answer][:MOST_RANKED]
    return ", ".join([f"{cut_end(name, LONGEST_PREDICTED // 2)} {chance_words(chance)}" for name, chance in others])


def _prediction_notes(predictions: Predictions) -> list[str]:
    """Those of all, and those of single examples, each said once with how many it is true of."""
    single: dict[str, list[str]] = {}
    for each in predictions.predictions:
        for note in note_sentences(each.notes):
            single.setdefault(note, []).append(each.what)
    more = {note: f" and {len(whose) - 1:,} more" * (len(whose) > 1) for note, whose in single.items()}
    return [*note_sentences(predictions.notes), *[f"{whose[0]}{more[note]}: {note}" for note, whose in single.items()]]
