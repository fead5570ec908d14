"""How the measure of a ladder is written: nats as they are, shares in percent, and what a model earns over another."""

import math
import re

from pellucid.records import Ladder, Measure, Rung

SHARES = ("accuracy", "exact match", "tokens right", "letters right")  # every other metric is written as it is
LONGEST_UNIT = 13  # letters that still fit over a column


def is_share(metric: str) -> bool:
    """Whether a metric is a part of all examples, and so written in percent."""
    return metric in SHARES


def percent(share: float) -> str:
    """A share with two decimals that never rounds up to all or down to nothing.

    >>> percent(0.97324), percent(0.99999), percent(1.0), percent(1e-6)
    ('97.32 %', '99.99 %', '100.00 %', '0.01 %')
    """
    rounded = round(100 * share, 2)
    if 0 < share < 1:
        rounded = min(max(rounded, 0.01), 99.99)
    return f"{rounded:.2f} %"


def metric_words(metric: str, value: float | None) -> str:
    """A metric as it stands in a table.

    >>> metric_words("accuracy", 0.9), metric_words("R²", -0.25), metric_words("MAE", 208.31), metric_words("R²", None)
    ('90.00 %', '−0.2500', '208.3', 'not read')
    """
    if value is None:
        return "not read"
    if not math.isfinite(value):
        return "not known"
    if is_share(metric):
        return percent(value)
    return (f"{value:.4f}" if metric in ("R²", "log loss", "") else sized(value)).replace("-", "−")


def sized(value: float) -> str:
    """A number in a unit of the data, of any size: four digits, and more only where they stand before the point.

    >>> sized(0.012345), sized(208.31), sized(15432.1), sized(-3e12)
    ('0.01235', '208.3', '15,432', '-3e+12')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def loss_words(loss: float | None, metric: str = "") -> str:
    """A loss as it stands in a table. Beside a metric a simple model need not have one.

    >>> loss_words(1.5), loss_words(None), loss_words(math.nan, "accuracy")
    ('1.5000', 'not read', 'none')
    """
    if loss is None:
        return "not read"
    if math.isnan(loss) and metric:
        return "none"
    return f"{loss:.4f}" if math.isfinite(loss) else "infinite" if loss > 0 else "not a number"


def loss_unit(measure: Measure) -> str:
    """What stands over a column of losses: the unit, where it is short.

    >>> loss_unit(Measure()), loss_unit(Measure("nats an image")), loss_unit(Measure("squared error of ten columns"))
    ('nats', 'nats', 'loss')
    """
    unit = re.split(r" an? ", measure.loss)[0]
    return unit if len(unit) <= LONGEST_UNIT else "loss"


def gap_words(ladder: Ladder, rung: Rung) -> str:
    """What a rung earns over the best simple model, with its sign; nothing for that one itself.

    >>> counted = Rung("bigram", True, 9, 2.4, 2.5, None, 3.6, 0.0, None)
    >>> gap_words(Ladder("x", (counted,)), counted._replace(name="mlp", is_counted=False, dev=2.25))
    '+0.2500'
    >>> majority = Rung("majority", True, 1, 1.0, 1.1, None, math.nan, 0.0, None, metric=0.5)
    >>> rows = Ladder("x", (majority,), measure=Measure("nats a row", "accuracy", "simple models", "row"))
    >>> gap_words(rows, majority._replace(name="mlp", metric=0.75))
    '+25.00 points'
    >>> gap_words(rows, majority._replace(name="twin"))
    '±0.00 points'
    """
    gap = ladder.gap(rung)
    if rung is ladder.best_count or not math.isfinite(gap):
        return ""
    return _signed(ladder.measure.metric, gap).replace("-", "−")


def _signed(metric: str, gap: float) -> str:
    written = f"{100 * gap:+.2f} points" if is_share(metric) else f"{gap:+.4f}"
    # Two models may well be right equally often; that is no gain.
    return written if not metric or float(written.split()[0]) else f"±{written[1:]}"


def gap_unit(measure: Measure) -> str:
    """What a gap is counted in, as a sentence has it.

    >>> gap_unit(Measure()), gap_unit(Measure(metric="accuracy")), gap_unit(Measure(metric="R²"))
    ('nats a token', 'points of accuracy', 'of R²')
    """
    if not measure.metric:
        return measure.loss
    return f"points of {measure.metric}" if is_share(measure.metric) else f"of {measure.metric}"


def gap_size(measure: Measure, gap: float) -> str:
    """The size of a gap with what it is counted in.

    >>> gap_size(Measure(metric="accuracy"), -0.0325), gap_size(Measure(), 0.08)
    ('3.25 points of accuracy', '0.0800 nats a token')
    """
    number = f"{100 * abs(gap):.2f}" if is_share(measure.metric) else f"{abs(gap):.4f}"
    return f"{number} {gap_unit(measure)}"


def ranked(ladder: Ladder) -> list[Rung]:
    """The rungs, the best on dev first and what has no number last; of two that are alike, the lower loss first."""

    def place(rung: Rung) -> tuple[float, float]:
        return _last_if_nan(-ladder.merit(rung)), _last_if_nan(rung.dev)

    return sorted(ladder.rungs, key=place)


def _last_if_nan(number: float) -> float:
    return math.inf if math.isnan(number) else number
