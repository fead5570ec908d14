"""The histogram of a column and its tail: every number beside NumPy's, scipy's or polars', or counted by hand."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pellucid.api.draw import draw
from pellucid.api.split import split
from pellucid.data import open_data
from pellucid.data.kinds import Column, ListData, TableData
from pellucid.data.sets import incomes, transactions
from pellucid.data.splits.tails import measure_histogram
from pellucid.errors import PellucidError
from pellucid.figures.drawings.histogram import draw_histogram, tail_sentence


def table(**columns) -> TableData:
    frame = pl.DataFrame(columns)
    kinds = [
        Column(name, "numeric" if frame[name].dtype.is_numeric() else "category", frame[name].null_count())
        for name in frame.columns
    ]
    return TableData("made.csv", frame=frame, columns=tuple(kinds), because="", fingerprint="")


COLUMNS = {
    "incomes": incomes.load().frame["income"],
    "items": transactions.load(n=20_000).frame["items_scanned"],
    "normal": pl.Series(np.random.default_rng(0).normal(size=500)),
    "gaps": pl.Series([None, 3.5, 0.0, -2.0, float("inf"), 7.25, 7.25] * 40),
    "one value": pl.Series([5.0] * 7),
    "few": pl.Series([3, 1, 2]),
    "large": pl.Series([10**15 + 7 * i for i in range(300)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_number_is_that_of_numpy_scipy_and_polars(name):
    column = COLUMNS[name]
    record = measure_histogram(table(x=column), "x")
    finite = column.cast(pl.Float64).filter(column.cast(pl.Float64).is_finite())
    values = finite.to_numpy()
    whole = record.tails[0]
    assert (record.n, record.n_missing) == (len(values), len(column) - len(values))
    assert whole.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-12)
    assert whole.median == pytest.approx(finite.median(), rel=1e-12)
    assert (record.smallest, whole.largest) == (values.min(), values.max())
    assert record.deviation == pytest.approx(values.std(), rel=1e-9)
    if values.std():
        assert record.skewness == pytest.approx(stats.skew(values), rel=1e-6, abs=1e-9)
    for part, mark in ((0.9, whole.q90), (0.99, whole.q99), (0.999, whole.q999)):
        assert mark == np.quantile(values, part, method="inverted_cdf")
    assert record.below_mean == pytest.approx((values < values.mean()).mean(), abs=1e-12)
    assert record.n_not_positive == (values <= 0).sum()


@pytest.mark.parametrize("name", ["incomes", "items"])
def test_hill_is_the_maximum_likelihood_of_a_pareto_tail(name):
    """scipy fits the index of a Pareto distribution whose scale is known: the value behind the greatest ones."""
    values = np.sort(COLUMNS[name].to_numpy().astype(float))[::-1]
    whole = measure_histogram(table(x=COLUMNS[name]), "x").tails[0]
    k = whole.n_top
    assert k == max(10, len(values) // 100)
    index, _, _ = stats.pareto.fit(values[:k], floc=0, fscale=values[k])
    assert whole.tail_index == pytest.approx(index, rel=1e-6)


@pytest.mark.parametrize("name", COLUMNS)
def test_bars_are_counted_by_a_loop(name):
    column = COLUMNS[name].cast(pl.Float64)
    values = column.filter(column.is_finite()).to_list()
    record = measure_histogram(table(x=COLUMNS[name]), "x", bins=20)
    for bars, counted in ((record.bars, values), (record.bars_by_powers, [value for value in values if value > 0])):
        if not bars:
            assert len(set(counted)) < 2
            continue
        assert len(bars) <= 20
        for i, bar in enumerate(bars):
            is_last = i + 1 == len(bars)
            assert bar.n == sum(bar.low <= value < bar.high or (is_last and value == bar.high) for value in counted)
            assert is_last or bar.high == bars[i + 1].low
        assert sum(bar.n for bar in bars) == len(counted)


def test_whole_numbers_share_bars_of_one_breadth_in_whole_numbers():
    few = measure_histogram(table(x=[1, 1, 2, 4]), "x").bars
    assert [(bar.low, bar.high, bar.n) for bar in few] == [
        (0.5, 1.5, 2),
        (1.5, 2.5, 1),
        (2.5, 3.5, 0),
        (3.5, 4.5, 1),
    ]
    many = measure_histogram(table(x=list(range(1, 1001))), "x", bins=60)
    assert {bar.high - bar.low for bar in many.bars} == {17.0}
    assert {bar.n for bar in many.bars[:-1]} == {17}
    # By powers each bar of the first ones holds one number: none is empty because no whole number falls into it.
    assert all(bar.n for bar in many.bars_by_powers)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 5000), min_size=2, max_size=300))
def test_the_curve_is_the_part_that_is_at_least_so_great(values):
    record = measure_histogram(table(x=values), "x")
    (curve,) = record.survivals
    for value, share in zip(curve.values, curve.shares, strict=True):
        assert share == pytest.approx(sum(other >= value for other in values) / len(values))
    assert curve.shares[0] == 1.0
    assert curve.values[-1] == max(values)
    # The greatest hundredth, by sorting.
    top = sorted(values, reverse=True)[: math.ceil(len(values) / 100)]
    assert record.top_sum == pytest.approx(sum(top) / sum(values))


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    values = np.random.default_rng(1).lognormal(size=50_000)
    (curve,) = measure_histogram(table(x=values), "x").survivals
    assert len(curve.values) <= 500
    assert (curve.values[0], curve.values[-1]) == (values.min(), values.max())
    assert (curve.shares[0], curve.shares[-1]) == (1.0, 1 / 50_000)
    ratios = np.array(curve.shares[1:]) / np.array(curve.shares[:-1])
    assert ratios[:-12].min() > 0.8  # before the last few rows, where each is a step of its own


def test_the_heaviest_column_is_drawn_where_none_is_named():
    draws = np.random.default_rng(0)
    data = table(
        row=list(range(400)), light=draws.normal(9, 1, 400), heavy=draws.pareto(1.2, 400) + 1, word=["a"] * 400
    )
    assert measure_histogram(data).column == "heavy"
    assert measure_histogram(table(light=draws.normal(9, 1, 400), skew=draws.exponential(size=400))).column == "skew"
    numbered = table(row=list(range(5)))
    assert measure_histogram(numbered).column == "row"


def test_of_a_list_lengths_are_drawn():
    record = measure_histogram(ListData("words", ["a", "bb", "bb", "cccc"], because="", fingerprint=""))
    assert (record.column, record.tails[0].mean, record.tails[0].median) == ("length", 2.25, 2.0)
    assert [bar.n for bar in record.bars] == [1, 2, 0, 1]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("word", "'word' holds no numbers in made.csv. Those that do are 'x', 'void'."),
        ("y", "made.csv has no column 'y'. It has 'x', 'word', 'void'."),
        ("void", "'void' holds no number in made.csv. Name another column."),
    ],
)
def test_what_cannot_be_drawn_is_refused(column, said):
    data = table(x=[1, 2], word=["a", "b"], void=pl.Series([None, None], dtype=pl.Int64))
    with pytest.raises(PellucidError) as error:
        measure_histogram(data, column)
    assert str(error.value) == said


def test_a_table_of_words_has_no_histogram():
    with pytest.raises(PellucidError, match="has no column of numbers"):
        measure_histogram(table(word=["a", "b"]))
    with pytest.raises(PellucidError, match="too large for a mean"):
        measure_histogram(table(x=[-1.7e308, 1.7e308, 0.5]))
    with pytest.raises(PellucidError, match="only their length is a number"):
        measure_histogram(ListData("words", ["a"], because="", fingerprint=""), "weight")


def test_how_sure_the_verdict_is_follows_from_the_rows():
    def said(values) -> str:
        return tail_sentence(measure_histogram(table(x=values)))

    draws = np.random.default_rng(3)
    assert said(draws.pareto(0.5, 20_000) + 1).endswith("not even the mean settles as rows are added.")
    assert said(draws.pareto(1.3, 40_000) + 1).endswith("whose variance does not settle as rows are added.")
    assert said(draws.pareto(1.8, 1_000) + 1).endswith("whether its variance settles as rows are added is not known.")
    assert said(draws.pareto(3.0, 200_000) + 1).endswith(": a heavy right tail.")
    assert said(draws.normal(10, 1, 5_000)).endswith(": no heavy right tail.")
    assert said([1.0, 2.0]).startswith("Tail index: not known")
    assert said([*range(1, 500), *[1000] * 50]).startswith("Tail index: infinite")


def test_a_split_is_drawn_side_by_side(tmp_path):
    split("incomes", out=tmp_path / "divided", seed="s")
    drawn = draw("histogram", tmp_path / "divided", column="income")
    record = drawn.record
    assert [tail.side for tail in record.tails] == ["all", "train", "dev", "test"]
    for side in ("train", "dev", "test"):
        part = pl.read_parquet(tmp_path / "divided" / f"{side}.parquet")["income"]
        (tail,) = (tail for tail in record.tails if tail.side == side)
        assert tail.mean == pytest.approx(part.mean())
        assert tail.median == part.median()
        assert any(line.startswith(f"{side}: mean {part.mean():,.0f}, ") for line in drawn.drawing.caption)
    assert {curve.side for curve in record.survivals} == {"all", "train", "dev", "test"}


def test_the_picture_draws_every_bar_and_says_the_numbers():
    record = measure_histogram(incomes.load(), bins=25)
    picture = draw_histogram(record)
    said = [title.text or "" for title in ElementTree.fromstring(picture.svg).iter("{http://www.w3.org/2000/svg}title")]
    counted = [int(found[1].replace(",", "")) for text in said if (found := re.search(r": ([\d,]+) rows?$", text))]
    assert sum(counted) == 2 * 1000  # each row stands in both histograms
    assert "mean 45,782, median 36,574" in picture.caption[0]
    negative = measure_histogram(table(x=[-3.0, -2.0, -1.0]))
    assert negative.bars_by_powers == ()
    assert "none are drawn by powers of ten" in draw_histogram(negative).caption[-1]


def test_the_command_of_a_table_of_ones_own(pellucid, tmp_path):
    (tmp_path / "sales.csv").write_text("shop,amount\n" + "".join(f"s{i % 3},{2.0 ** (i % 11)}\n" for i in range(220)))
    run = pellucid("draw", "histogram", "sales.csv", "--column", "amount", "--bins", "10", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    document = json.loads(run.stdout)
    assert document["data"]["tails"][0]["mean"] == pytest.approx((2**11 - 1) / 11)
    assert document["data"]["tails"][0]["median"] == 32
    assert sum(bar["n"] for bar in document["data"]["bars"]) == 220
    refused = pellucid("draw", "histogram", "sales.csv", "--bins", "0", "--out", "x.svg")
    assert (refused.returncode, refused.stderr) == (
        2,
        "pellucid: the number of bars is 0. The nearest that can be is 2.\n",
    )
    useless = pellucid("draw", "bigram-matrix", "--column", "a", "--out", "x.svg")
    assert useless.stderr == "pellucid: --column changes nothing in bigram-matrix. Leave it out.\n"


def test_the_report_of_a_split_has_mean_median_and_index_of_each_side(pellucid):
    run = pellucid("split", "incomes", "--dry-run", "--json")
    rows = {tail["side"]: tail for tail in json.loads(run.stdout)["tails"]}
    income = open_data("incomes").frame["income"]
    assert rows["all"]["mean"] == pytest.approx(income.mean())
    assert rows["all"]["median"] == income.median()
    words = pellucid("split", "incomes", "--dry-run").stdout
    heading = re.search(r"The tail of income\n +(.*)\n +(.*)\n", words)
    assert heading[1].split()[:3] == ["side", "mean", "median"]
    assert "tail index" in heading[1]
    assert heading[2].split()[:3] == ["all", "45782.5", "36574.5"]
