"""Splits into train and test alone: nothing is lost, nothing stands twice, and a training takes dev from train."""

import json
import os
import subprocess
import sys
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pellucid
from pellucid.api.split import split
from pellucid.data import open_data
from pellucid.data.kinds import Column
from pellucid.data.options import DataOptions
from pellucid.data.prepare import image_sides, pair_sides, table_sides
from pellucid.data.prepare.tokens import split_sequences
from pellucid.data.sets import transactions
from pellucid.data.splits import DEV_OF_TRAIN, SIDES, SplitRequest
from pellucid.data.splits.assignment import at_random, by_hash, by_order, by_strata
from pellucid.data.splits.hashing import mix
from pellucid.data.splits.split import split_data
from pellucid.errors import PellucidError
from pellucid.figures.words.training import data_notes
from pellucid.runs import open_run
from pellucid.training.run_data import load_known_data, load_vocabulary
from pellucid.training.tasks import open_task

TWO = (0.8, 0.2)
STRATEGIES = {
    "hash": {},
    "stratified": {"by": "items_scanned"},
    "time": {"order": "seq_no"},
    "group": {"group": "loyalty_tier"},
    "random": {},
}


@pytest.fixture(scope="module")
def sales():
    return transactions.load(n=5_000)


def test_the_time_split_of_1_7_million_rows():
    """1.36 million rows train and 0.34 million test, and the first of test comes after the last of train."""
    data = transactions.load()
    division = split_data(data, SplitRequest("time", order="seq_no", fractions=TWO, repeats=0))
    assert division.report.sizes == {"train": 1_360_000, "test": 340_000}
    seq_no = data.frame["seq_no"].to_numpy()
    assert seq_no[division.sides == 0].max() == 1_360_000
    assert seq_no[division.sides == 2].min() == 1_360_001


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_row_is_on_one_of_two_sides(sales, strategy, tmp_path):
    asked = STRATEGIES[strategy]
    if strategy == "group":  # four tiers are too few for a hash; customers are not
        sales = type(sales)(
            "sales",
            frame=sales.frame.with_columns(customer=pl.col("seq_no") // 7),
            columns=(*sales.columns, Column("customer", "numeric", 0)),
            because="",
            fingerprint="",
        )
        asked = {"group": "customer"}
    division = split_data(sales, SplitRequest(strategy, **asked, fractions=TWO, repeats=3))
    assert set(division.sides.tolist()) == {0, 2}
    report = division.report
    assert list(report.sizes) == ["train", "test"]
    assert sum(report.sizes.values()) == len(sales)
    # Of a hash 5,000 draws spread by 28 rows, of 715 customers with 7 rows each by 75.
    assert report.sizes["test"] == pytest.approx(1000, abs={"hash": 130, "group": 340}.get(strategy, 1))
    assert {one.side for one in (*report.agreements, *report.straddles)} <= {"test"}
    assert {one.side for one in report.tails} <= {"all", "train", "test"}
    if strategy == "group":
        assert division.report.has_found_something_wrong is False
        groups = sales.frame["customer"].to_numpy()
        assert not set(groups[division.sides == 0]) & set(groups[division.sides == 2])


def test_hash_is_the_b2sum_below_four_fifths():
    """By the documented rule, written once more: the side of an item, on every machine."""
    items = [f"item {i}" for i in range(500)]
    division = split(items, fractions=TWO)
    for side, part in (("train", division.train), ("test", division.test)):
        for item in part:
            word = int.from_bytes(blake2b(item.encode(), digest_size=8).digest(), "little")
            assert (word < 0.8 * 2**64) == (side == "train")
    assert sorted([*division.train, *division.test]) == sorted(items)
    with pytest.raises(PellucidError, match="no dev side was asked for"):
        _ = division.dev


@given(st.lists(st.integers(0, 5), min_size=2, max_size=200))
def test_two_and_three_sides_agree_on_test(strata):
    """The test side of a hash is the same with a dev side or without; of strata its share is, to a row of each."""
    hashes = mix(np.arange(len(strata), dtype=np.uint64) + np.uint64(7))
    three, two = by_hash(hashes, (0.7, 0.1, 0.2)), by_hash(hashes, (0.7 + 0.1, 0.2))
    assert ((three == 2) == (two == 2)).all()
    sides = by_strata(np.array(strata), hashes, TWO)
    for stratum, size in enumerate(np.bincount(strata)):
        in_test = int(((sides == 2) & (np.array(strata) == stratum)).sum())
        assert in_test == 0 if size < 2 else abs(in_test - 0.2 * size) <= 1
    assert set(sides.tolist()) <= {0, 2}
    chosen = at_random(len(strata), TWO, "")
    assert set(chosen.tolist()) == {0, 2}
    assert abs(int((chosen == 2).sum()) - 0.2 * len(strata)) <= 1


@given(st.lists(st.integers(0, 12), min_size=4, max_size=120), st.sampled_from([TWO, (0.8, 0.1, 0.1), (0.5, 0.5)]))
def test_time_gives_each_side_the_values_nearest_to_its_share(values, fractions):
    """As good as the best of all ways to cut between different values, tried one by one."""
    values = np.array(values)
    ranked = np.sort(values)
    places = [i for i in range(1, len(ranked)) if ranked[i] != ranked[i - 1]]
    if len(places) < len(fractions) - 1:
        with pytest.raises(PellucidError, match="too few different values"):
            by_order(values, fractions, "t")
        return
    sides = by_order(values, fractions, "t")
    used = sorted(set(sides.tolist()))
    assert used == ([0, 2] if len(fractions) == 2 else [0, 1, 2])
    for earlier, later in pairwise(used):
        assert values[sides == earlier].max() < values[sides == later].min()
    if len(fractions) == 2:
        gap = abs(int((sides == 0).sum()) - fractions[0] * len(values))
        assert gap <= min(abs(place - fractions[0] * len(values)) for place in places) + 1e-9


def test_the_command_writes_two_files_and_says_so(pellucid, tmp_path):
    transactions.load(n=1000).frame.write_csv(tmp_path / "sales.csv")
    run = pellucid("split", "sales.csv", "--strategy", "time", "--order", "seq_no", "--fractions", "0.8,0.2")
    assert (run.returncode, run.stderr) == (0, "")
    assert "  train   800  80.00 %  80.00 %\n  test    200  20.00 %  20.00 %\n" in run.stdout
    assert "dev" not in run.stdout
    assert sorted(os.listdir(tmp_path / "sales-split")) == ["split.json", "test.parquet", "train.parquet"]
    parts = [pl.read_parquet(tmp_path / "sales-split" / f"{side}.parquet") for side in ("train", "test")]
    assert pl.concat(parts).equals(pl.read_csv(tmp_path / "sales.csv"))
    report = json.loads((tmp_path / "sales-split" / "split.json").read_text())["report"]
    assert report["settings"]["fractions"] == "0.8,0.2"


HASHED = """
import sys
from pellucid.data import open_data
from pellucid.data.prepare.tokens import split_sequences
from dataclasses import replace
from pellucid.data.splits import SplitRequest
data = replace(open_data(sys.argv[1]), divided_by=SplitRequest(fractions=(0.8, 0.2)))
sides = split_sequences(data)
print([sorted(items) for items in (sides.train_items, sides.dev_items, sides.test_items)])
"""


def test_two_machines_agree_whatever_their_locale_threads_and_order_of_rows(tmp_path):
    words = [f"wörd{i}" for i in range(400)]
    said = set()
    for number, (locale, threads) in enumerate((("C", "1"), ("de_DE.UTF-8", "4"))):
        path = tmp_path / f"{number}.txt"
        path.write_text("\n".join(words[::-1] if number else words) + "\n", encoding="utf-8")
        environment = {**os.environ, "LC_ALL": locale, "POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": str(number)}
        run = subprocess.run(
            [sys.executable, "-c", HASHED, path], env=environment, capture_output=True, encoding="utf-8", check=True
        )
        said.add(run.stdout)
    assert len(said) == 1


def overlap_free(parts, n):
    rows = [set(part.tolist()) for part in parts.values()]
    assert sum(map(len, rows)) == n
    assert len(set.union(*rows)) == n


@pytest.mark.parametrize("strategy", ["hash", "stratified", "time", "random"])
def test_a_training_takes_dev_from_train_and_leaves_test_as_it_is(sales, strategy):
    columns = {} if strategy in ("hash", "random") else STRATEGIES[strategy]
    request = SplitRequest(strategy, **columns, fractions=TWO, repeats=0)
    sides = table_sides(sales, "loyalty_tier", split=request)
    overlap_free(sides.places, len(sales))
    sizes = {side: len(getattr(sides, side)) for side in SIDES}
    assert sizes["dev"] == pytest.approx(DEV_OF_TRAIN * (sizes["train"] + sizes["dev"]), rel=0.3)
    assert sizes["test"] == pytest.approx(1000, rel=0.15)
    if strategy == "time":
        seq_no = sales.frame["seq_no"].to_numpy()
        ends = [(seq_no[sides.places[side]].min(), seq_no[sides.places[side]].max()) for side in SIDES]
        assert ends == [(1, 3600), (3601, 4000), (4001, 5000)]
    if strategy == "stratified":
        items = sales.frame["items_scanned"].to_numpy()
        top = items >= np.quantile(items, 0.9, method="inverted_cdf")
        shares = [top[sides.places[side]].mean() for side in SIDES]
        assert max(shares) - min(shares) < 0.02


def test_a_group_is_whole_on_each_of_three_sides(tmp_path):
    draws = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"who": [f"p{i // 4}" for i in range(2400)], "x": draws.normal(size=2400), "y": ["a", "b"] * 1200}
    )
    frame.write_csv(tmp_path / "visits.csv")
    sides = table_sides(
        open_data(tmp_path / "visits.csv"), "y", split=SplitRequest("group", group="who", fractions=TWO)
    )
    overlap_free(sides.places, 2400)
    groups = [set(frame["who"].to_numpy()[sides.places[side]]) for side in SIDES]
    assert all(groups)
    assert not groups[0] & groups[1]
    assert not (groups[0] | groups[1]) & groups[2]


@pytest.mark.parametrize("data", ["names", "manual", "dedupe-sort", "digits", "penguins"])
def test_every_kind_of_data_can_be_trained_on_with_two_sides(data):
    target = {"target": "species"} if data == "penguins" else {}
    usual = open_task(DataOptions(data, **target)).facts
    facts = open_task(DataOptions(data, fractions="0.8,0.2", **target)).facts
    assert (usual.dev_of_train, facts.dev_of_train) == (0.0, DEV_OF_TRAIN)
    assert any(
        note.startswith("only train and test were asked for: 10.00 % of train are dev") for note in data_notes(facts)
    )
    assert not any(note.startswith("only train and test") for note in data_notes(usual))
    whole = sum(facts.n_tokens.values())
    assert facts.n_tokens["test"] / whole == pytest.approx(0.2, abs=0.05)
    assert facts.n_tokens["dev"] / whole == pytest.approx(0.08, abs=0.03)
    other = open_task(DataOptions(data, fractions="0.5,0.25,0.25", **target)).facts
    assert other.n_tokens["train"] / whole == pytest.approx(0.5, abs=0.08)


def test_lists_pairs_and_images_are_divided_without_loss():
    def with_two(name):
        from dataclasses import replace

        return replace(open_data(name), divided_by=SplitRequest(fractions=TWO))

    names = split_sequences(with_two("names"))
    assert sorted([*names.train_items, *names.dev_items, *names.test_items]) == sorted(open_data("names").items)
    assert set(names.test_items) == set(split(open_data("names").items, fractions=TWO).test)
    pairs = pair_sides(with_two("dedupe-sort"))
    assert sorted(pair for side in SIDES for pair in pairs.texts[side]) == sorted(open_data("dedupe-sort").pairs)
    overlap_free(image_sides(with_two("digits")).places, 1797)


def test_a_folder_with_two_sides_is_trained_on(pellucid, tmp_path):
    transactions.load(n=1500).frame.write_csv(tmp_path / "sales.csv")
    words = ("--strategy", "time", "--order", "seq_no", "--fractions", "0.8,0.2", "--target", "loyalty_tier")
    assert pellucid("split", "sales.csv", *words).returncode == 0
    data = open_data(tmp_path / "sales-split")
    assert set(data.sides.tolist()) == {0, 2}
    sides = table_sides(data, "loyalty_tier")
    # Rows stand in the folder as they stand in time, and dev is the last tenth of train.
    assert [len(sides.places[side]) for side in SIDES] == [1080, 120, 300]
    assert data.frame["seq_no"].to_numpy()[sides.places["dev"]].tolist() == list(range(1081, 1201))
    run = pellucid("train", "sales-split", "--target", "loyalty_tier", "--steps", "2", "--threads", "1")
    assert run.returncode == 0, run.stderr
    assert "train 1,080 rows; dev 120 rows; test 300 rows" in run.stdout
    assert "note: only train and test were asked for: 10.00 % of train are dev" in run.stdout
    again = pellucid("train", "sales-split", "--target", "loyalty_tier", "--steps", "2", "--fractions", "0.5,0.5")
    assert again.returncode == 2
    assert "was divided before, so --fractions changes nothing" in again.stderr


def test_lists_of_a_folder_and_of_an_option_have_the_same_sides(tmp_path):
    words = [f"word{i}" for i in range(400)]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    split(tmp_path / "words.txt", fractions="80/20", out=tmp_path / "parts")
    by_folder = open_task(DataOptions(str(tmp_path / "parts"))).sides
    by_option = open_task(DataOptions(str(tmp_path / "words.txt"), fractions="80/20")).sides
    for side in ("train_items", "dev_items", "test_items"):
        assert sorted(getattr(by_folder, side)) == sorted(getattr(by_option, side))
    assert by_folder.test_items == (tmp_path / "parts" / "test.txt").read_text().split()
    random = split(tmp_path / "words.txt", fractions="80/20", strategy="random", out=tmp_path / "other")
    assert len(split_sequences(open_data(tmp_path / "other")).dev_items) > 0
    assert random.report.record.sizes == {"train": 320, "test": 80}


def test_a_run_knows_again_what_it_was_trained_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = pellucid.train("names", fractions="0.8,0.2", model="bigram", name="two").report
    run = open_run("two")
    assert run.record["reading"]["fractions"] == "0.8,0.2"
    known = load_known_data(run, load_vocabulary(run)).items
    assert (len(known.train), len(known.dev)) == (report.data.items["train"], report.data.items["dev"])
    assert set(known.train).isdisjoint(split(open_data("names").items, fractions=TWO).test)


@pytest.mark.parametrize("fractions", ["0.8,0.3", "0.8", "0.8,-0.2", "1,0", "a,b"])
def test_what_cannot_be_shares_is_refused_before_anything_is_read(fractions):
    with pytest.raises(PellucidError, match=r"0\.8,0\.2 for train and test alone"):
        DataOptions("nowhere.csv", fractions=fractions)
