"""The ladder in words: one table, the best on dev first, with what each rung earns; and the same at several sizes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, note_lines, right
from pellucid.figures.words.notation import (
    count_of,
    cut_end,
    is_share,
    loss_unit_words,
    loss_words,
    metric_words,
    percent,
)
from pellucid.figures.words.notes import note_sentences, plain_with_notes
from pellucid.records import (
    TREES,
    CrossValidation,
    Gain,
    Ladder,
    Measure,
    ModelMetrics,
    Rung,
    SizeInterval,
    SizeLadder,
    SizeRung,
    as_plain,
)

COUNTING = Measure()
SPARE = {
    "parameters": 1,
    "bits/char": 2,
    "train": 3,
    "seconds": 4,
    "tokens/s": 5,
    "tokens right": 6,
    "items right": 7,
    "words right": 7,
}  # what goes first where there is no room
LONGEST_NAME = 40  # letters of a model


def ladder_parts(ladder: Ladder) -> Iterator[Part]:
    """What a terminal shows of a ladder."""
    yield Text(printable(ladder.source), "dim")
    yield Text("")
    yield ladder_table(ladder)
    if words := best_network_words(ladder):
        yield Text("")
        yield Text(words, "bold")
    networks = [rung for rung in rank_rungs(ladder) if not rung.is_counted]
    if networks and (words := accuracy_words(ladder, networks[0])):
        yield Text(words)
    yield from note_lines(note_sentences(ladder.notes))


def plain_ladder(ladder: Ladder) -> dict[str, object]:
    """The ladder as what JSON can hold, with each rung's gap to the best simple model."""
    rungs = [{**rung._asdict(), "gap": ladder.gap(rung)} for rung in ladder.rungs]
    return {**plain_with_notes(ladder), "rungs": as_plain(rungs)}


def ladder_table(ladder: Ladder) -> Table:
    """A row for each rung, the best on dev first; networks are bold."""
    metric, unit, side, has_test = (
        ladder.measure.metric,
        ladder.measure.loss,
        ladder.measure.side,
        has_test_side(ladder),
    )
    train = ["train"] * (side != "train")
    reached = (
        [f"{side} {metric}", *["test"] * has_test, f"{side} {unit}", *train]
        if metric
        else [f"{side} {unit}", "bits/char", *train, *["test"] * has_test]
    )
    shares = _share_headings(ladder)
    costs = ["parameters", "seconds", f"{ladder.measure.one}s/s", f"over {ladder.measure.simple}"]
    columns = [column._replace(spare=SPARE.get(column.heading, 0)) for column in right(*reached, *shares, *costs)]
    columns[-2] = columns[-2]._replace(spare=SPARE["tokens/s"])
    made = Table("model", *columns)
    for rung in rank_rungs(ladder):
        made.add(
            cut_end(rung.name, LONGEST_NAME),
            *_reached_cells(ladder, rung),
            *_share_cells(rung)[: len(shares)],
            f"{rung.parameters:,}",
            f"{rung.seconds:.1f}",
            "" if rung.tokens_per_second is None else f"{rung.tokens_per_second:,.0f}",
            gap_words(ladder, rung),
            style="" if rung.is_counted else "bold",
        )
    return made


def _reached_cells(ladder: Ladder, rung: Rung) -> list[str]:
    metric, has_test = ladder.measure.metric, has_test_side(ladder)
    if metric:
        test = [metric_words(metric, rung.test_metric)] * has_test
        losses = (rung.train,) if ladder.measure.side == "train" else (rung.dev, rung.train)
        return [metric_words(metric, rung.metric), *test, *[loss_words(one, metric) for one in losses]]
    bits = f"{rung.bits_per_character:.3f}" if math.isfinite(rung.bits_per_character) else ""
    return [loss_words(rung.dev), bits, loss_words(rung.train), *[loss_words(rung.test)] * has_test]


def _share_headings(ladder: Ladder) -> list[str]:
    """How often next tokens are right on dev, and whole items or words, where any rung was measured by that."""
    found = [one for rung in ladder.rungs if (one := rung.accuracy("dev"))]
    whole = next((one.whole for one in found if one.whole), "")
    return [*["tokens right"] * bool(found), *[f"{whole}s right"] * bool(whole)]


def _share_cells(rung: Rung) -> list[str]:
    found = rung.accuracy("dev")
    if found is None:
        return ["", ""]
    return [percent(found.share_right), percent(found.whole_share) if found.n_whole else ""]


def accuracy_words(ladder: Ladder, own: Rung) -> str:
    """How often the likeliest next token is the true one on dev, beside the best that only counts.

    >>> from pellucid.records import TokenAccuracy
    >>> seen = TokenAccuracy("dev", 0.4, 5000, "word", 1000, 250)
    >>> own = Rung("gru", False, 9, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4, accuracies=(seen,))
    >>> best = own._replace(name="bigram", is_counted=True, accuracies=(seen._replace(share_right=0.3),))
    >>> print(accuracy_words(Ladder("a text", (own, best)), own))
    On dev the likeliest next token is the true one in 40.00 % of 5,000 places (bigram: 30.00 %), and from beginning to
    end in 250 of 1,000 words (bigram: 250).
    """
    seen, best = own.accuracy("dev"), ladder.best_count
    if seen is None:
        return ""
    other = best.accuracy("dev") if best is not None and best != own else None
    beside = whole_beside = ""
    if other is not None and best is not None:
        part = "" if other.n_tokens == seen.n_tokens else f" of {other.n_tokens:,}"
        beside = f" ({best.name}: {percent(other.share_right)}{part})"
        part = "" if other.n_whole == seen.n_whole else f" of {other.n_whole:,}"
        whole_beside = f" ({best.name}: {other.n_whole_right:,}{part})"
    words = (
        f"On dev the likeliest next token is the true one in {percent(seen.share_right)} of {seen.n_tokens:,} places"
    )
    if not seen.n_whole:
        return f"{words}{beside}."
    whole = f"from beginning to end in {seen.n_whole_right:,} of {count_of(seen.n_whole, seen.whole)}"
    if seen.whole == "item":
        # Every item begins at the same boundary, so that the likeliest tokens lead to one item alone.
        return f"{words}{beside}, and {whole}: only the one that greedy decoding makes can be."
    return f"{words}{beside}, and {whole}{whole_beside}."


def baseline_table(ladder: Ladder) -> Table:
    """What counting alone reaches, or other models that are no networks."""
    measure = ladder.measure
    metric, unit, side = measure.metric, measure.loss, measure.side
    headings = (f"{side} {metric}", f"{side} {unit}") if metric else (f"{side} {unit}", "bits/char")
    name = measure.simple if metric else "counting alone"
    made = Table(name, *right(*headings, "numbers kept"))
    for rung in ladder.rungs:
        loss = ladder.loss(rung)
        reached = (
            (metric_words(metric, rung.metric), loss_words(loss, metric))
            if metric
            else (loss_words(loss), f"{rung.bits_per_character:.3f}")
        )
        made.add(cut_end(rung.name, LONGEST_NAME), *reached, f"{rung.parameters:,}")
    return made


def has_test_side(ladder: Ladder) -> bool:
    """Whether any rung was read on test, by what the ladder is judged by."""
    return any((rung.test_metric if ladder.measure.metric else rung.test) is not None for rung in ladder.rungs)


def best_network_words(ladder: Ladder) -> str:
    """What the best network earns over the best simple model, in one sentence; nothing where one of them is missing."""
    networks = [rung for rung in rank_rungs(ladder) if not rung.is_counted and math.isfinite(ladder.merit(rung))]
    best = ladder.best_count
    if not networks or best is None:
        return ""
    gap, name = ladder.gap(networks[0]), printable(networks[0].name)
    beside = f"the best that only counts, {best.name}"
    if ladder.measure.metric:
        beside = f"{printable(ladder.measure.simple)}, of which {printable(best.name)} is the best"
    if gap > 0 and {gain.verdict for gain in networks[0].gains} - {"ahead"}:
        return f"No gain of the best network, {name}, can be told from these data over {beside}."
    apart = f"is {gap_size(ladder.measure, gap)} behind" if gap < 0 else "is level with"
    earns = f"earns {gap_size(ladder.measure, gap)} over" if gap > 0 else apart
    return f"The best network, {name}, {earns} {beside}."


def earned_words(ladder: Ladder) -> str:
    """What the network of a run earns over the best simple model on dev, and on test where there is one.

    >>> network = Rung("cnn", False, 3722, 0.1, 0.2, 0.2, math.nan, 9.0, 1e4, metric=0.985, test_metric=0.98)
    >>> simple = Rung("majority class", True, 10, 2.3, 2.3, 2.3, math.nan, 1.0, None, metric=0.96, test_metric=0.97)
    >>> print(earned_words(Ladder("digits", (network, simple), measure=Measure(metric="accuracy", one="image"))))
    The cnn earns 2.50 points of accuracy over the best simple model (98.50 % on dev, where majority class has 96.00 %;
    on test 98.00 % and 97.00 %).
    >>> network = Rung("transformer", False, 200_064, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4)
    >>> counted = Rung("Kneser–Ney 6-gram", True, 7, 1.6, 1.96, 1.95, 2.8, 1.0, None)
    >>> print(earned_words(Ladder("names", (network, counted))))
    The transformer earns 0.0800 nats a token over counting (1.8800 against the Kneser–Ney 6-gram's 1.9600 on dev; on
    test 0.0600).
    """
    network, best = next((rung for rung in ladder.rungs if not rung.is_counted), None), ladder.best_count
    if network is None or best is None:
        return "not known: there is no network, or no simple model"
    metric, gap = ladder.measure.metric, ladder.gap(network)
    if ladder.measure.side == "train":
        reached = [metric_words(metric, rung.metric) for rung in (network, best)]
        beside = f"where {best.name} has {reached[1]}"
        return (
            f"On what it was trained on, the {network.name} has {reached[0]} {metric}, {beside}; nothing was held out."
        )
    earned = gap_size(ladder.measure, gap)
    if metric:
        against = (
            f"{metric_words(metric, network.metric)} on dev, where {best.name} has {metric_words(metric, best.metric)}"
        )
        tests = [metric_words(metric, rung.test_metric) for rung in (network, best) if rung.test_metric is not None]
        on_test = f"; on test {' and '.join(tests)}" if len(tests) == 2 else ""
    else:
        against = f"{loss_words(network.dev)} against the {best.name}'s {loss_words(best.dev)} on dev"
        on_test = ""
        if network.test is not None and best.test is not None:
            on_test = f"; on test {best.test - network.test:.4f}".replace("-", "−")
    simple = "the best simple model" if metric else "counting"
    verdicts, how_sure = [gain.verdict for gain in network.gains], _interval_words(ladder, network)
    if validated := ladder.cross_validation:
        # Over all rows, where the few of dev and of test would only contradict each other.
        gap, verdicts = validated.gain.mean, [validated.gain.verdict]
        earned = gap_size(ladder.measure, gap)
        ours, theirs = (metric_words(metric, model.metrics.get(metric)) for model in validated.models[:2])
        against = (
            f"cross-validated over {validated.n_done} parts {ours}, where {validated.models[1].name} has {theirs}; "
            f"the kept network {metric_words(metric, network.metric)} on dev"
        )
        on_test = f" and {metric_words(metric, network.test_metric)} on test" if network.test_metric is not None else ""
    if gap > 0 and set(verdicts) <= {"ahead"}:
        return f"The {network.name} earns {earned} over {simple} ({against}{on_test}).{how_sure}"
    if gap > 0 or "ahead" in verdicts:
        no_gain = f"No gain of the {network.name} over {simple} can be told from these data"
        return f"{no_gain} ({against}{on_test}).{how_sure}"
    behind = f"it is {earned} behind" if gap < 0 else "it is as good" if gap == 0 else "how far behind is not known"
    if verdicts and set(verdicts) == {"level"}:
        behind += ", no more than chance can make"
    return f"The {network.name} earns nothing over {simple}: {behind} ({against}{on_test}).{how_sure}"


def counted_words(ladder: Ladder, own: Rung) -> str:
    """What a model that only counts reached, beside the best that does.

    >>> bigram = Rung("bigram", True, 729, 2.45, 2.4543, 2.46, 3.5, 0.1, None)
    >>> best = Rung("Kneser–Ney 6-gram", True, 7, 1.6, 1.96, 1.95, 2.8, 1.0, None)
    >>> print(counted_words(Ladder("names", (best, bigram)), bigram))
    The bigram has 2.4543 nats a token on dev and 2.4600 on test: 0.4943 behind the best that only counts here, the
    Kneser–Ney 6-gram.
    """
    best = ladder.best_count
    if math.isinf(own.dev):
        others = f"; the best that only counts here, the {best.name}, has {loss_words(best.dev)}" if best else ""
        return f"For the {own.name} some of dev is impossible, and its loss infinite{others}."
    on_test = f" and {loss_words(own.test)} on test" if own.test is not None else ""
    reached = f"The {own.name} has {loss_words(own.dev)} {loss_unit_words(ladder.measure)} on dev{on_test}"
    if best is None or best == own:
        return f"{reached}: the best that only counts here."
    return f"{reached}: {own.dev - best.dev:.4f} behind the best that only counts here, the {best.name}."


def _interval_words(ladder: Ladder, network: Rung) -> str:
    """The intervals of what it earns on each side, as one more sentence; nothing where they are not known.

    >>> gains = (Gain("dev", 0.08, 0.07, 0.09, 500), Gain("test", 0.06, -0.01, 0.13, 40))
    >>> network = Rung("gru", False, 9, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4, gains=gains)
    >>> print(_interval_words(Ladder("names", (network,)), network))
     With 95 % confidence it is between 0.0700 and 0.0900 ahead on dev and between 0.0100 behind and 0.1300 ahead on
    test.
    """
    validated = ladder.cross_validation
    gains = network.gains if validated is None else (validated.gain,)
    known = [gain_words(ladder, gain) for gain in gains if math.isfinite(gain.low)]
    return f" With 95 % confidence it is {' and '.join(known)}." if known else ""


def gain_words(ladder: Ladder, gain: Gain) -> str:
    """Between what and what a network is ahead or behind on a side.

    >>> gain_words(Ladder("names", ()), Gain("dev", 0.08, 0.07, 0.09, 500))
    'between 0.0700 and 0.0900 ahead on dev'
    """
    is_points = is_share(ladder.measure.metric)
    where = f"on {gain.side}" if gain.side in ("dev", "test") else f"in {gain.side}"
    low, high = (f"{100 * end:.2f} points" if is_points else f"{end:.4f}" for end in (abs(gain.low), abs(gain.high)))
    if gain.verdict == "level":
        return f"between {low} behind and {high} ahead {where}"
    low, high = (low, high) if gain.verdict == "ahead" else (high, low)
    return f"between {low} and {high} {gain.verdict} {where}"


def shown_metrics(metrics: Mapping[str, float]) -> list[str]:
    """Those that stand in a table of models; the loss stands in the ladder, and RMSE tells what R² does."""
    return [name for name in metrics if name not in ("log loss", "RMSE")]


def models_table(heading: str, models: Sequence[ModelMetrics]) -> Table:
    """A row for each model, the first of them the network, and a column for each metric with its interval."""
    names = shown_metrics(models[0].metrics)
    made = Table(heading, *right(*names))
    for place, model in enumerate(models):
        ranges = {
            one.name: f" ({metric_words(one.name, one.low)} to {metric_words(one.name, one.high)})"
            for one in model.intervals
            if math.isfinite(one.low) and math.isfinite(one.high)
        }
        cells = [f"{metric_words(name, model.metrics.get(name))}{ranges.get(name, '')}" for name in names]
        made.add(cut_end(model.name, 24), *cells, style="" if place else "bold")
    return made


def validation_table(validated: CrossValidation) -> Table:
    """Every model on rows that it did not learn from."""
    return models_table("cross-validated", validated.models)


def validation_words(validated: CrossValidation) -> str:
    """How it was cross-validated.

    >>> model = ModelMetrics("tabm", {"accuracy": 0.9})
    >>> gain = Gain("cross-validation", 0.1, 0.0, 0.2, 333)
    >>> print(validation_words(CrossValidation(5, 5, 333, 450, (model,), gain)))
    Cross-validated over 5 parts: all 333 rows, each answered by models that learned from the others; networks of 450
    steps.
    """
    parts, rows = f"{validated.parts} parts", f"all {validated.n_rows:,} rows"
    if validated.n_done < validated.parts:
        parts, rows = f"{validated.n_done} of {parts}, for the time was over", f"{validated.n_rows:,} rows"
    each = f"each answered by models that learned from the others; networks of {count_of(validated.steps, 'step')}"
    return f"Cross-validated over {parts}: {rows}, {each}."


def trees_words(ladder: Ladder) -> str:
    """Where gradient boosting is better than the network beyond the interval; nothing elsewhere.

    >>> network = Rung("tabm", False, 9, 0.1, 0.2, 0.2, math.nan, 9.0, 1e4, metric=0.9, test_metric=0.9)
    >>> gains = (Gain("dev", -0.04, -0.06, -0.02, 500), Gain("test", -0.01, -0.03, 0.01, 500))
    >>> trees = network._replace(name="gradient boosting", is_counted=True, metric=0.94, test_metric=0.91, gains=gains)
    >>> rows = Ladder("x.csv", (trees, network), measure=Measure(metric="accuracy", one="row"))
    >>> print(trees_words(rows))
    Trees are better here than the tabm: beside gradient boosting it is, with 95 % confidence, between 2.00 points and
    6.00 points behind on dev and between 3.00 points behind and 1.00 points ahead on test.
    >>> ahead_on_test = (gains[0], Gain("test", 0.03, 0.01, 0.05, 500))
    >>> trees_words(rows._replace(rungs=(trees._replace(gains=ahead_on_test), network)))
    ''
    """
    trees, network = ladder.trees, next((rung for rung in ladder.rungs if not rung.is_counted), None)
    if trees is None or network is None:
        return ""
    validated = ladder.cross_validation
    gains = trees.gains
    if validated is not None:
        gains = (validated.over_trees,) if validated.over_trees else ()
    verdicts = {gain.verdict for gain in gains}
    if "behind" not in verdicts or "ahead" in verdicts:
        return ""
    known = " and ".join([gain_words(ladder, gain) for gain in gains if math.isfinite(gain.low)])
    return f"Trees are better here than the {network.name}: beside {TREES} it is, with 95 % confidence, {known}."


def judged_by_words(ladder: Ladder) -> str:
    """What the models are judged by."""
    measure = ladder.measure
    if not measure.metric:
        return (
            "One split, one measure: the mean over every predicted token of dev. “Over counting” is "
            "what a model earns over the best one that only counts."
        )
    split = "One split, one measure" if measure.side == "dev" else "No split, one measure"
    return (
        f"{split}: the {measure.metric} over the whole of {measure.side}, by which the models are ranked; the loss "
        f"beside it is in {loss_unit_words(measure)}. “Over {measure.simple}” is what a model earns over the best."
    )


def gap_words(ladder: Ladder, rung: Rung) -> str:
    """What a rung earns over the best simple model, with its sign; nothing for that one itself.

    >>> bigram = Rung("bigram", True, 9, 2.4, 2.5, None, 3.6, 0.0, None)
    >>> gap_words(Ladder("x", (bigram,)), bigram._replace(name="mlp", is_counted=False, dev=2.25))
    '+0.2500'
    >>> majority = Rung("majority", True, 1, 1.0, 1.1, None, math.nan, 0.0, None, metric=0.5)
    >>> rows = Ladder("x", (majority,), measure=Measure("nats", "accuracy", "simple models", "row"))
    >>> gap_words(rows, majority._replace(name="mlp", metric=0.75))
    '+25.00 points'
    >>> gap_words(rows, majority._replace(name="twin"))
    '±0.00 points'
    """
    number = gap_number(ladder, rung)
    return f"{number} points" if number and is_share(ladder.measure.metric) else number


def gap_number(ladder: Ladder, rung: Rung) -> str:
    """The same as a number alone, shares in points of percent."""
    gap = ladder.gap(rung)
    return "" if rung is ladder.best_count or not math.isfinite(gap) else signed_gap(ladder.measure.metric, gap)


def signed_gap(metric: str, gap: float) -> str:
    """What a model earns over another as a number with its sign, shares in points of percent.

    >>> signed_gap("accuracy", -0.0058), signed_gap("R²", 0.0), signed_gap("", 0.25)
    ('−0.58', '±0.0000', '+0.2500')
    """
    scaled, digits = (100 * gap, 2) if is_share(metric) else (gap, 4)
    # Two models may well be right equally often; that is no gain.
    if metric and not round(scaled, digits):
        return f"±{0:.{digits}f}"
    return f"{scaled:+.{digits}f}".replace("-", "−")


def gap_unit(measure: Measure) -> str:
    """What a gap is counted in, as a sentence has it.

    >>> gap_unit(Measure()), gap_unit(Measure(metric="accuracy")), gap_unit(Measure(metric="R²"))
    ('nats a token', 'points of accuracy', 'of R²')
    """
    if not measure.metric:
        return loss_unit_words(measure)
    return f"points of {measure.metric}" if is_share(measure.metric) else f"of {measure.metric}"


def gap_size(measure: Measure, gap: float) -> str:
    """The size of a gap with what it is counted in.

    >>> gap_size(Measure(metric="accuracy"), -0.0325), gap_size(Measure(), 0.08)
    ('3.25 points of accuracy', '0.0800 nats a token')
    """
    number = f"{100 * abs(gap):.2f}" if is_share(measure.metric) else f"{abs(gap):.4f}"
    return f"{number} {gap_unit(measure)}"


def rank_rungs(ladder: Ladder) -> list[Rung]:
    """The rungs, the best first and what has no number last; of two that are alike, the lower loss first."""

    def place(rung: Rung) -> tuple[float, float]:
        return _last_if_nan(-ladder.merit(rung)), _last_if_nan(ladder.loss(rung))

    return sorted(ladder.rungs, key=place)


def _last_if_nan(number: float) -> float:
    return math.inf if math.isnan(number) else number


class SizeResult(NamedTuple):
    """What one model reached with so many examples, over all its trainings."""

    n_train: int
    mean: float
    low: float  # the least of them
    high: float
    trainings: int
    interval: SizeInterval | None = None  # of the mean


def size_ladder_parts(ladder: SizeLadder) -> Iterator[Part]:
    """What a terminal shows of networks at several sizes of the training side."""
    yield Text(printable(ladder.source), "dim")
    yield Text("")
    yield size_ladder_table(ladder)
    yield Text("* the best of this size; test, parameters and seconds are those with the most examples", "dim")
    if spread := spread_words(ladder):
        yield Text(spread, "dim")
    if winners := winner_lines(ladder):
        yield Text("")
        yield Text("\n".join([printable(line) for line in winners]), "bold")
    yield from note_lines(note_sentences(ladder.notes))


def rungs_by_model(ladder: SizeLadder) -> dict[str, list[SizeRung]]:
    """The rungs of each model; networks first, and among alike the one that is best with the most examples first."""
    models: dict[str, list[SizeRung]] = {}
    for rung in ladder.rungs:
        models.setdefault(rung.name, []).append(rung)

    def place(name: str) -> tuple[bool, float]:
        return models[name][0].is_counted, -results_by_size(ladder, name)[-1].mean

    return {name: models[name] for name in sorted(models, key=place)}


def results_by_size(ladder: SizeLadder, name: str) -> list[SizeResult]:
    """For each size the mean of a model's trainings, the least and the most, and the interval of the mean if any.

    >>> rungs = tuple(SizeRung("cnn", 100, metric, None, 1.0, 9, False) for metric in (0.5, 0.75))
    >>> results_by_size(SizeLadder("digits", "accuracy", (100,), rungs), "cnn")
    [SizeResult(n_train=100, mean=0.625, low=0.5, high=0.75, trainings=2, interval=None)]
    """
    found, intervals = [], {one.n_train: one for one in ladder.intervals if one.name == name}
    rungs = [rung for rung in ladder.rungs if rung.name == name]
    for size in sorted({rung.n_train for rung in rungs}):
        metrics = [rung.metric for rung in rungs if rung.n_train == size]
        mean = sum(metrics) / len(metrics)
        found.append(SizeResult(size, mean, min(metrics), max(metrics), len(metrics), intervals.get(size)))
    return found


def size_ladder_table(ladder: SizeLadder) -> Table:
    """A row for each model, a column for each size; the best of a size is marked, and networks are bold."""
    models = rungs_by_model(ladder)
    sizes = [f"{size:,}" for size in ladder.sizes]
    made = Table(f"{ladder.metric} on dev", *right(*sizes, "test", "parameters", "seconds"))
    cells = {name: {each.n_train: each for each in results_by_size(ladder, name)} for name in models}
    best = {size: max([at[size].mean for at in cells.values() if size in at], default=0.0) for size in ladder.sizes}
    for name, rungs in models.items():
        largest = [rung for rung in rungs if rung.n_train == max([each.n_train for each in rungs])]
        tests = [rung.test_metric for rung in largest if rung.test_metric is not None]
        reached = [cells[name].get(size) for size in ladder.sizes]
        made.add(
            cut_end(name, 30),
            *[
                f"{_mean_words(ladder.metric, at)}{'*' if at.mean == best[size] else ' '}" if at else ""
                for size, at in zip(ladder.sizes, reached, strict=True)
            ],
            metric_words(ladder.metric, sum(tests) / len(tests) if tests else None),
            f"{largest[0].parameters:,}",
            f"{sum([rung.seconds for rung in largest]) / len(largest):.1f}",
            style="" if rungs[0].is_counted else "bold",
        )
    return made


def _mean_words(metric: str, at: SizeResult) -> str:
    """
    >>> _mean_words("accuracy", SizeResult(100, 0.92, 0.9, 0.94, 3, SizeInterval("cnn", 100, 0.87, 0.97, 3)))
    '92.00 % (87.00 to 97.00)'
    """
    if at.interval is None:
        return metric_words(metric, at.mean)
    low, high = (metric_words(metric, end).removesuffix(" %") for end in (at.interval.low, at.interval.high))
    return f"{metric_words(metric, at.mean)} ({low} to {high})"


def spread_words(ladder: SizeLadder) -> str:
    """How far apart the trainings of one model lie at most, where there are several, and what intervals are of."""
    found = [each for name in rungs_by_model(ladder) for each in results_by_size(ladder, name) if each.trainings > 1]
    if not found:
        return ""
    widest = max(found, key=lambda each: each.high - each.low)
    apart = gap_size(Measure(metric=ladder.metric), widest.high - widest.low)
    means = f"Means of up to {max([each.trainings for each in found])} trainings, which lie at most {apart} apart"
    if not ladder.intervals:
        return f"{means}."
    return (
        f"{means}; with the 95 % intervals of the means, over other examples and other first weights, on one dev side."
    )


def winner_lines(ladder: SizeLadder) -> list[str]:
    """Which network is best with the fewest examples, and which with the most, in sentences."""
    networks = {
        name: results_by_size(ladder, name) for name, rungs in rungs_by_model(ladder).items() if not rungs[0].is_counted
    }
    lines = []
    for size in sorted({ladder.sizes[0], ladder.sizes[-1]}) if ladder.sizes else ():
        at = {name: each for name, found in networks.items() for each in found if each.n_train == size}
        if not at:
            continue
        first = max(at, key=lambda name: at[name].mean)
        second = max([name for name in at if name != first], key=lambda name: at[name].mean, default="")
        beside = f", then {second} with {_mean_words(ladder.metric, at[second])}" if second else ""
        best = _mean_words(ladder.metric, at[first])
        lines.append(f"With {size:,} examples {first} is the best network with {best}{beside}.")
    return lines
