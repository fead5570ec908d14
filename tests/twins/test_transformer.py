"""The transformer's parts beside the same thing written out slowly, and cached reading beside the plain pass."""

import math

import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.layers.attention import attend, attention_weights
from pellucid.layers.positions import turned, turns
from pellucid.models.transformer import Transformer, TransformerConfig, sized


def awakened(config: TransformerConfig, seed: int = 0) -> Transformer:
    """A transformer in float64 whose zero matrices are filled, so that every part matters."""
    torch.manual_seed(seed)
    model = Transformer(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize(("n", "time"), [(1, 1), (1, 7), (7, 7), (3, 7), (40, 40), (1, 40), (5, 70)])
def test_attend_is_the_weighted_average(n, time):
    draw = torch.Generator().manual_seed(n * 100 + time)
    queries, keys, values = (
        torch.randn(2, 3, length, 8, generator=draw, dtype=torch.float64) for length in (n, time, time)
    )
    weights = attention_weights(queries, keys)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, n, dtype=torch.float64))
    assert torch.allclose(attend(queries, keys, values), weights @ values, atol=1e-12)
    for batch, head, query in ((0, 0, 0), (1, 2, n - 1)):  # one query by hand
        seen = time - n + query + 1
        scores = [float(queries[batch, head, query] @ keys[batch, head, key]) / math.sqrt(8) for key in range(seen)]
        total = sum(math.exp(score) for score in scores)
        by_hand = sum(math.exp(s) / total * values[batch, head, key] for key, s in enumerate(scores))
        assert torch.allclose(attend(queries, keys, values)[batch, head, query], by_hand, atol=1e-12)


def test_turning_leaves_only_the_distance():
    draw = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 6, generator=draw, dtype=torch.float64)
    by = turns(50, 6).double()

    def product(i: int, j: int) -> float:
        return float(turned(query[None], by[i : i + 1])[0] @ turned(key[None], by[j : j + 1])[0])

    assert product(7, 3) == pytest.approx(product(44, 40), abs=1e-5)
    assert product(7, 3) != pytest.approx(product(7, 4), abs=1e-2)
    pair = turned(query[None], by[9:10])[0, 2:4]  # the second pair, by sines and cosines
    angle = 9 * 10_000 ** (-2 / 6)
    first, second = query[2:4].tolist()
    assert pair[0].item() == pytest.approx(first * math.cos(angle) - second * math.sin(angle), abs=1e-6)
    assert pair[1].item() == pytest.approx(first * math.sin(angle) + second * math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_reading_in_pieces_gives_the_plain_pass(positions):
    model = awakened(TransformerConfig(11, context=40, width=16, depth=3, n_heads=2, positions=positions))
    tokens = torch.randint(0, 11, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model(tokens)
        scores, state = model.read(tokens[:, :9], model.begin(3))
        assert torch.allclose(scores, whole[:, 8], atol=1e-10)
        for time in range(9, 20):
            scores, state = model.advance(tokens[:, time], state)
            assert torch.allclose(scores, whole[:, time], atol=1e-10)
        scores, state = model.read(tokens[:, 20:40], state)
        assert torch.allclose(scores, whole[:, 39], atol=1e-10)
        with pytest.raises(PellucidError, match="41 tokens came, and this transformer was made for 40"):
            model.advance(tokens[:, 0], state)


def test_kept_rows_read_on_alone():
    model = awakened(TransformerConfig(7, context=8, width=8, depth=2, n_heads=2))
    tokens = torch.randint(0, 7, (4, 8), generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([3, 1, 1])
    with torch.no_grad():
        _, state = model.read(tokens[:, :5], model.begin(4))
        state = model.keep(state, rows)
        for time in range(5, 8):
            scores, state = model.advance(tokens[rows, time], state)
        assert torch.allclose(scores, model(tokens[rows])[:, -1], atol=1e-10)


def test_positions_matter():
    """Without them "ab" then "c" and "ba" then "c" would be one set."""
    for positions in ("rotary", "learned"):
        model = awakened(TransformerConfig(5, context=4, width=8, depth=2, n_heads=2, positions=positions))
        with torch.no_grad():
            one, other = model(torch.tensor([[1, 2, 3], [2, 1, 3]]))[:, -1]
        assert (one - other).abs().max() > 1e-3


def test_a_new_transformer_finds_every_token_as_likely():
    torch.manual_seed(0)
    model = Transformer(sized("small", vocab_size=27, context=16))
    scores = model(torch.randint(0, 27, (2, 16)))
    assert torch.equal(scores, torch.zeros_like(scores))
    assert 40_000 < model.n_parameters < 60_000
    assert 780_000 < Transformer(sized("large", vocab_size=65, context=64)).n_parameters < 820_000


def test_what_cannot_be_built_is_refused():
    with pytest.raises(PellucidError, match=r"width 10 cannot be shared equally by 4 heads .* is 8"):
        TransformerConfig(5, context=4, width=10, depth=1, n_heads=4)
    with pytest.raises(PellucidError, match="a head of 3 numbers has one left over"):
        TransformerConfig(5, context=4, width=6, depth=1, n_heads=2)
    with pytest.raises(PellucidError, match="no absolute positions"):
        TransformerConfig(5, context=4, width=8, depth=1, n_heads=2, positions="absolute")
    with pytest.raises(PellucidError, match="9 tokens came"):
        awakened(TransformerConfig(5, context=8, width=8, depth=1, n_heads=2))(torch.zeros(1, 9, dtype=torch.int64))
