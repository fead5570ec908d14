"""What a split says about itself: proposals, drift, tails that wander, verdicts, and how it ends."""

import json

import numpy as np
import polars as pl
import pytest

from pellucid.data import ListData, PairsData, TableData, open_data
from pellucid.data.kinds import Column
from pellucid.data.sets.transactions import load
from pellucid.data.splits import SplitRequest
from pellucid.data.splits.split import split_data
from pellucid.errors import PellucidError
from pellucid.figures.show import record_text
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.splitting import reasons, verdict_sentences

N = 40_000


def table(frame: pl.DataFrame) -> TableData:
    columns = tuple(Column(name, "numeric", 0) for name in frame.columns)
    return TableData(name="t", frame=frame, columns=columns, because="", fingerprint="")


def words(*items: str) -> ListData:
    return ListData(name="words", items=list(items), because="", fingerprint="")


@pytest.fixture(scope="module")
def transactions() -> TableData:
    return load(n=N)


@pytest.fixture(scope="module")
def drifting() -> TableData:
    """The regime change of the transactions, brought forward to the middle."""
    data = load(n=N)
    late = pl.col("seq_no") > N // 2
    tier = pl.when(late & (pl.col("seq_no") % 2 == 0)).then(pl.lit("gold")).otherwise(pl.col("loyalty_tier"))
    return table(data.frame.with_columns(tier.alias("loyalty_tier")))


def test_a_heavy_tail_is_stratified_and_the_numbers_are_said(transactions):
    report = split_data(transactions).report
    assert (report.strategy, report.is_proposed) == ("stratified", True)
    assert report.settings["by"] == "items_scanned"
    assert report.settings["with"] == "loyalty_tier"
    because = " ".join(reasons(report))
    assert "seq_no is an order column: each whole number from 1 to 40,000 once; 100 % of its steps rise" in because
    assert "nothing drifts" in because
    assert "items_scanned has a heavy right tail: skewness " in because
    assert not report.has_found_something_wrong


def test_the_proposal_does_not_depend_on_the_order_of_rows(transactions):
    shuffled = table(transactions.frame.sample(fraction=1, shuffle=True, seed=1))
    assert split_data(shuffled).report.settings == split_data(transactions).report.settings


def test_what_drifts_is_divided_by_time(drifting):
    division = split_data(drifting)
    assert division.report.strategy == "time"
    assert "along it loyalty_tier drifts: TV " in " ".join(reasons(division.report))
    assert not division.report.has_found_something_wrong
    seq_no = drifting.frame["seq_no"].to_numpy()
    assert seq_no[division.sides == 0].max() < seq_no[division.sides == 1].min()


@pytest.mark.parametrize("strategy", ["hash", "stratified", "random"])
def test_looking_ahead_is_found(drifting, strategy):
    report = split_data(drifting, SplitRequest(strategy, repeats=0)).report
    assert report.has_found_something_wrong
    assert "It looks ahead: loyalty_tier drifts along seq_no" in verdict_sentences(report)[0]


def test_few_rows_differ_by_chance_and_that_is_no_drift():
    """Fifths of 40 rows differ by more than 0.05 nearly always, and by what is called drift once in 100."""
    draw = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        frame = pl.DataFrame({"t": range(200), "x": draw.normal(size=200)})
        found += split_data(table(frame), SplitRequest("hash")).report.has_found_something_wrong
    assert found <= 6  # 7 or more of 100 has odds below 1 in 10,000


def test_without_tail_or_drift_it_is_the_hash():
    draw = np.random.default_rng(0)
    report = split_data(table(pl.DataFrame({"x": draw.normal(10, 1, 1000), "c": draw.choice(["a", "b"], 1000)}))).report
    assert report.strategy == "hash"
    assert "no column has a heavy tail: the most skewed is x, skewness " in reasons(report)[0]


def test_a_random_split_lets_the_tail_wander_and_a_stratified_one_does_not(transactions):
    report = split_data(transactions).report
    shares = next(one for one in report.wanders if one.statistic == "part of the top 1 %")
    assert len(shares.at_random) == len(shares.stratified) == 30
    spread = [max(values) - min(values) for values in (shares.at_random, shares.stratified)]
    # About 400 rows are in the top 1 %; 30 random tenths of them range over some 4 sigma, 1.5 % each.
    assert spread[0] > 0.03
    assert spread[1] <= 0.01
    assert "A random split lets the tail of items_scanned wander: over 30 of them" in verdict_sentences(report)[-1]


def test_wandering_is_measured_on_real_splits(transactions):
    """The quick count over the tail alone gives what dividing all rows and looking gives."""
    request = SplitRequest("stratified", by="items_scanned", repeats=1, seed="s")
    items = transactions.frame["items_scanned"].to_numpy()
    wanders = {one.statistic: one for one in split_data(transactions, request).report.wanders}
    again = split_data(transactions, SplitRequest("random", seed="s#0", repeats=0)).sides
    test = items[again == 2]
    assert wanders["99.9 % quantile"].at_random == (np.quantile(test, 0.999, method="inverted_cdf"),)
    assert wanders["largest"].at_random == (test.max(),)
    top = items > np.quantile(items, 0.99, method="inverted_cdf")
    assert wanders["part of the top 1 %"].at_random == ((top & (again == 2)).sum() / top.sum(),)


def test_every_stratum_is_on_every_side(transactions):
    division = split_data(transactions, SplitRequest("stratified", by="items_scanned", together_with=("loyalty_tier",)))
    sides = np.array(["train", "dev", "test"])[division.sides]
    tiers = transactions.frame.with_columns(side=pl.Series(sides)).group_by("side", "loyalty_tier").len()
    for part, side in zip((0.8, 0.1, 0.1), ("train", "dev", "test"), strict=True):
        for tier in ("none", "bronze", "silver", "gold"):
            n_tier = int((transactions.frame["loyalty_tier"] == tier).sum())
            n_here = tiers.filter((pl.col("side") == side) & (pl.col("loyalty_tier") == tier))["len"][0]
            assert abs(n_here - part * n_tier) < 30  # one row of each of its bins at most


def test_columns_that_do_not_exist_are_refused_with_the_nearest(transactions):
    for request in (
        SplitRequest("stratified", by="items_scaned"),
        SplitRequest("time", order="seqno"),
        SplitRequest(group="loyalty"),
        SplitRequest(key="nothing"),
    ):
        with pytest.raises(PellucidError, match="transactions has no column"):
            split_data(transactions, request)
    with pytest.raises(PellucidError, match=r"Perhaps you meant 'items_scanned'"):
        split_data(transactions, SplitRequest("stratified", by="items_scaned"))


def test_what_the_data_cannot_give_is_refused():
    plain = table(pl.DataFrame({"c": ["a", "b", "c", "d"] * 30}))
    for request, said in (
        (SplitRequest("time"), "no column tells the order"),
        (SplitRequest("stratified"), "no numeric column has a tail"),
        (SplitRequest("stratified", by="c"), "c is no numeric column"),
    ):
        with pytest.raises(PellucidError, match=said):
            split_data(plain, request)
    with pytest.raises(PellucidError, match="2 rows cannot be divided in three"):
        split_data(table(pl.DataFrame({"x": [1, 2]})))
    with pytest.raises(PellucidError, match="side of 3 rows, 3 different ones, came out empty"):
        split_data(words("a", "b", "c"))
    with pytest.raises(PellucidError, match="4 rows have no 't'"):
        split_data(table(pl.DataFrame({"t": [*range(100), None, None, None, None]})), SplitRequest("time", order="t"))
    for request in (SplitRequest("time"), SplitRequest(group="x"), SplitRequest(by="x")):
        with pytest.raises(PellucidError, match="words has none"):
            split_data(words("a", "b", "c"), request)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"strategy": "stratifed"}, "Perhaps you meant stratified"),
        ({"strategy": "group"}, "needs to know the column"),
        ({"strategy": "hash", "by": "x"}, "by says nothing to the strategy hash"),
        ({"key": "a", "group": "b"}, "key and group both name"),
        ({"repeats": -1}, "between 0 and 1000"),
    ],
)
def test_requests_that_contradict_themselves(words, said):
    with pytest.raises(PellucidError, match=said):
        SplitRequest(**words)


def test_missing_values_are_a_level_of_their_own():
    draw = np.random.default_rng(0)
    x = [None if number % 10 == 0 else float(draw.pareto(1.2)) for number in range(5000)]
    frame = pl.DataFrame({"name": [f"row {number}" for number in range(5000)], "x": x})
    division = split_data(table(frame), SplitRequest("stratified", by="x"))
    assert division.report.sizes == {"train": 4000, "dev": 500, "test": 500}
    assert np.bincount(division.sides[::10]).tolist() == [400, 50, 50]


def test_a_class_with_one_member_trains():
    frame = pl.DataFrame({"x": range(1000), "c": ["a"] * 999 + ["b"]})
    division = split_data(table(frame), SplitRequest("stratified", by="x", together_with=("c",)))
    assert division.sides[-1] == 0
    assert any("1 of them have fewer than 3 rows" in note for note in note_sentences(division.report.notes))


def test_pairs_stay_with_their_source():
    pairs = [(f"word {number % 300}", f"meaning {number}") for number in range(900)]
    data = PairsData(name="p", pairs=pairs, because="", fingerprint="")
    division = split_data(data)
    sides = {}
    for (source, _), side in zip(pairs, division.sides.tolist(), strict=True):
        assert sides.setdefault(source, side) == side
    assert division.report.n_distinct == 300


def test_near_duplicates_are_counted_and_shown():
    items = [f"{name}{number}" for number in range(300) for name in ("Rosalie", "rosalie ", "ROSALIE-")]
    report = split_data(words(*items)).report
    alike = [one for one in report.straddles if "case, spaces and punctuation" in one.what]
    assert all(one.n_shared > 0 and not one.is_leak for one in alike)
    assert " ~ " in alike[0].examples[0]
    assert not report.has_found_something_wrong


def test_the_report_prints_with_names_that_would_move_the_cursor():
    frame = pl.DataFrame({"\x1b[2Jx": range(1000), "c": ["\x1b]0;a\x07", "b"] * 500})
    text = record_text(split_data(table(frame)).report)
    assert "\x1b" not in text
    assert "\\x1b[2Jx" in text


def test_the_command_divides_a_list_a_table_and_pairs(pellucid, tmp_path):
    (tmp_path / "names.txt").write_text("\n".join(f"name{number}" for number in range(300)) + "\n")
    run = pellucid("split", "names.txt")
    assert run.returncode == 0, run.stderr
    assert "Strategy: hash, proposed and used" in run.stdout
    assert run.stdout.endswith("Written: train.txt, dev.txt, test.txt, split.json in 'names-split'\n")
    stored = json.loads((tmp_path / "names-split" / "split.json").read_text())
    assert stored["data"]["rows"] == 300
    assert stored["data"]["sha256"] == open_data(tmp_path / "names.txt").fingerprint
    assert stored["parts"]["train.txt"]["rows"] == stored["report"]["sizes"]["train"]
    for name, part in stored["parts"].items():
        assert (tmp_path / "names-split" / name).stat().st_size == part["bytes"]


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_parts_hold_every_row_once_and_in_order(pellucid, tmp_path, file_format):
    frame = load(n=3000).frame
    frame.write_csv(tmp_path / "t.csv")
    run = pellucid("split", "t.csv", "--out", "parts", "--format", file_format, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["written"]["folder"] == "parts"
    read = pl.read_csv if file_format == "csv" else pl.read_parquet
    parts = [read(tmp_path / "parts" / f"{side}.{file_format}") for side in ("train", "dev", "test")]
    assert pl.concat(parts).sort("seq_no").equals(frame)
    assert all(part["seq_no"].is_sorted() for part in parts)


def test_misuse_of_the_command(pellucid, tmp_path):
    (tmp_path / "poem.txt").write_text("Once upon a midnight dreary, while I pondered, weak and weary. " * 50)
    for words, said in (
        ((), "there is nothing to divide"),
        (("a.txt", "--demo", "names"), "both name what to divide"),
        (("names", "--drift"), "--drift belongs to the made-up transactions"),
        (("names", "--format", "xlsx"), "no format of a table's parts called 'xlsx'"),
        (("names", "--dry-run", "--out", "x"), "--out says nothing"),
        (("--demo", "../names"), "is no name of a set"),
        (("missing.csv",), "missing.csv"),
        (("poem.txt", "--kind", "text"), "poem.txt was taken for text"),
    ):
        run = pellucid("split", *words)
        assert run.returncode == 2, run.stdout
        assert said in run.stderr
        assert run.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["poem.txt"]


def test_long_columns_are_ranked_two_at_a_time_and_the_report_is_the_same(transactions, monkeypatch):
    one_by_one = split_data(transactions)
    monkeypatch.setattr("pellucid.data.splits.proposal.LONG", 0)
    together = split_data(transactions)
    assert together.report == one_by_one.report
    assert (together.sides == one_by_one.sides).all()
