"""Near-duplicates beside the edit distance written out, and twins beside sets."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pellucid.data.splits.distributions import levels_of
from pellucid.data.splits.duplicates import find_twins, fold_text, is_in_train, is_one_edit, near_rows, one_edit_apart
from pellucid.figures.words.notes import note_sentences

words = st.lists(st.text("abé", min_size=1, max_size=7), max_size=25)


def edit_distance(first: str, second: str) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]


@given(words, words)
def test_one_edit_is_an_edit_distance_of_one(held, train):
    long_enough = [word for word in train if len(word) >= 4]
    wanted = [len(word) >= 4 and any(edit_distance(word, other) == 1 for other in long_enough) for word in held]
    assert one_edit_apart(held, train).tolist() == wanted


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_is_one_edit(first, second):
    assert is_one_edit(first, second) == (edit_distance(first, second) == 1)


def test_long_and_short_items_are_passed_over():
    assert one_edit_apart(["abc", "x" * 33], ["abd", "x" * 32]).tolist() == [False, False]


def test_folding():
    assert fold_text("Ångström!") == fold_text("ångström") == "ångström"
    assert fold_text("Straße 5") == fold_text("STRASSE5")
    assert fold_text("ｆｕｌｌ") == "full"
    assert fold_text("—") == "—"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=60))
def test_twins_are_what_sets_say(rows):
    hashes = np.array([number * 0x9E3779B97F4A7C15 % 2**64 for number, _ in rows], dtype=np.uint64)
    sides = np.array([side for _, side in rows], dtype=np.int8)
    train = {number for number, side in rows if side == 0}
    found = find_twins(hashes, sides)
    assert found.n_distinct == len({number for number, _ in rows})
    assert found.n_shared == tuple(sum(1 for n, s in rows if s == side and n in train) for side in (1, 2))
    assert all(rows[row][0] in train and rows[row][1] > 0 for row in found.examples)
    assert bool(found.examples) == any(found.n_shared)
    assert is_in_train(hashes, sides).tolist() == [side > 0 and number in train for number, side in rows]


def near(frame, left_out=(), sides=(0, 0, 0, 1, 2)):
    levels = {name: levels_of(frame[name]) for name in frame.columns}
    return near_rows(frame, levels, np.array(sides, dtype=np.int8), left_out, str)


def test_near_rows_leave_out_ids_and_round():
    frame = pl.DataFrame(
        {"id": [1, 2, 3, 4, 5], "x": [1.00001, 2.0, 3.0, 1.00002, 9.0], "name": ["Ann Lee", "b", "c", "ann-lee", "e"]}
    )
    found, notes = near(frame)
    assert [one.n_shared for one in found] == [1, 0]
    assert "rows equal without id" in found[0].what
    assert not found[0].is_leak
    assert notes == []


def test_near_rows_say_when_equality_says_nothing():
    frame = pl.DataFrame({"id": range(100), "tier": ["a", "b"] * 50})
    found, notes = near(frame, sides=[0] * 80 + [1] * 10 + [2] * 10)
    assert found == []
    assert note_sentences(notes) == ["near-duplicates not counted: without id, 100 rows have at most 2 different forms"]
