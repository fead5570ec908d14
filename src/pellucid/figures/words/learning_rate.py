"""What `pellucid rate` says: each rule for each seed, a curve, and the rate to try or why none is sure."""

import math
from collections.abc import Iterator

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.charts.panel import LABELS, TextCanvas
from pellucid.figures.tables import WIDTH, FittedLines, Part, Table, right
from pellucid.figures.words.notation import rough
from pellucid.figures.words.training import NARROWEST, WIDEST
from pellucid.records import LearningRateSearch, SweepFailure


def rate_parts(search: LearningRateSearch) -> Iterator[Part]:
    """What a terminal shows of a search for the learning rate: each rule for each seed, a curve, and how sure it is."""
    yield Text(f"{search.network} on {printable(search.source)}", "dim")
    yield Text("")
    made = Table(*right("seed", "steepest", "valley", "flattest", "lowest at", "tried up to"))
    for i, (seed, sweep) in enumerate(zip(search.seeds, search.sweeps, strict=True)):
        finite = [trial for trial in sweep if math.isfinite(trial.smoothed)]
        lowest = min(finite, key=lambda trial: trial.smoothed).learning_rate if finite else None
        flattest = search.by_flatness[i] if search.by_flatness else None
        last = sweep[-1].learning_rate if sweep else None
        rules = (search.by_percentile[i], search.by_valley[i], flattest)
        made.add(str(seed), *map(_rate_words, (*rules, lowest, last)))
    yield made
    if rate_picture(search):
        yield Text("")
        yield FittedLines(lambda width: rate_picture(search, width))
    yield Text("")
    for place, sentence in enumerate(search_sentences(search)):
        # The first says which rate to try, or that there is none.
        yield Text(printable(sentence), "" if place else "bold yellow" if search.suggestion is None else "bold")


def _rate_words(rate: float | None) -> str:
    return "no answer" if rate is None else rough(rate)


def rate_picture(search: LearningRateSearch, width: int = WIDTH) -> list[str]:
    """The smoothed loss of every seed against the logarithm of the rate."""
    points = [
        (math.log10(trial.learning_rate), trial.smoothed)
        for sweep in search.sweeps
        for trial in sweep
        if trial.learning_rate > 0 and math.isfinite(trial.smoothed)
    ]
    if len(points) < 2:
        return []
    low, first = min(loss for _, loss in points), points[0][1]
    # Where a sweep flies apart it leaves the picture.
    high = min(max(loss for _, loss in points), first + 0.5 * max(first - low, 0.05 * abs(first)))
    canvas = TextCanvas(
        (min(x for x, _ in points), max(x for x, _ in points)),
        (low, max(high, low + 1e-9)),
        width=max(NARROWEST, min(WIDEST, width - LABELS)),
    )
    for sweep in search.sweeps:
        canvas.line([(math.log10(trial.learning_rate), trial.smoothed) for trial in sweep if trial.learning_rate > 0])
    if search.suggestion:
        canvas.upright(math.log10(search.suggestion))
    ends = [rough(10**x) for x in canvas.x]
    below = f"rate {ends[0]}".ljust(canvas.width - len(ends[1])) + ends[1]
    return [*canvas.lines("{:.2f}".format), " " * LABELS + below]


def search_sentences(search: LearningRateSearch) -> list[str]:
    """Which learning rate to try, or why none is sure; then what each rule read, and the seeds without an answer."""
    failed = [
        f"Seed {seed} has no answer: {sweep_failure(failure)}."
        for seed, failure in zip(search.seeds, search.failures, strict=True)
        if failure is not None
    ]
    return [
        _suggestion(search),
        *_between("The loss fell fastest at", search.by_percentile),
        *_between("Its valley is two thirds down at", search.by_valley),
        *(_between("It changed least with the rate at", search.by_flatness) if search.rule == "flattest" else ()),
        *failed,
    ]


def _suggestion(search: LearningRateSearch) -> str:
    answers, n_seeds = [answer for answer in search.answers if answer is not None], len(search.seeds)
    if not answers:
        return f"No answer: none of the {n_seeds} sweeps has one."
    agreeing = f"{len(answers)} of {n_seeds} seeds say between {min(answers):.2g} and {max(answers):.2g}"
    if search.suggestion is not None:
        rule = f", by the rule {search.rule}" if search.rule != "middle" else ""
        return f"Try a learning rate of {search.suggestion:g}: {agreeing}{rule}."
    if 2 * len(answers) <= n_seeds:
        return f"No answer: only {agreeing}."
    return f"No answer: {agreeing}, which is {search.spread:.3g} times apart."


def sweep_failure(failure: SweepFailure) -> str:
    """Why a sweep over the learning rate has no answer."""
    if failure.kind == "blew-up":
        return f"it blew up after {failure.n_steps} steps, at the lowest rates already"
    if failure.kind == "no-fall":
        fall = f"{max(failure.fall, 0.0):.3f} from {failure.first_loss:.3f}"
        return f"the loss never fell by more than {fall}, and its noise is {failure.noise:.3f}"
    return f"the loss still falls at the highest rate, {failure.learning_rate:.2g}"


def _between(where: str, found: tuple[float | None, ...]) -> list[str]:
    """
    >>> _between("It fell fastest at", (0.1, None, 0.1004))
    ['It fell fastest at 0.1.']
    """
    ends = sorted({f"{rate:.2g}": rate for rate in found if rate is not None}.items(), key=lambda item: item[1])
    return [f"{where} {' to '.join(dict.fromkeys([ends[0][0], ends[-1][0]]))}."] if ends else []
