"""Top-k and nucleus against their slow twins, and the limits of what may be asked."""

import importlib
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.decoding.options import (
    FILTERS,
    SampleOptions,
    SamplingFilter,
    keep_top_k,
    keep_top_p,
    require_beam,
    require_length_penalty,
    require_seed,
    require_top_k_fits,
)
from pellucid.decoding.sampling import draw_tokens, log_softmax, sampling_probabilities, softmax
from pellucid.errors import PellucidError
from pellucid.options import Option

# Few different values, so that there are many equals; -inf is the impossible, of which not all may be.
SCORE = st.sampled_from([-math.inf, -40.0, -1.5, -1.0, 0.0, 0.25, 3.0, 700.0])
ROW = st.lists(SCORE, min_size=1, max_size=9).filter(lambda row: max(row) > -math.inf)
WEIGHTS = st.lists(st.integers(0, 20), min_size=1, max_size=9).filter(any)


def kept(filtered):
    return [place for place, score in enumerate(filtered) if score > -math.inf]


def ranking(row):
    """Places by falling score; of equals the first first."""
    return sorted(range(len(row)), key=lambda place: (-row[place], place))


@settings(max_examples=examples(300))
@given(row=ROW, k=st.integers(1, 12))
def test_top_k_is_its_slow_twin(row, k):
    found = keep_top_k(np.array(row), k)
    wanted = [place for place in ranking(row)[:k] if row[place] > -math.inf]
    assert kept(found) == sorted(wanted)
    assert [found[place] for place in wanted] == [row[place] for place in wanted]


@settings(max_examples=examples(300))
@given(weights=WEIGHTS, mass=st.fractions(0, 1, max_denominator=97).filter(bool))
def test_nucleus_is_its_slow_twin(weights, mass):
    """In whole numbers, so that the twin does not round: tokens are taken until what was taken reaches the mass."""
    total, taken, wanted = sum(weights), 0, []
    for place in ranking(weights):
        if Fraction(taken, total) < mass and weights[place]:
            wanted.append(place)
            # Where a sum meets the mass to the digit, rounding decides; such cases are not tried.
            assume(Fraction(taken + weights[place], total) != mass or mass == 1)
        taken += weights[place]
    with np.errstate(divide="ignore"):
        scores = np.log(np.array(weights, np.float64))
    assert kept(keep_top_p(scores, float(mass))) == sorted(wanted)


@settings(max_examples=examples(100))
@given(rows=st.lists(st.lists(SCORE, min_size=6, max_size=6), min_size=1, max_size=6), k=st.integers(1, 6))
def test_every_row_is_looked_at_alone(rows, k):
    scores = np.array([[*row, 0.5] for row in rows])
    assert np.array_equal(keep_top_k(scores, k), [keep_top_k(row, k) for row in scores])
    assert np.array_equal(keep_top_p(scores, 0.7), [keep_top_p(row, 0.7) for row in scores])
    deeper = np.stack([scores, scores[::-1]])
    assert np.array_equal(keep_top_p(deeper, 0.3)[1], keep_top_p(scores, 0.3)[::-1])


@settings(max_examples=examples(100))
@given(row=ROW, k=st.integers(1, 9), mass=st.floats(1e-300, 1, exclude_min=True), temperature=st.floats(0, 1e9))
def test_there_is_always_one_to_choose(row, k, mass, temperature):
    found = sampling_probabilities(np.array(row), temperature, top_k=k, top_p=mass)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
    assert found[int(np.argmax(row))] > 0


def test_a_mass_of_1_keeps_what_rounding_would_drop():
    scores = np.log([1.0, 1e-18, 1e-30])
    assert kept(keep_top_p(scores, 1.0)) == [0, 1, 2]


def test_the_mass_is_that_of_the_bent_probabilities():
    scores = np.log([0.6, 0.3, 0.1])
    assert np.count_nonzero(sampling_probabilities(scores, 1.0, top_p=0.65)) == 2
    assert np.count_nonzero(sampling_probabilities(scores, 0.2, top_p=0.65)) == 1
    assert np.count_nonzero(sampling_probabilities(scores, 1e9, top_p=0.65)) == 2  # a third each
    assert np.count_nonzero(sampling_probabilities(scores, 1e9, top_p=0.7)) == 3


def test_what_is_barred_is_never_drawn():
    scores = np.log([[0.4, 0.3, 0.2, 0.1]])

    def counts(**options):
        samples = draw_tokens(lambda contexts: scores.repeat(len(contexts), 0), n_samples=4000, longest=1, **options)
        return np.bincount([sample.tokens[0] for sample in samples], minlength=4)

    assert all(counts())
    two = counts(top_k=2)
    assert two[2:].sum() == 0
    # 4,000 draws with probability 4/7: within 5 deviations, which fails once in a million seeds; the seed is fixed.
    assert abs(two[0] - 4000 * 4 / 7) < 5 * math.sqrt(4000 * 4 / 7 * 3 / 7)
    assert counts(top_p=0.4).tolist() == [4000, 0, 0, 0]
    assert counts(top_k=1).tolist() == counts(temperature=0).tolist() == [4000, 0, 0, 0]
    assert np.array_equal(counts(top_k=4), counts())


def test_filters_leave_the_log_probability_as_the_model_gave_it():
    scores = np.log([[0.5, 0.25, 0.25]])
    (sample,) = draw_tokens(lambda contexts: scores, n_samples=1, longest=3, top_k=1, temperature=0.5)
    assert sample.log_probability == pytest.approx(3 * math.log(0.5))


def test_softmax_and_its_logarithm():
    rows = np.array([[0.0, 1.0, -np.inf], [1000.0, 0.0, -1000.0]])
    with np.errstate(divide="ignore"):
        assert np.log(softmax(rows[0])) == pytest.approx(log_softmax(rows)[0])
    assert log_softmax(rows)[1].tolist() == [0.0, -1000.0, -2000.0]  # where the probability itself is 0


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (lambda: SampleOptions(filters={"top_k": 0}), "top-k is 0"),
        (lambda: SampleOptions(filters={"top_k": -1}), "top-k is -1"),
        (lambda: require_top_k_fits(28, 27), "top-k is 28 and there are 27 tokens"),
        (lambda: SampleOptions(filters={"top_p": 0.0}), "top-p is 0"),
        (lambda: SampleOptions(filters={"top_p": 2.0}), "top-p is 2"),
        (lambda: SampleOptions(filters={"top_p": math.nan}), "top-p is nan"),
        (lambda: require_beam(0), "the beam is 0"),
        (lambda: require_beam(1001), "the beam is 1001"),
        (lambda: require_length_penalty(-0.1), "the length penalty is -0.1"),
        (lambda: require_length_penalty(math.nan), "the length penalty is nan"),
        (lambda: require_length_penalty(math.inf), "the length penalty is inf"),
        (lambda: require_seed(2**64), "the seed is 18446744073709551616"),
        (lambda: draw_tokens(lambda contexts: contexts, n_samples=1, longest=1, top_k=0), "top-k is 0"),
        (lambda: draw_tokens(lambda contexts: contexts, n_samples=1, longest=1, top_p=1.5), "top-p is 1.5"),
    ],
)
def test_what_cannot_be_wished_for(wish, said):
    with pytest.raises(PellucidError, match=said):
        wish()


def test_what_can_be_wished_for():
    SampleOptions(filters={"top_k": 1})
    require_top_k_fits(27, 27)
    SampleOptions(filters={"top_p": 1.0})
    SampleOptions(filters={"top_p": 1e-12})
    require_beam(1)
    require_length_penalty(0.0)


def test_a_new_row_is_a_new_filter_everywhere(monkeypatch, capsys):
    """One function and its row: an option of the command with its check and its help, and it masks."""
    from pellucid.cli import main, sample
    from pellucid.decoding import options, sampling

    def keep_min_p(logits, share):
        return np.where(logits < logits.max(axis=-1, keepdims=True) + math.log(share), -np.inf, logits)

    row = SamplingFilter("min_p", float, Option("Min-p sampling.", noun="min-p", minimum=0, maximum=1), keep_min_p)
    for module in (options, sampling, sys.modules["pellucid.api.run"]):
        monkeypatch.setattr(module, "FILTERS", (*FILTERS, row))
    assert np.count_nonzero(sampling_probabilities(np.log([0.6, 0.3, 0.1]), 1.0, min_p=0.4)) == 2
    with pytest.raises(PellucidError, match="min-p is 2"):
        SampleOptions(filters={"min_p": 2.0})
    importlib.reload(sample)
    try:
        monkeypatch.setitem(sys.modules, "pellucid.cli.sample", sample)
        for words in (["sample", "--help"], ["sample", "names", "--min-p", "0.4", "-n", "2", "--json"]):
            with pytest.raises(SystemExit) as ended:
                main(words)
            assert ended.value.code == 0
    finally:
        monkeypatch.undo()
        importlib.reload(sample)
    said = capsys.readouterr().out
    assert "--min-p" in said
    assert "Min-p sampling." in said
    assert '"filters": {"min_p": 0.4}' in said
