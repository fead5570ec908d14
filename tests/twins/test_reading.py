"""Reading on by one token gives what reading everything again gives: for every network, past its window too."""

import numpy as np
import pytest
import torch

from pellucid.decoding.beam import beam_search
from pellucid.decoding.sampling import draw_tokens
from pellucid.models.catalogue import networks_for
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import ForwardReading, NeuralReading, scores_after_each

pytestmark = pytest.mark.usefixtures("one_thread")

CARDS = networks_for("list")


def lively(model, seed=0):
    """Weights that have opinions: heads and projections begin at zero, where nothing could go wrong."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * (0.5 if parameter.dim() > 1 else 0.1))
    return model


@pytest.fixture(params=CARDS)
def model(request):
    card = CARDS[request.param]
    return lively(card.build(card.tiny)).double()


@pytest.fixture
def transformer():
    """Holds 16 tokens."""
    card = CARDS["transformer"]
    return lively(card.build(card.tiny)).double()


def tokens(model, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, model.vocab_size, shape)


def compare(model, start, ahead):
    """Both ways side by side: (batch, time) read at once, then (batch, steps) one after another."""
    cached, plain = NeuralReading(model), ForwardReading(model)
    assert np.allclose(cached.read(start), plain.read(start), atol=1e-12)
    for column in ahead.T:
        found = cached.advance(column)
        assert found.shape == (len(start), model.vocab_size)
        assert found.dtype == np.float64
        assert np.allclose(found, plain.advance(column), atol=1e-12)


@pytest.mark.parametrize("n_first", [0, 1, 5, 15, 16, 17, 40])
def test_cached_is_uncached_until_the_edge_and_across_it(model, n_first):
    compare(model, tokens(model, 3, n_first), tokens(model, 3, 40, seed=2))


def test_until_the_edge_it_is_one_long_pass(model):
    row = tokens(model, 2, 16)
    whole = model.for_inference()(torch.from_numpy(row)).detach().numpy()
    reading = NeuralReading(model)
    found = [reading.read(row[:, :3]), *(reading.advance(column) for column in row[:, 3:].T)]
    assert np.allclose(np.stack(found, axis=1), whole[:, 2:], atol=1e-12)


def test_past_the_edge_it_begins_anew_with_the_last_half(transformer):
    row = tokens(transformer, 1, 17 + 8 + 1)
    reading = NeuralReading(transformer)
    reading.read(row[:, :16])
    plain = transformer.for_inference()
    for end in range(17, row.shape[1] + 1):
        began = 9 if end < 26 else 18  # 8 of 17 tokens, then as many more until there are 16; then 8 again
        wanted = plain(torch.from_numpy(row[:, began:end]))[:, -1].detach().numpy()
        assert np.allclose(reading.advance(row[:, end - 1]), wanted, atol=1e-12)


@pytest.mark.parametrize("time", [1, 2, 15, 16, 17, 24, 25, 26, 33, 34, 35, 60])
def test_many_at_once_are_what_one_by_one_gives(model, time):
    row = tokens(model, time)
    reading = NeuralReading(model)
    wanted = [reading.read(row[None, :1])[0], *(reading.advance(token[None])[0] for token in row[1:])]
    found = scores_after_each(model, row)
    assert found.shape == (time, model.vocab_size)
    assert np.allclose(found, wanted, atol=1e-12)


def test_of_a_long_prompt_the_last_tokens_are_read(transformer):
    row = tokens(transformer, 2, 1000)
    assert np.array_equal(NeuralReading(transformer).read(row), NeuralReading(transformer).read(row[:, -16:]))


def test_a_window_of_one_token():
    model = lively(Transformer(TransformerConfig(vocab_size=5, context=1, width=4, depth=1, n_heads=1))).double()
    compare(model, tokens(model, 2, 1), tokens(model, 2, 6, seed=2))
    row = tokens(model, 5)
    assert np.allclose(scores_after_each(model, row), [NeuralReading(model).read(one[None, None])[0] for one in row])


def test_before_the_first_token_nothing_is_known(model):
    assert not NeuralReading(model).read(np.zeros((2, 0), np.int64)).any()
    compare(model, np.zeros((2, 0), np.int64), tokens(model, 2, 3))


def test_rows_are_kept_left_out_and_doubled_on_both_sides_of_the_edge(model):
    cached, plain = NeuralReading(model), ForwardReading(model)
    start = tokens(model, 3, 10)
    cached.read(start), plain.read(start)
    for seed, rows in enumerate([[2, 0], [1, 1, 0], [0], [0] * 4]):
        for reading in (cached, plain):
            reading.keep(np.array(rows))
        for column in tokens(model, 5, len(rows), seed=seed):
            assert np.allclose(cached.advance(column), plain.advance(column), atol=1e-12)


def test_what_is_drawn_is_the_same(model):
    options = {"n_samples": 20, "longest": 40, "start": [0], "stop": 0, "seed": 5}
    cached, plain = draw_tokens(NeuralReading(model), **options), draw_tokens(ForwardReading(model), **options)
    assert [sample.tokens for sample in cached] == [sample.tokens for sample in plain]
    assert [s.log_probability for s in cached] == pytest.approx([s.log_probability for s in plain], abs=1e-10)
    assert len({sample.tokens for sample in cached}) > 1
    best, wanted = (
        beam_search(reading(model), width=3, longest=20, start=[0], stop=0)
        for reading in (NeuralReading, ForwardReading)
    )
    assert [one.drawn.tokens for one in best] == [one.drawn.tokens for one in wanted]


def test_in_double_precision_a_sample_is_the_same_in_any_company(model):
    """1,000 samples together, each also in companies of other sizes.

    A batch of another size may be added up in another order: scores then differ by about 1e-15, and a token where a
    chance lies as close to a border as that, which is once in about 10^14 tokens. Here some 10^4 are drawn.
    """
    options = {"longest": 100, "start": [0], "stop": 0, "seed": 11}
    together = draw_tokens(NeuralReading(model), n_samples=1000, **options)
    for n_samples in (1, 2, 3, 64, 500):
        some = draw_tokens(NeuralReading(model), n_samples=n_samples, **options)
        assert [sample.tokens for sample in some] == [sample.tokens for sample in together[:n_samples]]


def test_single_precision_becomes_double_before_anything_is_decided(transformer):
    found = NeuralReading(transformer.float()).read(np.array([[0]]))
    assert found.dtype == np.float64
    assert np.array_equal(found, found.astype(np.float32))


def test_the_model_stays_as_it_was(model):
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    draw_tokens(NeuralReading(model), n_samples=3, longest=30, start=[0], stop=0)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
