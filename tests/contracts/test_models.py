"""What every model that counts promises, tried on each. Those that learn are in test_networks.py."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.models.counting import COUNT_MODELS, CountOptions
from pellucid.models.counting.count_model import CountModel
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.counting.simple_models import Bigram, BigramConfig, Uniform, UniformConfig, Unigram, UnigramConfig

MODELS = {
    "uniform": (Uniform, UniformConfig(vocab_size=5)),
    "unigram": (Unigram, UnigramConfig(vocab_size=5)),
    "bigram": (Bigram, BigramConfig(vocab_size=5)),
    "ngram": (NGram, NGramConfig(vocab_size=5, order=3)),
}
BATCH, TIME = 3, 12


def corpus(vocab_size: int, has_boundary: bool, seed: int = 0) -> SimpleNamespace:
    tokens = np.random.default_rng(seed).integers(0, vocab_size, 400)
    tokens[0] = tokens[-1] = 0
    return SimpleNamespace(tokens=tokens.astype(np.uint8), has_boundary=has_boundary, closing=0)


@pytest.fixture(params=[(name, has_boundary) for name in MODELS for has_boundary in (True, False)], ids=str)
def model(request: pytest.FixtureRequest) -> CountModel:
    name, has_boundary = request.param
    build, config = MODELS[name]
    return build.fit(corpus(config.vocab_size, has_boundary), config)


@pytest.fixture
def tokens(model: CountModel) -> torch.Tensor:
    found = torch.randint(0, model.vocab_size, (BATCH, TIME), generator=torch.Generator().manual_seed(1))
    if model.has_boundary:
        found[:, 0] = 0
    return found


def test_the_first_rungs_are_there():
    assert tuple(MODELS) == COUNT_MODELS
    with pytest.raises(PellucidError, match=r"there is no count model called 'bigrm'\. Perhaps you meant bigram"):
        CountOptions(model="bigrm")


def test_one_token_at_a_time_gives_the_same_numbers(model, tokens):
    whole = model.forward(tokens)
    assert whole.shape == (BATCH, TIME, model.vocab_size)
    state = model.begin(BATCH)
    for time in range(TIME):
        scores, state = model.advance(tokens[:, time], state)
        assert torch.equal(scores, whole[:, time])
        assert state.shape[1] <= max(model.reach, 0)  # what is carried does not grow with what was read


def test_rows_sum_to_one(model, tokens):
    assert torch.allclose(model.forward(tokens).exp().sum(-1), torch.ones(BATCH, TIME, dtype=torch.float64), atol=1e-12)
    # Before anything was read, and after what was never seen.
    for length in (0, 1, 2, 40):
        contexts = np.full((2, length), model.vocab_size - 1)
        assert np.exp(model.log_probabilities(contexts)).sum(-1) == pytest.approx([1, 1], abs=1e-12)


def test_no_peeking_ahead(model, tokens):
    before = model.forward(tokens)
    for time in range(1, TIME):
        changed = tokens.clone()
        changed[:, time:] = (changed[:, time:] + 1) % model.vocab_size
        assert torch.equal(model.forward(changed)[:, :time], before[:, :time])


def test_items_of_a_batch_do_not_meet(model, tokens):
    whole = model.forward(tokens)
    for row in range(BATCH):
        assert torch.equal(model.forward(tokens[row : row + 1])[0], whole[row])


def test_it_looks_no_further_back_than_it_says(model, tokens):
    changed = tokens.clone()
    changed[:, : TIME - model.reach] = (changed[:, : TIME - model.reach] + 1) % model.vocab_size
    if model.has_boundary:
        changed[:, TIME - model.reach - 1 :] = tokens[:, TIME - model.reach - 1 :]
    assert torch.equal(model.forward(changed)[:, -1], model.forward(tokens)[:, -1])


def test_scoring_a_stream_is_reading_off_the_forward_pass(model):
    stream = corpus(model.vocab_size, model.has_boundary, seed=5).tokens
    after = model.forward(torch.from_numpy(stream.astype(np.int64))[None])[0].numpy()
    wanted = after[np.arange(len(stream) - 1), stream[1:]]
    assert model.of_each(stream) == pytest.approx(wanted, abs=1e-12)


def test_sizes_are_told(model):
    assert model.n_stored >= 1
    assert model.n_entries >= 1
    assert math.isfinite(model.n_entries)
