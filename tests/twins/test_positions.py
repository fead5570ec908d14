"""Positions beside their formulas written out slowly, beside numpy and scipy, and beside what they promise."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from tests.at_length import examples
from torch import nn

from pellucid.errors import PellucidError
from pellucid.layers.attention import attention_weights
from pellucid.layers.masks import CAUSAL, EVERYTHING
from pellucid.layers.positions import POSITIONS, build_positions
from pellucid.layers.positions.encodings import (
    ALiBi,
    IndexPositions,
    LearnedPositions,
    Positions,
    RelativeBias,
    RotaryPositions,
    SinusoidalPositions,
    buckets,
    distances,
    resize_grid,
    resize_row,
    rotary_angles,
    rotate,
    sinusoids,
    slopes,
)

LENGTH, WIDTH, N_HEADS = 12, 16, 4


def made(kind: str, is_causal: bool = True) -> Positions:
    torch.manual_seed(0)
    positions = build_positions(kind, length=LENGTH, width=WIDTH, n_heads=N_HEADS, is_causal=is_causal).double()
    for parameter in positions.parameters():
        nn.init.normal_(parameter)
    return positions


def attention(positions: Positions, stream: torch.Tensor, *, is_causal: bool = False) -> torch.Tensor:
    """One plain layer of attention of a stream to itself, with whatever the positions have to give: (time, width)."""
    time = len(stream)
    if (added := positions.embeddings(0, time)) is not None:
        stream = stream + added
    heads = stream.view(time, N_HEADS, -1).transpose(0, 1)  # queries, keys and values: (heads, time, head_width)
    asked = heads if (by := positions.angles(0, time)) is None else rotate(heads, by)
    mask = CAUSAL if is_causal else EVERYTHING
    weights = attention_weights(asked, asked, mask=mask, bias=positions.bias(time, time))
    return (weights @ heads).transpose(0, 1).reshape(time, WIDTH)


def stream_of(time: int) -> torch.Tensor:
    return torch.randn(time, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("kind", POSITIONS)
def test_each_acts_where_it_says_and_nowhere_else(kind):
    positions = made(kind)
    given_to = {
        "input": positions.embeddings(2, 7),
        "queries and keys": positions.angles(2, 7),
        "scores": positions.bias(5, 7),
    }
    assert positions.acts_on in {"nothing", *given_to}
    for place, given_there in given_to.items():
        assert (given_there is not None) == (place == positions.acts_on)
    shapes = {"input": (5, WIDTH), "queries and keys": (5, WIDTH // N_HEADS // 2, 2), "scores": (N_HEADS, 5, 7)}
    if positions.acts_on in shapes:
        assert given_to[positions.acts_on].shape == shapes[positions.acts_on]


@pytest.mark.parametrize("kind", POSITIONS)
def test_only_without_positions_attention_sees_a_set(kind):
    positions, stream = made(kind, is_causal=False), stream_of(LENGTH)
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(2))
    apart = (attention(positions, stream)[order] - attention(positions, stream[order])).abs().max()
    assert apart < 1e-12 if kind == "none" else apart > 1e-2


@pytest.mark.parametrize("kind", ["rotary", "relative", "alibi"])
def test_what_acts_in_attention_knows_distances_alone(kind):
    """Three tokens give the same whether three others stand before them or not, if these cannot be seen."""
    positions = made(kind)
    stream = stream_of(3).view(3, N_HEADS, -1).transpose(0, 1)

    def scores(start: int) -> torch.Tensor:
        by, end = positions.angles(start, start + 3), start + 3
        asked = stream if by is None else rotate(stream, by)
        bias = positions.bias(3, end)
        return asked @ asked.transpose(-2, -1) + (0 if bias is None else bias[..., start:])

    assert torch.allclose(scores(0), scores(7), atol=1e-6)


@pytest.mark.parametrize("kind", ["relative", "alibi"])
def test_the_last_row_of_a_shorter_text_ends_that_of_a_longer_one(kind):
    """What `advance` of the transformer leans on, which asks for the row of the longest text once."""
    positions = made(kind)
    longest = positions.bias(1, LENGTH)
    for time in range(1, LENGTH + 1):
        assert torch.equal(positions.bias(1, time), longest[..., LENGTH - time :])
        assert torch.equal(positions.bias(time, time)[:, -1:], longest[..., LENGTH - time :])


def test_the_sinusoids_are_the_papers():
    found = sinusoids(50, 6)
    for p in range(50):
        for i in range(3):
            angle = p / 10_000 ** (2 * i / 6)
            assert found[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    odd = sinusoids(50, 5)[49]  # two pairs, and a sine without its cosine
    assert odd.shape == (5,)
    assert odd[4].item() == pytest.approx(math.sin(49 / 10_000 ** (4 / 5)), abs=1e-6)
    assert torch.equal(sinusoids(10, 6, start=40), found[40:])


@settings(max_examples=examples(50))
@given(st.integers(0, 400), st.integers(0, 1000))
def test_a_distance_is_one_linear_map_of_the_sinusoids(k, p):
    """PE(p + k) = M_k · PE(p), with M_k made of k alone: 5 → 9 and 105 → 109 are the same map."""
    turn = torch.zeros(8, 8, dtype=torch.float64)
    for i in range(4):
        angle = k / 10_000 ** (2 * i / 8)
        sine, cosine = math.sin(angle), math.cos(angle)
        turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    here, there = sinusoids(1, 8, start=p)[0].double(), sinusoids(1, 8, start=p + k)[0].double()
    assert torch.allclose(turn @ here, there, atol=1e-6)


def test_sinusoids_go_on_past_what_is_kept():
    positions = SinusoidalPositions(length=8, width=6)
    assert torch.equal(positions.embeddings(5, 30), sinusoids(30, 6)[5:])
    assert positions.double().embeddings(5, 30).dtype == torch.float64
    assert sinusoids(100_000, 6, start=900_000).abs().max() <= 1


def test_the_index_drowns_the_token_and_tells_neighbours_badly_apart():
    """512 and 513 after layer norm beside 2 and 3, and what is left of the token there."""
    norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
    tokens, positions = stream_of(2), IndexPositions(WIDTH).double()

    def told_apart(i: int) -> float:
        here, next_to = norm(tokens[:1] + positions.embeddings(i, i + 2))
        return float((here - next_to).norm())

    def left_of_the_token(i: int) -> float:
        one, other = norm(tokens + positions.embeddings(i, i + 1))
        return float((one - other).norm())

    assert told_apart(512) < told_apart(2) / 100
    assert left_of_the_token(512) < left_of_the_token(2) / 20
    waves = SinusoidalPositions(1024, WIDTH).double()
    steps = [float((waves.embeddings(i, i + 1) - waves.embeddings(i + 1, i + 2)).norm()) for i in (2, 512)]
    assert steps[0] == pytest.approx(steps[1], abs=1e-5)  # waves tell neighbours apart as well far out


def test_an_index_added_to_all_numbers_is_lost_in_layer_norm():
    norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
    stream = stream_of(4)
    everywhere = torch.arange(4, dtype=torch.float64)[:, None]
    assert torch.allclose(norm(stream + everywhere), norm(stream), atol=1e-12)
    assert not torch.allclose(norm(stream + made("index").embeddings(0, 4)), norm(stream), atol=1e-1)


@settings(max_examples=examples(50))
@given(old=st.integers(1, 9), new=st.integers(1, 20))
def test_a_resize_row_is_numpys_interpolation(old, new):
    rows = torch.randn(old, 3, generator=torch.Generator().manual_seed(old), dtype=torch.float64)
    places = np.linspace(0, old - 1, new) if new > 1 else [0.0]
    by_numpy = np.stack([np.interp(places, np.arange(old), column) for column in rows.t().numpy()], axis=1)
    assert np.allclose(resize_row(rows, new).numpy(), by_numpy, atol=1e-12)


@settings(max_examples=examples(50))
@given(old=st.tuples(st.integers(2, 6), st.integers(2, 6)), new=st.tuples(st.integers(2, 9), st.integers(2, 9)))
def test_a_resize_grid_is_scipys_zoom(old, new):
    """As the vision transformer's own code does it: scipy's zoom of order 1; the class token's row stays."""
    rows = torch.randn(1 + old[0] * old[1], 3, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    grid = rows[1:].numpy().reshape(*old, 3)
    zoomed = ndimage.zoom(grid, (new[0] / old[0], new[1] / old[1], 1), order=1)
    found = resize_grid(rows, old, new, n_apart=1)
    assert found.shape == (1 + new[0] * new[1], 3)
    assert torch.equal(found[0], rows[0])
    assert np.allclose(found[1:].numpy().reshape(*new, 3), zoomed, atol=1e-10)


def test_resizing_to_the_same_size_changes_nothing_and_passes_gradients():
    rows = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(resize_grid(rows, (3, 3), (3, 3), n_apart=1), rows, atol=1e-12)
    resize_grid(rows, (3, 3), (5, 5), n_apart=1).sum().backward()
    assert (rows.grad > 0).all()
    learned = LearnedPositions(5, 4)
    assert torch.equal(learned.resize(9).embeddings(0, 9)[::2], learned.embeddings(0, 5))


def test_what_cannot_be_resized_is_refused():
    with pytest.raises(PellucidError, match="9 positions came, and a grid of 3 × 3 with 1 apart has 10"):
        resize_grid(torch.zeros(9, 4), (3, 3), (5, 5), n_apart=1)
    with pytest.raises(PellucidError, match="there is no place in 0 × 5"):
        resize_grid(torch.zeros(9, 4), (3, 3), (0, 5))
    with pytest.raises(PellucidError, match="there is no place in 0"):
        resize_row(torch.zeros(9, 4), 0)


@pytest.mark.parametrize("base", [10_000, 100])
def test_rotary_is_the_turn_written_out(base):
    positions = RotaryPositions(length=9, head_width=6, base=base)
    vectors = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0))
    found = rotate(vectors, positions.angles(0, 9))
    for time in range(9):
        for pair in range(3):
            angle = time * base ** (-2 * pair / 6)
            first, second = vectors[1, time, 2 * pair].item(), vectors[1, time, 2 * pair + 1].item()
            assert found[1, time, 2 * pair].item() == pytest.approx(
                first * math.cos(angle) - second * math.sin(angle), abs=1e-5
            )
            assert found[1, time, 2 * pair + 1].item() == pytest.approx(
                first * math.sin(angle) + second * math.cos(angle), abs=1e-5
            )
    assert torch.equal(positions.qkv_angles[:, 0, 0], rotary_angles(9, 6, base))
    assert torch.equal(positions.qkv_angles[:, 1, 0], rotary_angles(9, 6, base))
    assert torch.equal(positions.qkv_angles[:, 2, 0], rotary_angles(1, 6).expand(9, -1, -1))


def test_distances_are_counted_back_from_the_last():
    assert distances(2, 4).tolist() == [[2, 1, 0, -1], [3, 2, 1, 0]]


def t5_bucket(relative: int, is_bidirectional: bool, n_buckets: int, farthest: int) -> int:
    """T5's rule, for one distance: relative is where the key is, less where the query is."""
    bucket = 0
    if is_bidirectional:
        n_buckets //= 2
        bucket = n_buckets if relative > 0 else 0
        relative = abs(relative)
    else:
        relative = max(-relative, 0)
    n_exact = n_buckets // 2
    if relative < n_exact:
        return bucket + relative
    far = n_exact + int(math.log(relative / n_exact) / math.log(farthest / n_exact) * (n_buckets - n_exact))
    return bucket + min(far, n_buckets - 1)


@settings(max_examples=examples(50))
@given(st.booleans(), st.sampled_from([(32, 128), (16, 64), (8, 20)]), st.lists(st.integers(-300, 300), min_size=1))
def test_the_buckets_are_t5s(is_causal, sizes, back):
    n_buckets, farthest = sizes
    found = buckets(torch.tensor(back), is_causal=is_causal, n_buckets=n_buckets, farthest=farthest)
    assert found.tolist() == [t5_bucket(-distance, not is_causal, n_buckets, farthest) for distance in back]


@pytest.mark.parametrize("is_causal", [True, False])
def test_relative_bias_looks_its_bucket_up(is_causal):
    bias = RelativeBias(n_heads=3, is_causal=is_causal)
    assert torch.equal(bias.bias(5, 9), torch.zeros(3, 5, 9))
    nn.init.normal_(bias.table.weight)
    found = bias.bias(200, 200)
    for query, key in ((0, 0), (199, 0), (0, 199), (57, 40), (40, 57)):
        bucket = t5_bucket(key - query, not is_causal, 32, 128)
        assert torch.equal(found[:, query, key], bias.table.weight[bucket])


def papers_slopes(n: int) -> list[float]:
    """As ALiBi's own code computes them."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    closest = 2 ** math.floor(math.log2(n))
    return papers_slopes(closest) + papers_slopes(2 * closest)[0::2][: n - closest]


@pytest.mark.parametrize("n_heads", range(1, 41))
def test_the_slopes_are_alibis(n_heads):
    assert slopes(n_heads).tolist() == pytest.approx(papers_slopes(n_heads), rel=1e-6)


def test_alibi_takes_the_distance_off():
    found = ALiBi(n_heads=8).bias(4, 6)
    for head in range(8):
        for query in range(4):
            for key in range(6):
                assert found[head, query, key] == -(2.0 ** -(head + 1)) * abs(query + 2 - key)
