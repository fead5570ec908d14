"""Beam search against all sequences there are."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.decoding.beam import beam_search
from pellucid.decoding.sampling import NEVER, FromContexts, draw_tokens
from pellucid.errors import PellucidError


def by_last(table):
    """Scores that depend on the last token; (token, token) probabilities."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(table, np.float64))
    return lambda contexts: logs[contexts[:, -1]]


def by_all(seed, vocab=3):
    """Scores that depend on everything read so far, in any order, as a network's do."""

    def scores(contexts):
        rows = []
        for context in contexts.tolist():
            words = np.random.Philox(key=np.array([seed, hash(tuple(context)) % 2**63], np.uint64)).random_raw(vocab)
            rows.append(np.log((words >> np.uint64(40)).astype(np.float64) + 1.0))
        return np.array(rows)

    return scores


def all_sequences(scores, longest, start, stop, power):
    """Every sequence that ends at the boundary or is cut, with its score and log-probability; slowly."""
    found = []
    vocab = scores(np.array([start])).shape[1]
    for length in range(1, longest + 1):
        for tokens in itertools.product(range(vocab), repeat=length):
            if stop in tokens[:-1] or (tokens[-1] != stop and length < longest):
                continue
            log = 0.0
            for step, token in enumerate(tokens):
                row = scores(np.array([[*start, *tokens[:step]]]))[0]
                log += row[token] - math.log(math.fsum(np.exp(row)))
            if log > -math.inf:
                ended = tokens[-1] == stop
                found.append((log / length**power, tokens[:-1] if ended else tokens, log))
    return sorted(found, key=lambda one: -one[0])


def test_the_two_steps_where_greedy_takes_the_wrong_one():
    """Word 1 has 0.7 and then 0.001 at best; word 2 has 0.3 and then 0.9: 0.0007 against 0.27."""
    first = [0.0, 0.7, 0.3] + [0.0] * 1000
    after_1 = [0.0] * 3 + [0.001] * 1000
    after_2 = [0.0] * 3 + [0.9] + [0.1] + [0.0] * 998
    scores = by_last([first, after_1, after_2])
    greedy = beam_search(scores, width=1, longest=2, start=[0])[0]
    assert greedy.drawn.tokens == (1, 3)
    assert math.exp(greedy.score) == pytest.approx(0.7 * 0.001)
    better = beam_search(scores, width=2, longest=2, start=[0])[0]
    assert better.drawn.tokens == (2, 3)
    assert math.exp(better.drawn.log_probability) == pytest.approx(0.27)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10_000), power=st.sampled_from([0.0, 0.6, 1.0, 2.0]), stop=st.sampled_from([0, NEVER]))
def test_a_wide_beam_is_exhaustive(seed, power, stop):
    wanted = all_sequences(by_all(seed), 4, [0], stop, power)
    found = beam_search(by_all(seed), width=100, longest=4, start=[0], stop=stop, length_penalty=power)
    assert len(found) == min(100, len(wanted))
    assert [one.score for one in found] == pytest.approx([score for score, _, _ in wanted])
    assert [one.drawn.tokens for one in found] == [tokens for _, tokens, _ in wanted]
    assert [one.drawn.log_probability for one in found] == pytest.approx([log for _, _, log in wanted])
    for one in found:
        assert one.drawn.is_cut == (stop != NEVER and len(one.drawn.tokens) == 4)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10_000), width=st.integers(1, 12), power=st.sampled_from([0.0, 1.0]))
def test_what_a_narrow_beam_finds_is_there_and_in_order(seed, width, power):
    every = {tokens: score for score, tokens, _ in all_sequences(by_all(seed), 4, [0], 0, power)}
    found = beam_search(by_all(seed), width=width, longest=4, start=[0], stop=0, length_penalty=power)
    assert 1 <= len(found) <= width
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx([every[one.drawn.tokens] for one in found])
    assert len({one.drawn.tokens for one in found}) == len(found)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 10_000), vocab=st.integers(1, 5), longest=st.integers(1, 6))
def test_a_beam_of_1_is_greedy(seed, vocab, longest):
    (greedy,) = draw_tokens(by_all(seed, vocab), n_samples=1, longest=longest, start=[0], stop=0, temperature=0)
    (found,) = beam_search(by_all(seed, vocab), width=1, longest=longest, start=[0], stop=0)
    assert found.drawn.tokens == greedy.tokens
    assert found.drawn.is_cut == greedy.is_cut
    assert found.drawn.log_probability == pytest.approx(greedy.log_probability)


def test_of_equals_the_first_is_better():
    even = by_last(np.full((3, 3), 1 / 3))
    found = beam_search(even, width=4, longest=2, start=[0])
    assert [one.drawn.tokens for one in found] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert beam_search(even, width=1, longest=3, start=[0])[0].drawn.tokens == (0, 0, 0)


def test_the_length_decides_with_its_power():
    """Stop at once with 0.5, or go on with 0.5, then 0.98, and stop: 0.5 against 0.49, whose third root is 0.79."""
    scores = by_last([[0.5, 0.5, 0.0, 0.0], [0.02, 0.0, 0.98, 0.0], [1.0, 0.0, 0.0, 0.0]])
    short = beam_search(scores, width=3, longest=5, start=[0], stop=0)
    assert [one.drawn.tokens for one in short] == [(), (1, 2), (1,)]
    assert beam_search(scores, width=3, longest=5, start=[0], stop=0, length_penalty=1)[0].drawn.tokens == (1, 2)


def test_the_impossible_is_never_followed():
    never = by_last([[0.0, 1.0], [1.0, 0.0]])
    assert [one.drawn.tokens for one in beam_search(never, width=5, longest=9, start=[0], stop=0)] == [(1,)]


class CountedReading(FromContexts):
    def __init__(self, scores):
        super().__init__(scores)
        self.n_asked = 0

    def advance(self, tokens):
        self.n_asked += len(tokens)
        return super().advance(tokens)


def test_it_ends_as_soon_as_nothing_better_can_come():
    reading = CountedReading(by_last([[0.9, 0.1], [0.5, 0.5]]))
    found = beam_search(reading, width=2, longest=1000, start=[0], stop=0)
    assert [one.drawn.tokens for one in found] == [(), (1,)]
    assert reading.n_asked == 1


@pytest.mark.parametrize(
    ("options", "said"), [({"width": 0}, "the beam is 0"), ({"length_penalty": -1}, "penalty is -1")]
)
def test_what_cannot_be_wished_for(options, said):
    with pytest.raises(PellucidError, match=said):
        beam_search(by_last([[1.0]]), **{"width": 1, "longest": 1, "start": [0], **options})
