"""Codes looked up by the compiled table and by halving: the same places, and the same scores of whole texts."""

import math
import pickle
from collections import Counter

import numpy as np
import pytest

from pellucid.data.prepare import Corpus
from pellucid.models.counting import code_index, ngram
from pellucid.models.counting.code_index import CodeIndex, CodeValues
from pellucid.models.counting.ngram import AddS, KneserNey, NGram, NGramConfig

needs_compiled = pytest.mark.skipif(code_index._codes is None, reason="pellucid was installed without a C compiler")


@needs_compiled
@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_both_find_the_same_places(n, monkeypatch):
    rng = np.random.default_rng(n)
    codes = np.unique(rng.integers(-(1 << 62), 1 << 62, n))
    wanted = np.concatenate([rng.permutation(codes), rng.integers(-5, 5, 50), [np.iinfo(np.int64).min]])
    index = CodeIndex(codes)
    compiled = index.find(wanted.reshape(1, -1))
    assert "_table" in index.__dict__
    monkeypatch.setattr(code_index, "_codes", None)
    assert (compiled == CodeIndex(codes).find(wanted.reshape(1, -1))).all()
    assert (pickle.loads(pickle.dumps(index)).codes == codes).all()


@needs_compiled
@pytest.mark.parametrize("smoothing", [AddS(0.0), AddS(0.5), KneserNey()])
@pytest.mark.parametrize(("has_boundary", "closing"), [(True, 0), (True, 39), (False, 0)])
def test_whole_texts_have_the_same_scores(smoothing, has_boundary, closing, monkeypatch):
    rng = np.random.default_rng(3)
    vocab_size, order = 40, 5  # 40^5 entries: the highest order is sorted
    sides = []
    for n in (4000, 700):
        tokens = np.minimum(rng.geometric(0.15, n) - (0 if not has_boundary else 1), vocab_size - 2)
        sides.append(Corpus(np.concatenate([[0], tokens, [0]]), has_boundary=has_boundary, closing=closing))
    model = NGram.fit(sides[0], NGramConfig(vocab_size, order, smoothing))
    assert not model.orders[-1].level.is_dense
    for side in sides:
        compiled = model.of_each(side.tokens)
        with monkeypatch.context() as context:
            context.setattr(code_index, "_codes", None)
            context.setattr(ngram, "CAN_SCORE", False)
            fresh = NGram.fit(sides[0], NGramConfig(vocab_size, order, smoothing))
            assert np.array_equal(compiled, fresh.of_each(side.tokens), equal_nan=True)
    for n in (1, 2, 4, 5, 6):
        assert len(model.of_each(sides[1].tokens[:n])) == n - 1


@needs_compiled
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 300, 5000])
def test_values_are_those_of_their_codes(n):
    """Of single tokens, whose codes they are: the buckets of few and of many, and what is in none of them."""
    rng = np.random.default_rng(n)
    codes = np.unique(rng.integers(0, 1 << 40, n))
    values = CodeValues(codes, rng.normal(size=len(codes)))
    tokens = np.concatenate([rng.permutation(codes), rng.integers(0, 1 << 40, 500)])
    known = dict(zip(codes.tolist(), values.values.tolist(), strict=True))
    wanted = np.array([known.get(token, np.nan) for token in tokens.tolist()])
    for table in (values, pickle.loads(pickle.dumps(values))):
        found = np.empty(len(tokens))
        n_unseen = table.score(tokens, found, 1 << 40, 1, False, 0)
        assert np.array_equal(found, wanted, equal_nan=True)
        assert n_unseen == np.isnan(wanted).sum()


@needs_compiled
@pytest.mark.parametrize("has_boundary", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.int64])
def test_scores_are_those_of_a_loop_over_counts(has_boundary, kind):
    """Maximum likelihood by a dictionary, token by token."""
    rng = np.random.default_rng(7)
    tokens = np.concatenate([[0], rng.integers(0, 33, 3000), [0]]).astype(kind)
    order = 5
    model = NGram.fit(Corpus(tokens, has_boundary=has_boundary), NGramConfig(33, order, AddS(0.0)))
    assert not model.orders[-1].level.is_dense
    padded = [0] * (order - 1) + tokens.tolist() if has_boundary else tokens.tolist()
    grams, contexts, asked = Counter(), Counter(), []
    for end in range(order, len(padded)) if has_boundary else range(order - 1, len(padded)):
        context = padded[end - order + 1 : end]
        if has_boundary and 0 in context:
            last = max(place for place, token in enumerate(context) if token == 0)
            context[: last + 1] = [0] * (last + 1)
        gram = (*context, padded[end])
        grams[gram] += 1
        contexts[gram[:-1]] += 1
        asked.append(gram)
    wanted = [math.log(grams[gram] / contexts[gram[:-1]]) for gram in asked]
    assert np.allclose(model.of_each(tokens)[-len(wanted) :], wanted, atol=1e-12)


@needs_compiled
def test_rows_that_do_not_fit_are_refused():
    index = code_index._codes.Index(np.arange(3))
    with pytest.raises(ValueError, match="place for each"):
        index.find(np.arange(4), np.empty(3, np.int64))
    with pytest.raises(TypeError, match="8 bytes"):
        index.find(np.arange(3, dtype=np.int32), np.empty(3, np.int64))
    with pytest.raises(ValueError, match="value for each"):
        code_index._codes.Values(np.arange(3), np.empty(2))
    with pytest.raises(ValueError, match="no code below 0"):
        code_index._codes.Values(np.array([-1]), np.empty(1))
    values = code_index._codes.Values(np.arange(3), np.empty(3))
    for n_found, has_boundary in ((9, False), (10, True)):
        with pytest.raises(ValueError, match="more room"):
            values.score(np.arange(9), np.empty(n_found), 5, 2, has_boundary, 0)
