"""Distances, quantiles and tail indices beside scipy's and NumPy's."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.at_length import examples

from pellucid.data.splits import distributions
from pellucid.data.splits.distributions import (
    agreements,
    distance_between,
    drifts_along,
    ks_distance,
    levels_of,
    total_variation,
)
from pellucid.data.splits.tails import heavy_tail, hill, median, quantile, tails
from pellucid.records import Drift

numbers = st.one_of(st.integers(-50, 50), st.integers(-(2**62), 2**62), st.just(None))
fractions = st.one_of(st.floats(allow_nan=True, allow_infinity=False), st.just(None), st.sampled_from([0.5, -0.0, 0.0]))
columns = st.one_of(
    st.lists(numbers, min_size=2, max_size=60).map(lambda cells: pl.Series("x", cells, dtype=pl.Int64)),
    st.lists(fractions, min_size=2, max_size=60).map(lambda cells: pl.Series("x", cells, dtype=pl.Float64)),
)


def present(column: pl.Series) -> np.ndarray:
    values = column.cast(pl.Float64) if column.dtype.is_float() else column
    return values.fill_nan(None).drop_nulls().to_numpy() if values.dtype.is_float() else values.drop_nulls().to_numpy()


@pytest.mark.parametrize("n_rare", [0, 1, 30])
def test_levels_of_texts_hold_what_a_sample_misses(n_rare):
    """Every 50th row is asked first; rare values stand between."""
    cells = ["b", "a"] * 500
    for i in range(n_rare):
        cells[7 + 31 * i] = f"rare {i}"
    cells[3] = None
    column = pl.Series("x", cells)
    levels = distributions.text_levels(column, 10)
    if n_rare > 10:
        assert levels is None
        levels = distributions.text_levels(column, 100)
    names = [*levels.values.tolist(), None]
    assert names == [*sorted({cell for cell in cells if cell is not None}), None]
    assert [names[code] for code in levels.codes.tolist()] == cells
    assert levels.n_present == len(names)


def test_what_numbers_the_rows_is_told_in_any_order():
    rows = np.random.default_rng(0).permutation(50_000)
    parts = (rows % 3).astype(np.int8)
    for codes in (np.arange(50_000), rows):
        levels = levels_of(pl.Series("x", codes))
        assert levels.is_one_each
        assert levels.n_present == 50_000
        assert levels.totals.sum() == 50_000
        counts = levels.counts(parts, 3)
        assert (counts.argmax(axis=1)[codes] == parts).all()
        assert (counts.sum(axis=1) == 1).all()


@settings(max_examples=examples(60))
@given(columns)
def test_levels_hold_every_cell(column):
    levels = levels_of(column)
    assert len(levels.codes) == len(column)
    for cell, code in zip(column.to_list(), levels.codes.tolist(), strict=True):
        if cell is None or math.isnan(cell):
            assert code == len(levels.values)
            assert levels.has_missing
        else:
            assert levels.values[code] == cell
    assert (np.diff(levels.values.astype(object)) > 0).all()
    assert int(levels.totals.sum()) == len(column)


@settings(max_examples=examples(60))
@given(columns, st.randoms())
def test_ks_is_scipys(column, draw):
    sides = np.array([draw.randrange(2) for _ in column], dtype=np.int8)
    parts = [present(column.filter(pl.Series(sides == side))) for side in (0, 1)]
    assume(len(parts[0]) and len(parts[1]))
    levels = levels_of(column)
    counts = levels.counts(sides, 2)[: len(levels.values)]
    with np.errstate(divide="ignore"):  # its p-value, which is not asked for, divides by zero on tiny parts
        wanted = stats.ks_2samp(*parts, method="asymp").statistic
    assert ks_distance(counts[:, 0], counts[:, 1]) == pytest.approx(wanted, abs=1e-12)


@settings(max_examples=examples(60))
@given(columns, st.sampled_from([0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_quantiles_are_numpys(column, part):
    levels = levels_of(column)
    values = present(column)
    found = quantile(levels, levels.totals[: len(levels.values)], part)
    if not len(values):
        assert found is None
    else:
        assert found == float(np.quantile(values, part, method="inverted_cdf"))


@settings(max_examples=examples(60))
@given(columns)
def test_the_median_is_numpys(column):
    assume(
        column.dtype.is_float() or column.drop_nulls().abs().max() is None or column.drop_nulls().abs().max() < 2**53
    )
    levels = levels_of(column)
    values = present(column)
    found = median(levels, levels.totals[: len(levels.values)])
    with np.errstate(over="ignore"):
        wanted = float(np.median(values)) if len(values) else None
    assert found == (None if wanted is None else pytest.approx(wanted, rel=1e-15)) or math.isinf(wanted)


def test_chance_is_exceeded_about_once_in_100():
    """Of 400 random halves of 2,000 numbers about 4 exceed it; more than 14 has odds of 1 in 10,000."""
    draw = np.random.default_rng(0)
    n_above = n_above_tv = 0
    for _ in range(400):
        column = pl.Series("x", draw.normal(size=2000))
        tiers = pl.Series("t", draw.choice(["a", "b", "c"], 2000))
        sides = draw.permuted(np.repeat([0, 1], 1000))
        for one in (column, tiers):
            levels = levels_of(one)
            measure, distance, by_chance = distance_between(levels, *levels.counts(sides, 2).T)
            n_above += measure == "KS" and distance > by_chance
            n_above_tv += measure == "TV" and distance > by_chance
    assert n_above <= 14
    assert n_above_tv <= 14
    assert stats.kstwobign.sf(1.6276) == pytest.approx(0.01, abs=1e-5)


def test_total_variation_by_hand():
    assert total_variation(np.array([8, 2]), np.array([1, 1])) == pytest.approx(0.3)
    assert total_variation(np.array([0, 0]), np.array([1, 1])) == 0


def test_tails_by_hand():
    levels = levels_of(pl.Series("x", range(1, 1001)))
    sides = np.array([0] * 800 + [1] * 100 + [2] * 100, dtype=np.int8)
    rows = {tail.side: tail for tail in tails(levels, levels.counts(sides, 3))}
    assert rows["all"][2:9] == (500.5, 500.5, 900, 990, 999, 1000, 0.01)
    assert rows["train"][2:9] == (400.5, 400.5, 720, 792, 800, 800, 0.0)
    assert rows["test"].top_share == 0.1
    # 1 / mean of log(991 ... 1000 / 990)
    excess = math.fsum(math.log(value / 990) for value in range(991, 1001)) / 10
    assert rows["all"].tail_index == pytest.approx(1 / excess)
    assert (rows["all"].n_top, rows["train"].n_top, rows["dev"].n_top) == (10, 10, 10)


def test_the_tail_of_a_side_without_rows_is_not_known():
    levels = levels_of(pl.Series("x", range(1, 201)))
    rows = {tail.side: tail for tail in tails(levels, levels.counts(np.array([0] * 150 + [2] * 50), 3))}
    assert set(rows["dev"][2:]) == {None, 0}
    assert rows["test"].tail_index is None  # of 50 rows
    assert rows["train"].tail_index is not None


def test_agreements_are_for_dev_and_test():
    levels = levels_of(pl.Series("x", [1, 1, 2, 2]))
    both = agreements(levels, levels.counts(np.array([0, 1, 2, 0]), 3))
    assert [(one.side, one.distance) for one in both] == [("dev", 0.5), ("test", 0.5)]


def test_skewness_is_scipys_and_pareto_has_its_index():
    draw = np.random.default_rng(0)
    values = draw.pareto(1.8, 200_000) + 1
    tail = heavy_tail(levels_of(pl.Series("x", values)))
    assert tail is not None
    assert tail.skewness == pytest.approx(stats.skew(values), rel=1e-9)
    # The estimate from 2,000 values spreads by 1.8 / sqrt(2000) = 0.04.
    assert tail.tail_index == pytest.approx(1.8, abs=0.2)
    assert tail.is_heavy
    for light in (draw.normal(10, 1, 200_000), draw.exponential(size=200_000), draw.uniform(size=200_000)):
        found = heavy_tail(levels_of(pl.Series("x", light)))
        assert found is not None
        assert not found.is_heavy


@given(st.lists(st.integers(1, 30), min_size=12, max_size=100), st.integers(1, 10))
def test_hill_with_ties_is_hill_written_out(values, n_top):
    ranked = sorted(values, reverse=True)
    excess = sum(math.log(value / ranked[n_top]) for value in ranked[:n_top]) / n_top
    found = hill(*(array for array in _levels(values)), n_top)
    assert found == (pytest.approx(1 / excess) if excess else math.inf)


def _levels(values):
    distinct, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    return distinct, counts


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.randoms())
def test_levels_of_one_row_each_are_counted_as_all_others(parts, draw):
    places = list(range(len(parts)))
    draw.shuffle(places)
    levels, sides = levels_of(pl.Series("n", places)), np.array(parts, dtype=np.int8)
    assert levels.is_one_each
    doubled = levels_of(pl.Series("n", places * 2))
    assert not doubled.is_one_each
    assert (2 * levels.counts(sides, 4) == doubled.counts(np.tile(sides, 2), 4)).all()


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60) | st.integers(1, 60).map(lambda n: list(range(n))))
def test_fifths_along_an_order_by_hand(values):
    """A row stands in the fifth that the rows below its value fill so far."""
    order, other = levels_of(pl.Series("order", values)), levels_of(pl.Series("other", list(range(len(values)))))
    fifths = [min(4, 5 * sum(one < value for one in values) // len(values)) for value in values]
    found = drifts_along(order, [other])[0]
    counts = other.counts(np.array(fifths, dtype=np.int8), 5)
    assert found == Drift("order", "other", *distance_between(other, counts[:, 0], counts[:, 4]))


def test_distances_of_many_levels_are_those_of_one_piece(monkeypatch):
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 5, 1000), draw.integers(0, 5, 1000)
    whole = ks_distance(first, second)
    monkeypatch.setattr(distributions, "PIECE", 7)
    assert ks_distance(first, second) == whole
