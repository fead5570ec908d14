"""What more steps would bring: curves whose course is known, what cannot be told, and how the benchmark counts."""

import importlib
import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiny_records import TINY_RUN

from pellucid.figures.report_page import report_html
from pellucid.figures.words.training import FORECAST_UNKNOWN, forecast_words, headline_words, plain_report
from pellucid.records import (
    CrossValidation,
    Evaluation,
    Forecast,
    ForecastSpan,
    Gain,
    Ladder,
    Measure,
    ModelMetrics,
    Rung,
)
from pellucid.records import Verdict as FitVerdict
from pellucid.training.forecast import FARTHEST, MOST, NOTHING, fall_of_second_half, forecast_more_steps, times_to_gain

NATS = Measure()
RESTING = FitVerdict("good fit", "at rest")


def curve(dev, metric=None, n=20):
    """dev, metric: of the share of the steps that are done."""
    shares = [i / n for i in range(1, n + 1)]
    return [
        Evaluation(0, 9.0, 9.0, None if metric is None else 0.0),
        *(Evaluation(round(800 * x), dev(x) - 0.1, dev(x), None if metric is None else metric(x)) for x in shares),
    ]


def ladder_of(network, simple, measure=NATS, **more):
    rungs = [
        Rung("transformer", False, 99, 1.8, network, None, math.nan, 60.0, 1.0, metric=network),
        Rung("Kneser–Ney 6-gram", True, 9, 2.1, simple, None, math.nan, 1.0, None, metric=simple),
    ]
    return Ladder("x", tuple(rungs), measure=measure, **more)


AHEAD = ladder_of(1.9, 2.0)


def test_of_a_curve_that_falls_with_every_doubling_the_fall_is_found():
    """dev = 2 - 0.03 log2(steps): a doubling has always brought 0.03, and so it is usual."""
    found = forecast_more_steps(curve(lambda x: 2 - 0.03 * math.log2(800 * x)), RESTING, AHEAD)
    assert (found.unknown, found.goal, found.unit, found.wanted) == ("", "gain", "", 0.05)
    # By hand: five evaluations stand for half of the way, and the last two for the end.
    half, end = statistics.mean(map(math.log2, (0.4, 0.45, 0.5, 0.55, 0.6))), math.log2(0.95) / 2
    assert found.fell == pytest.approx(0.03 * (end - half), rel=1e-9) == pytest.approx(0.03, rel=0.03)
    assert found.doubled == ForecastSpan(0.0, pytest.approx(found.fell, rel=0.02), MOST * found.fell)
    assert found.times.usual == pytest.approx(2 ** (0.05 / found.doubled.usual))
    assert found.times.low == pytest.approx(2 ** (0.05 / (MOST * found.fell)))


def test_nobody_gains_more_than_there_is_to_lose():
    """A loss that goes to 0 by halves: another half is usual, and all of it the most."""
    found = forecast_more_steps(curve(lambda x: 0.8 * 0.5 ** (2 * x)), RESTING, AHEAD)
    assert found.fell > 0.19
    assert found.doubled.usual == pytest.approx(0.1, rel=0.1)
    assert found.doubled.high == pytest.approx(0.2)
    rows = ladder_of(0.95, 0.75, Measure("squared error", "R²", "simple models", "row"))
    found = forecast_more_steps(curve(lambda x: 1.0, metric=lambda x: 1 - 0.8 * 0.5 ** (4 * x)), RESTING, rows)
    assert (found.unit, found.doubled.high) == ("R²", pytest.approx(0.05))
    solved = forecast_more_steps(curve(lambda x: 0.0), RESTING, AHEAD)
    assert (solved.doubled, solved.times.low) == (ForecastSpan(0.0, 0.0, 0.0), math.inf)


@given(
    power=st.floats(0.02, 2.0), height=st.floats(0.05, 1.0), floor=st.floats(0.5, 4.0), times=st.sampled_from([2, 4, 8])
)
def test_a_power_law_lies_inside(power, height, floor, times):
    """With a constant rate, the end of a longer run is the curve drawn on."""

    def dev(x):
        return floor + height * x**-power

    found = forecast_more_steps(curve(dev), RESTING, AHEAD)
    gained = dev(1) - dev(times)
    assert 0 <= gained <= found.doubled.high * math.log2(times)
    if found.fell > NOTHING:
        assert gained >= 0.1 * found.doubled.usual  # and is not far below what is called usual


def test_of_a_flat_curve_nothing_more_is_promised():
    found = forecast_more_steps(curve(lambda x: 1.9), RESTING, AHEAD)
    assert found.fell == 0
    assert found.doubled.high == pytest.approx(MOST * NOTHING)  # of less it cannot be told
    assert found.times == ForecastSpan(math.inf, math.inf, math.inf)
    assert "0.05 more takes more than 8 times as many, if it comes at all." in forecast_words(run_with(found))


@pytest.mark.parametrize(
    ("evaluations", "verdict", "measure", "unknown"),
    [
        (curve(lambda x: 2 - 0.1 * x), FitVerdict("over-fit", "dev rose"), Measure(), "over-fit"),
        (curve(lambda x: 9.1), FitVerdict("under-fit", "nothing learned"), Measure(), "nothing learned"),
        (curve(lambda x: 2 - 0.1 * x, n=7), RESTING, Measure(), "few evaluations"),
        (curve(lambda x: math.inf), RESTING, Measure(), "not finite"),
        (curve(lambda x: math.nan), RESTING, Measure(side="train"), "nothing held out"),
        (curve(lambda x: 2 - 0.1 * x), FitVerdict("over-fit", "by heart"), Measure(), ""),
        (curve(lambda x: 2 - 0.1 * x, n=8), RESTING, Measure(), ""),
    ],
)
def test_what_cannot_be_told_is_not_told(evaluations, verdict, measure, unknown):
    found = forecast_more_steps(evaluations, verdict, AHEAD._replace(measure=measure))
    assert found.unknown == unknown
    assert (forecast_words(run_with(found)) == FORECAST_UNKNOWN.get(unknown)) == bool(unknown)


def test_one_that_is_behind_is_told_when_it_would_pass():
    found = forecast_more_steps(curve(lambda x: 2 - 0.04 * math.log2(x)), RESTING, ladder_of(2.03, 2.0))
    assert (found.goal, found.wanted) == ("pass", pytest.approx(0.03))
    assert found.times.usual == pytest.approx(2 ** (0.03 / found.doubled.usual))
    says = forecast_words(run_with(found, ladder=ladder_of(2.03, 2.0)))
    assert "to pass Kneser–Ney 6-gram, 0.0300 away, takes about 1.7 times as many, 1 min 43 s (at least 1.2" in says


def test_r_squared_is_told_as_it_is_and_accuracy_by_the_loss():
    """R² is the loss on another scale. Accuracy leaps with every answer, so passing by it is not known."""
    rows = ladder_of(0.7, 0.75, Measure("squared error", "R²", "simple models", "row"))
    found = forecast_more_steps(curve(lambda x: 1 - 0.5 * x, metric=lambda x: 0.5 + 0.2 * x), RESTING, rows)
    assert (found.unit, found.goal, found.wanted) == ("R²", "pass", pytest.approx(0.05))
    assert found.fell == pytest.approx(0.2 * 0.475)
    classes = ladder_of(0.7, 0.75, Measure("nats", "accuracy", "simple models", "row"))
    found = forecast_more_steps(curve(lambda x: 1 - 0.5 * x, metric=lambda x: 0.5 + 0.2 * x), RESTING, classes)
    assert (found.unit, found.goal, math.isnan(found.wanted)) == ("", "pass", True)
    assert found.fell == pytest.approx(0.5 * 0.475)
    says = forecast_words(run_with(found, ladder=classes))
    assert says.endswith("; how many it takes to pass Kneser–Ney 6-gram is not known.")
    # Of a loss below 1, a twentieth of it is asked for.
    ahead = forecast_more_steps(
        curve(lambda x: 1 - 0.5 * x, metric=lambda x: 0.5), RESTING, classes._replace(rungs=ladder_of(0.8, 0.75).rungs)
    )
    assert (ahead.goal, ahead.wanted) == ("gain", pytest.approx(0.05 * 0.5))


def test_where_rows_were_cross_validated_that_says_who_is_behind():
    gain = Gain("cross-validation", -0.02, -0.03, -0.01, 300)
    crossed = CrossValidation(5, 5, 300, 400, (ModelMetrics("tabm", {"R²": 0.7}),), gain)
    rows = ladder_of(0.8, 0.75, Measure("squared error", "R²", "simple models", "row"), cross_validation=crossed)
    found = forecast_more_steps(curve(lambda x: 1.0, metric=lambda x: 0.5 + 0.2 * x), RESTING, rows)
    assert (found.goal, found.wanted) == ("pass", 0.02)


def run_with(found, ladder=AHEAD):
    return replace(TINY_RUN, forecast=found, ladder=ladder)


def test_it_stands_in_the_headline_the_report_and_the_json():
    found = Forecast("", "gain", "", 0.05, 0.02, ForecastSpan(0.0, 0.02, 0.06), ForecastSpan(1.78, 5.66, math.inf))
    run = run_with(found)
    says = forecast_words(run)
    assert says == (
        "By its own curve, twice as many steps would bring about 0.0200 nats a token more on dev (nine times in ten "
        "between nothing and 0.0600); 0.05 more takes about 5.7 times as many, 5 min 40 s (at least 1.8 times; at most "
        "is not known)."
    )
    assert headline_words(run).endswith(says)
    assert says in report_html(run)
    plain = json.loads(json.dumps(plain_report(run)))
    assert (plain["words"]["forecast"], plain["forecast"]["doubled"]["high"]) == (says, 0.06)
    assert plain["forecast"]["times"]["high"] == "inf"
    # A run from before there were forecasts says nothing of it.
    old = replace(TINY_RUN, forecast=None)
    assert forecast_words(old) == ""
    assert headline_words(old).endswith("went into them.") or headline_words(old).endswith("epochs.")


def test_times_are_powers_of_two_up_to_what_was_tried():
    assert [times_to_gain(0.01 * doublings, 0.01) for doublings in (1, 2, 3, 4)] == [2, 4, FARTHEST, math.inf]
    assert fall_of_second_half([(step, 1.0 if step < 60 else 0.0) for step in range(0, 101, 5)]) == pytest.approx(4 / 5)


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    return importlib.import_module("forecast")


def test_the_benchmark_counts_what_fell_inside(benchmark, tmp_path, capsys):
    """Three runs by one law, of which the last gains ten times what is usual."""

    def line(steps, level):
        evaluations = [[round(steps * i / 20), 3.0, level - 0.02 * math.log2(i / 20), None] for i in range(1, 21)]
        ending = {"reason": "budget", "step": steps, "best_step": steps}
        return json.dumps(
            {"name": "pokemon", "setting": {}, "steps": steps, "evaluations": evaluations, "ending": ending}
        )

    results = tmp_path / "forecast.jsonl"
    results.write_text("\n".join([line(100, 2.0), line(200, 1.98), line(400, 1.78)]))
    checked = list(benchmark.check(benchmark.read_trained(results, "unseen")))
    assert [(one.steps, one.times, one.is_inside) for one in checked] == [
        (100, 2, True),
        (100, 4, False),
        (200, 2, False),
    ]
    assert not benchmark.read_trained(results, "choose")
    benchmark.tell("unseen", checked)
    assert "all: 1 of 3 inside (33 %)" in capsys.readouterr().out
