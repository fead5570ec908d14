"""Drawing from a table of numbers, and telling what is new."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.decoding import tree
from pellucid.decoding.novelty import Known, edit_distances, longest_copied
from pellucid.decoding.sampling import FromContexts, draw_tokens, sampling_probabilities
from pellucid.errors import PellucidError

# After each of 3 tokens the probabilities of the next; 0 is the boundary and never follows itself.
TABLE = np.array([[0.0, 0.75, 0.25], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])


def scores(contexts):
    with np.errstate(divide="ignore"):
        return np.log(TABLE[contexts[:, -1]])


def drawn(n_samples=100, **options):
    return draw_tokens(scores, **{"n_samples": n_samples, "longest": 50, "start": [0], "stop": 0, **options})


def test_frequencies_are_the_probabilities():
    """Each of 8 frequencies over 20,000 or more draws within 5 standard deviations: wrong once in 200,000 runs; the
    seed is fixed, so that it is wrong always or never."""
    pairs = np.zeros((3, 3))
    for sample in drawn(20_000, longest=500):
        tokens = [0, *sample.tokens, 0]
        np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
    totals = pairs.sum(axis=1, keepdims=True)
    deviation = np.sqrt(TABLE * (1 - TABLE) / totals)
    assert np.all(np.abs(pairs / totals - TABLE) <= 5 * deviation)
    assert pairs[0, 0] == 0  # the impossible never came


def test_a_seed_gives_the_same_samples_however_many_are_drawn():
    alone, many = drawn(1, seed=7), drawn(200, seed=7)
    assert alone[0] == many[0]
    assert drawn(200, seed=7) == many
    assert drawn(200, seed=8) != many
    assert len(set(many)) > 20


def test_samples_carry_their_log_probability():
    for sample in drawn(50, temperature=3.0):
        tokens = [0, *sample.tokens, 0]
        wanted = sum(math.log(TABLE[a, b]) for a, b in itertools.pairwise(tokens))
        assert sample.log_probability == pytest.approx(wanted)
        assert not sample.is_cut


def test_a_start_is_gone_on_from_and_is_no_part_of_the_result():
    # After 2 the boundary may come at once, after 0 never.
    assert any(sample.tokens == () for sample in drawn(100, start=[0, 2]))
    assert all(sample.tokens != () for sample in drawn(100, start=[0]))
    endless = draw_tokens(
        lambda contexts: np.log(np.eye(3)[contexts[:, -1]] + 1e-300), n_samples=2, longest=4, start=[2], stop=0
    )
    assert [(sample.tokens, sample.is_cut) for sample in endless] == [((2, 2, 2, 2), True)] * 2


class CountedReading(FromContexts):
    """Goes on as a table does, and remembers how many rows it was asked about each time."""

    def __init__(self):
        super().__init__(scores)
        self.asked = []

    def read(self, tokens):
        self.asked.append(tokens.shape)
        return super().read(tokens)

    def advance(self, tokens):
        self.asked.append(tokens.shape)
        return super().advance(tokens)


def test_the_start_is_read_once_equal_samples_together_and_finished_ones_are_dropped():
    reading = CountedReading()
    found = draw_tokens(reading, n_samples=500, longest=50, start=[0, 1, 2], stop=0, seed=3)
    assert found == drawn(500, start=[0, 1, 2], seed=3)
    assert reading.asked[0] == (1, 3)
    rows = [shape[0] for shape in reading.asked[1:]]
    n_shared = 0
    for step, asked in enumerate(rows, start=1):
        still = [sample.tokens[:step] for sample in found if len(sample.tokens) >= step]
        # Of the samples that are asked about, less than an eighth have nothing to say any more.
        assert len(set(still)) <= asked < len(still) / (1 - 1 / 8) + 1
        n_shared += asked < len(still)
    assert rows[0] <= 3
    assert n_shared >= 3
    assert len(rows) == max(len(sample.tokens) for sample in found)


def test_nothing_is_asked_that_is_not_used():
    reading = CountedReading()
    draw_tokens(reading, n_samples=1, longest=3, start=[0])
    assert reading.asked == [(1, 1), (1,), (1,)]
    assert len(draw_tokens(scores, n_samples=3, longest=1, start=[0])) == 3


def test_the_ith_sample_is_the_same_in_any_company():
    many = drawn(64, seed=5, top_k=2, temperature=0.9)
    for n in (1, 2, 7, 63):
        assert drawn(n, seed=5, top_k=2, temperature=0.9) == many[:n]


def test_temperature_0_takes_the_likeliest_and_extremes_stay_finite():
    assert {sample.tokens for sample in drawn(5, temperature=0)} == {(1,)}
    assert sampling_probabilities(np.log([0.4, 0.4, 0.2]), 0).tolist() == [1, 0, 0]  # of equals the first
    for temperature in (1e-320, 1e-9, 1.0, 1e9, 1e300):
        for row in (np.log([0.6, 0.3, 0.1]), np.array([1e300, -1e300, 0.0]), np.array([-np.inf, 0.0, -np.inf])):
            found = sampling_probabilities(row, temperature)
            assert np.isfinite(found).all()
            assert found.sum() == pytest.approx(1)
    assert sampling_probabilities(scores(np.array([[0]])), 1e9)[0] == pytest.approx([0, 0.5, 0.5])


@pytest.mark.parametrize("temperature", [-1.0, math.nan, math.inf])
def test_other_temperatures_are_refused(temperature):
    with pytest.raises(PellucidError, match="the temperature is"):
        drawn(1, temperature=temperature)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_other_seeds_are_refused(seed):
    with pytest.raises(PellucidError, match="the seed is"):
        drawn(1, seed=seed)
    assert drawn(1, seed=2**64 - 1) != drawn(1, seed=2**64 - 2)


def slow_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


WORDS = st.text("abcé", max_size=8)


@settings(max_examples=examples(200))
@given(text=WORDS, others=st.lists(WORDS, min_size=1, max_size=12))
def test_edit_distances_are_their_slow_twins(text, others):
    assert edit_distances([text], others).tolist() == [slow_distance(text, other) for other in others]


@settings(max_examples=examples(100))
@given(text=WORDS, seed=st.integers(0, 10_000))
def test_the_nearest_is_as_near_as_any(text, seed):
    letters = random.Random(seed)
    train = ["".join(letters.choices("abcdé", k=letters.randint(0, 9))) for _ in range(300)]
    nearest, distance = Known(train).nearest(text)
    assert nearest in train
    assert distance == slow_distance(text, nearest) == min(slow_distance(text, item) for item in train)


@settings(max_examples=examples(200))
@given(text=WORDS, source=st.text("abcé\n", max_size=40))
def test_the_longest_copied_part_is_the_longest(text, source):
    found = longest_copied(text, [source])
    assert found in text
    assert found in source
    parts = {text[i:j] for i in range(len(text)) for j in range(i, len(text) + 1)}
    assert len(found) == max((len(part) for part in parts if part in source), default=0)


def test_where_a_sample_is_found():
    known = Known(["emma", "ava", "emma"], ["mia", "ava"])
    assert [known.where(text) for text in ("emma", "ava", "mia", "zoe")] == ["train", "train", "dev", "new"]
    found = known.novelty("emmy")
    assert (found.where, found.nearest, found.distance, found.copied) == ("new", "emma", 1, "emm")
    assert known.novelty("emma").distance == 0
    assert Known([]).novelty("x").nearest == ""


def test_remembered_scores_of_few_symbols_are_bounded_by_what_they_take(monkeypatch):
    """A row of two numbers takes the memory of a hundred: counted by its numbers alone it took many times the limit."""
    monkeypatch.setattr(tree, "MOST_NUMBERS", 1_020)
    remembered = tree.RememberedScores(lambda rows: np.zeros((len(rows), 2)))
    remembered(np.arange(10)[:, None])
    remembered(np.arange(10, 20)[:, None])
    assert remembered.n_asked == 20
    remembered(np.arange(10, 20)[:, None])
    assert remembered.n_asked == 20  # the last ten are there
    remembered(np.arange(1)[:, None])
    assert remembered.n_asked == 21  # the first ten are not


def test_remembered_scores_keep_only_themselves(monkeypatch):
    """A row that was a view of its batch kept the whole batch alive, found by the lab's soak."""
    monkeypatch.setattr(tree, "MOST_ROWS", 3)
    remembered = tree.RememberedScores(lambda rows: np.zeros((len(rows), 5, 2))[:, -1])
    assert remembered(np.arange(20)[:, None]).shape == (20, 2)
    kept = list(remembered._known.values())
    assert len(kept) == 3
    assert all(row.base is None for row in kept)
