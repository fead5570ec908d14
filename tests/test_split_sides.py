"""Strata, order and chance: what each strategy promises, for any rows."""

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.data.splits import FRACTIONS, assignment
from pellucid.data.splits.assignment import at_random, by_order, by_strata, strata_of
from pellucid.data.splits.distributions import Levels
from pellucid.data.splits.hashing import mix
from pellucid.errors import PellucidError

fractions = st.sampled_from([(0.8, 0.1, 0.1), (0.6, 0.2, 0.2), (1 / 3, 1 / 3, 1 / 3), (0.98, 0.01, 0.01)])


def hashes_of(values):
    return mix(np.array(values, dtype=np.uint64) + np.uint64(12345))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=300), fractions)
def test_every_stratum_is_shared_out_alike(strata, parts):
    strata = np.array(strata)
    sides = by_strata(strata, hashes_of(range(len(strata))), parts)
    for stratum, size in enumerate(np.bincount(strata)):
        counts = np.bincount(sides[strata == stratum], minlength=3)
        if size < 3:
            assert counts[0] == size
        else:
            assert (np.abs(counts - np.array(parts) * size) <= 2).all()
    shared = int(sum(size for size in np.bincount(strata) if size >= 3))
    alone = len(strata) - shared
    assert abs(np.count_nonzero(sides == 0) - alone - parts[0] * shared) <= 1
    assert abs(np.count_nonzero(sides == 2) - parts[2] * shared) <= 1


@pytest.mark.parametrize("n_forms", [40, 5_000])  # with equal rows beside some cuts, and beside none
@pytest.mark.parametrize("n_strata", [1, 65, assignment.MOST_STRATA])
@pytest.mark.parametrize("parts", [FRACTIONS, (0.8, 0.2), (0.9, 0.1, 0.0)])
def test_counting_in_buckets_cuts_where_sorting_all_rows_does(monkeypatch, n_forms, n_strata, parts):
    draw = np.random.default_rng(n_strata)
    strata = draw.integers(0, n_strata, 5_000)
    hashes = hashes_of(draw.permutation(5_000) % n_forms)
    in_buckets = by_strata(strata, hashes, parts)
    monkeypatch.setattr(assignment, "_cut_in_buckets", lambda *_: None)
    assert (in_buckets == by_strata(strata, hashes, parts)).all()


def test_no_rows_have_no_sides():
    assert by_strata(np.zeros(0, np.uint32), hashes_of([]), FRACTIONS).tolist() == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=200), st.randoms())
def test_strata_do_not_depend_on_the_order_of_rows_and_equal_rows_stay_together(rows, shuffle):
    def sides_of_rows(rows):
        strata = np.array([stratum for stratum, _ in rows])
        return by_strata(strata, hashes_of([name for _, name in rows]), FRACTIONS).tolist()

    sides = {}
    for row, side in zip(rows, sides_of_rows(rows), strict=True):
        assert sides.setdefault(row, side) == side
    shuffled = list(rows)
    shuffle.shuffle(shuffled)
    assert sides_of_rows(shuffled) == [sides[row] for row in shuffled]


@given(st.lists(st.integers(-1000, 1000), min_size=30, max_size=200, unique=True), fractions)
def test_time_puts_the_first_in_train_and_the_last_in_test(values, parts):
    assume(min(parts) * len(values) >= 1)
    values = np.array(values)
    sides = by_order(values, parts, "t")
    assert values[sides == 0].max() < values[sides == 1].min()
    assert values[sides == 1].max() < values[sides == 2].min()
    assert np.abs(np.bincount(sides) - np.array(parts) * len(values)).max() <= 1.5


@given(st.lists(st.integers(0, 25), min_size=50, max_size=200))
def test_time_keeps_ties_on_one_side(values):
    values = np.array(values)
    try:
        sides = by_order(values, (0.6, 0.2, 0.2), "t")
    except PellucidError:
        reject()  # one value fills a whole side, which another test is about
    for value in np.unique(values):
        assert len(set(sides[values == value].tolist())) == 1


def test_time_refuses_what_has_too_few_values():
    with pytest.raises(PellucidError, match="day has too few different values"):
        by_order(np.array([1] * 50 + [2] * 50), FRACTIONS, "day")


@pytest.mark.parametrize("n", [10, 11, 99, 1000])
def test_chance_gives_exact_sizes_and_listens_to_the_seed(n):
    sides = at_random(n, FRACTIONS, "")
    assert np.abs(np.bincount(sides, minlength=3) - np.array(FRACTIONS) * n).max() <= 1
    assert at_random(n, FRACTIONS, "").tolist() == sides.tolist()
    if n > 11:
        assert at_random(n, FRACTIONS, "other").tolist() != sides.tolist()


def levels(values, name="x", is_numeric=True):
    distinct, codes = np.unique(np.array(values), return_inverse=True)
    return Levels(name, is_numeric, distinct, codes, False)


@settings(max_examples=examples(50))
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=400))
def test_bins_follow_the_values(values):
    strata = strata_of(levels(values), [], FRACTIONS)
    ordered = np.argsort(values, kind="stable")
    assert (np.diff(strata.bins[ordered].astype(int)) >= 0).all()
    by_value = {}
    for value, place in zip(values, strata.bins.tolist(), strict=True):
        assert by_value.setdefault(value, place) == place


def test_the_tail_has_bins_of_its_own():
    strata = strata_of(levels(range(100_000)), [], FRACTIONS)
    assert strata.marks[-3:] == (0.9, 0.99, 0.999)
    assert np.bincount(strata.bins)[-3:].tolist() == [9000, 900, 100]


def test_strata_are_joint_and_bounded():
    tiers = levels(["a", "b"] * 500, "tier", is_numeric=False)
    assert strata_of(levels(range(1000)), [tiers], FRACTIONS).n_strata == 2 * 10
    ids = levels(range(1000), "id")
    with pytest.raises(PellucidError, match="id has 1,000 different values"):
        strata_of(levels(range(1000)), [ids], FRACTIONS)
    with pytest.raises(PellucidError, match="tier is no numeric column"):
        strata_of(tiers, [], FRACTIONS)


@pytest.mark.parametrize("n_forms", [2, 3, 5, 12, 40])
@pytest.mark.parametrize("n_strata", [1, 4, 30])
def test_equal_rows_in_strata_leave_each_side_its_share(n_forms, n_strata):
    """As near as the largest heap of equal rows allows: such rows stay together, and none of them is divided."""
    draw = np.random.default_rng(n_forms)
    strata = draw.integers(0, n_strata, 3_000)
    forms = draw.integers(0, n_forms, 3_000)
    sides = by_strata(strata, hashes_of((strata * 1_000 + forms).tolist()), FRACTIONS)
    heaps = {}
    for stratum, form, side in zip(strata.tolist(), forms.tolist(), sides.tolist(), strict=True):
        heaps.setdefault((stratum, form), []).append(side)
    assert all(len(set(heap)) == 1 for heap in heaps.values())
    largest = max(map(len, heaps.values()))
    for side, share in enumerate(FRACTIONS):
        # Each of the two cuts around a side is off by at most half of the heap it falls into, with what is carried.
        assert abs(np.count_nonzero(sides == side) - share * 3_000) <= largest + 1, (side, largest)
