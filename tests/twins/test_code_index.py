"""Codes looked up by the compiled table and by halving: the same places, and the same scores of whole texts."""

import pickle

import numpy as np
import pytest

from pellucid.data.prepare import Corpus
from pellucid.models.counting import code_index
from pellucid.models.counting.code_index import CodeIndex
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
            fresh = NGram.fit(sides[0], NGramConfig(vocab_size, order, smoothing))
            assert np.array_equal(compiled, fresh.of_each(side.tokens), equal_nan=True)
    for n in (1, 2, 4, 5, 6):
        assert len(model.of_each(sides[1].tokens[:n])) == n - 1


@needs_compiled
def test_rows_that_do_not_fit_are_refused():
    index = code_index._codes.Index(np.arange(3))
    with pytest.raises(ValueError, match="place for each"):
        index.find(np.arange(4), np.empty(3, np.int64))
    with pytest.raises(TypeError, match="8 bytes"):
        index.find(np.arange(3, dtype=np.int32), np.empty(3, np.int64))
    with pytest.raises(ValueError, match="value for each"):
        index.score(np.arange(9), np.empty(2), np.empty(8), 5, 2, False, 0)
