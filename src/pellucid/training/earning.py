"""What a network earns over simple models, in one honest sentence."""

from pellucid.records import Measure, Rung


def earning_sentence(rung: Rung, best: Rung, measure: Measure) -> str:
    """What a network earns over the best simple model on dev, and on test where there is one.

    >>> network = Rung("cnn", False, 3722, 0.1, 0.2, 0.2, float("nan"), 9.0, 1e4, metric=0.985, test_metric=0.98)
    >>> simple = Rung("majority class", True, 10, 2.3, 2.3, 2.3, float("nan"), 1.0, None, metric=0.96, test_metric=0.97)
    >>> print(earning_sentence(network, simple, Measure(metric="accuracy")))
    The cnn earns 2.5 points of accuracy over the best simple model (98.5 % on dev, where majority class has 96.0 %; on
    test 98.0 % and 97.0 %).
    """
    if not measure.metric:
        return _over_counting(rung, best)
    assert rung.metric is not None, "every network of this kind has a metric"
    assert best.metric is not None, "and every simple model"
    gap = rung.metric - best.metric
    against = f"{said(rung.metric, measure)} on dev, where {best.name} has {said(best.metric, measure)}"
    if rung.test_metric is not None and best.test_metric is not None:
        against += f"; on test {said(rung.test_metric, measure)} and {said(best.test_metric, measure)}"
    earned = f"{100 * abs(gap):.1f} points of {measure.metric}" if is_share(measure) else f"{abs(gap):.2g} of R²"
    if gap <= 0:
        behind = f"it is {earned} behind" if gap < 0 else "it is as good"
        return f"The {rung.name} earns nothing over the best simple model: {behind} ({against})."
    return f"The {rung.name} earns {earned} over the best simple model ({against})."


def _over_counting(rung: Rung, best: Rung) -> str:
    """
    >>> network = Rung("transformer", False, 200_064, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4)
    >>> print(_over_counting(network, Rung("Kneser–Ney 6-gram", True, 7, 1.6, 1.96, 1.95, 2.8, 1.0, None)))
    The transformer earns 0.080 nats a token over counting (1.8800 against the Kneser–Ney 6-gram's 1.9600 on dev; on
    test 0.060).
    """
    gap = best.dev - rung.dev
    against = f"{rung.dev:.4f} against the {best.name}'s {best.dev:.4f} on dev"
    if rung.test is not None and best.test is not None:
        against += f"; on test {best.test - rung.test:.3f}"
    if gap <= 0:
        return f"The {rung.name} earns nothing over counting: it is {-gap:.3f} nats a token behind ({against})."
    return f"The {rung.name} earns {gap:.3f} nats a token over counting ({against})."


def is_share(measure: Measure) -> bool:
    """Whether a metric is a share of right answers, told in %."""
    return measure.metric != "R²"


def said(metric: float, measure: Measure) -> str:
    """A metric as it is read.

    >>> said(0.985, Measure(metric="accuracy")), said(0.5, Measure(metric="R²"))
    ('98.5 %', '0.500')
    """
    return f"{100 * metric:.1f} %" if is_share(measure) else f"{metric:.3f}"
