"""Attention fused beside written out beside loops; masks beside their definitions; laws of the weights."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from torch.nn import functional

from pellucid import layers
from pellucid.errors import PellucidError
from pellucid.layers.attention import MultiHeadAttention, attend, attend_columns, attention_weights, inverse_root
from pellucid.layers.masks import CAUSAL, EVERYTHING, BooleanMask, Local, PaddingMask
from pellucid.layers.softargmax import GumbelSoftmax, hardargmax, softargmax, straight_through

CPU = torch.device("cpu")


def drawn(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def three(leading, n, m, d, t, seed=0):
    """Queries, keys and values."""
    return drawn(*leading, n, d, seed=seed), drawn(*leading, m, d, seed=seed + 1), drawn(*leading, m, t, seed=seed + 2)


def by_loops(queries, keys, values, *, beta, may_see, bias, temperature):
    """One row of queries, number by number, as the formulas say."""
    gathered = []
    for i, query in enumerate(queries.tolist()):
        seen = [j for j in range(len(keys)) if may_see(i, j)]
        scores = [beta * math.fsum(a * b for a, b in zip(query, keys[j].tolist(), strict=True)) for j in seen]
        scores = [(score + float(bias[i, j])) / temperature for j, score in zip(seen, scores, strict=True)]
        weights = special.softmax(scores) if seen else []
        gathered.append(
            np.sum([weight * values[j].numpy() for j, weight in zip(seen, weights, strict=True)], axis=0)
            if seen
            else np.zeros(values.shape[-1])
        )
    return torch.tensor(np.array(gathered))


# Each mask by its definition: may query i of n see key j of m?
DEFINED = {
    "everything": (EVERYTHING, lambda i, j, n, m: True),
    "causal": (CAUSAL, lambda i, j, n, m: j <= m - n + i),
    "local": (Local(2, 1), lambda i, j, n, m: -2 <= j - (m - n + i) <= 1),
    "causal band": (Local(2, 0), lambda i, j, n, m: -2 <= j - (m - n + i) <= 0),
    "only itself": (Local(0, 0), lambda i, j, n, m: j == m - n + i),
    "wide band": (Local(99, 99), lambda i, j, n, m: True),
    "padding": (PaddingMask(torch.tensor([3])), lambda i, j, n, m: j < 3),
    "causal & padding": (CAUSAL & PaddingMask(torch.tensor([3])), lambda i, j, n, m: j <= m - n + i and j < 3),
    "everything & causal": (EVERYTHING & CAUSAL, lambda i, j, n, m: j <= m - n + i),
    "local & everything": (Local(1, 1) & EVERYTHING, lambda i, j, n, m: abs(j - (m - n + i)) <= 1),
    "nothing": (PaddingMask(torch.tensor([0])), lambda i, j, n, m: False),
    "band before padding": (
        Local(1, 0) & PaddingMask(torch.tensor([3])),
        lambda i, j, n, m: 0 <= m - n + i - j <= 1 and j < 3,
    ),
}
SIZES = [(1, 1), (1, 6), (6, 6), (3, 6)]


@pytest.mark.parametrize("name", DEFINED)
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_masks_are_their_definitions(name, n, m):
    mask, may_see = DEFINED[name]
    wanted = torch.tensor([[may_see(i, j, n, m) for j in range(m)] for i in range(n)])
    seen = mask.visible((1, 2, n, m), CPU).expand(1, 2, n, m)
    assert torch.equal(seen[0, 1], wanted)
    assert not mask.hides_nothing(n, m) or wanted.all()
    added = mask.additive((1, 2, n, m), torch.zeros(())).expand(1, 2, n, m)[0, 0]
    assert torch.equal(added == 0, wanted)
    assert torch.equal(added == -math.inf, ~wanted)


@pytest.mark.parametrize("name", DEFINED)
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_fused_is_written_out_is_the_loop(name, n, m, has_bias):
    mask, may_see = DEFINED[name]
    queries, keys, values = three((1, 2), n, m, d=4, t=4)
    bias = drawn(2, n, m, seed=9)
    for scale, temperature in ((inverse_root, 1.0), (0.3, 2.5), (0.0, 1.0), (-1.0, 0.5)):
        options = {"scale": scale, "mask": mask, "temperature": temperature, "bias": bias if has_bias else None}
        fused = attend(queries, keys, values, **options)
        written = attention_weights(queries, keys, **options) @ values
        assert torch.allclose(fused, written, atol=1e-12, rtol=0)
        for head in range(2):
            wanted = by_loops(
                *(each[0, head] for each in (queries, keys, values)),
                beta=0.5 if scale is inverse_root else scale,
                may_see=lambda i, j: may_see(i, j, n, m),
                bias=bias[head] if has_bias else torch.zeros(n, m),
                temperature=temperature,
            )
            assert torch.allclose(fused[0, head], wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize(("d", "t"), [(4, 4), (3, 7), (8, 1)])
@pytest.mark.parametrize(
    "mask", [EVERYTHING, CAUSAL, Local(1, 2), BooleanMask(torch.tensor([[True], [False], [True]]))], ids=str
)
def test_gradients_are_those_of_the_formula(leading, d, t, mask):
    """In queries, keys, values and bias, also of queries that see nothing: nan would spread from there."""
    inputs = [each.requires_grad_() for each in three(leading, 3, 5, d, t)]
    bias = drawn(3, 5, seed=9).requires_grad_()
    up = drawn(*leading, 3, t, seed=10)
    fused = attend(*inputs, mask=mask, bias=bias, temperature=0.7)
    written = attention_weights(*inputs[:2], mask=mask, bias=bias, temperature=0.7) @ inputs[2]
    assert torch.allclose(fused, written, atol=1e-12, rtol=0)
    slopes = torch.autograd.grad(fused, [*inputs, bias], up)
    wanted = torch.autograd.grad(written, [*inputs, bias], up)
    for a, b in zip(slopes, wanted, strict=True):
        assert a.isfinite().all()
        assert torch.allclose(a, b, atol=1e-11, rtol=0)


def test_each_example_has_its_own_padding_with_and_without_heads():
    lengths = torch.tensor([4, 0, 2])
    for leading in ((3,), (3, 2)):
        queries, keys, values = three(leading, 5, 4, d=4, t=4)
        together = attend(queries, keys, values, mask=PaddingMask(lengths))
        for row, length in enumerate(lengths.tolist()):
            alone = attend(queries[row], keys[row, ..., :length, :], values[row, ..., :length, :], mask=EVERYTHING)
            assert torch.allclose(together[row], alone, atol=1e-12)
    assert torch.equal(together[1], torch.zeros_like(together[1]))


def test_the_causal_mask_is_minus_infinity_above_the_diagonal():
    for n, m in SIZES:
        assert torch.equal(CAUSAL.additive((n, m), torch.zeros(())), torch.full((n, m), -math.inf).triu(m - n + 1))


def test_what_cannot_be_asked_is_refused():
    queries, keys, values = three((), 5, 3, d=4, t=4)
    with pytest.raises(PellucidError, match="5 queries cannot be the last of 3 positions"):
        attend(queries, keys, values)
    with pytest.raises(PellucidError, match="a temperature of 0 came"):
        attend(queries, keys, values, mask=EVERYTHING, temperature=0.0)
    with pytest.raises(PellucidError, match="a band of -1 positions before"):
        Local(-1, 0)
    # By itself torch's fused kernel takes such values, and passes over the third key.
    for choose in (softargmax, hardargmax):
        with pytest.raises(PellucidError, match="3 keys came with 2 values"):
            attend(queries, keys, values[:2], mask=EVERYTHING, choose=choose)


def test_heads_have_the_scale_that_they_are_given():
    attention = MultiHeadAttention(8, n_heads=2, scale=1.0)
    usual = MultiHeadAttention(8, n_heads=2)
    usual.load_state_dict(attention.state_dict())
    stream = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        unscaled = attention(stream, stream, mask=CAUSAL)
        assert not torch.allclose(usual(stream, stream, mask=CAUSAL), unscaled)
        keys, values = attention.project_memory(stream)
        assert torch.allclose(attention.recall(stream, keys, values, mask=CAUSAL), unscaled, atol=1e-6)
        assert torch.allclose(attention.advance(stream, attention.cache(1, longest=5)), unscaled, atol=1e-6)
        usual.project[0] *= 2.0  # √4: heads are 4 wide
        assert usual.shift is not None
        assert not usual.shift.any()
        assert torch.allclose(usual(stream, stream, mask=CAUSAL), unscaled, atol=1e-6)
        weights = usual.weights(stream, stream, mask=CAUSAL)
        assert torch.allclose(attention.weights(stream, stream, mask=CAUSAL), weights, atol=1e-6)


sizes = st.integers(1, 6)
seeds = st.integers(0, 2**31)
masks = st.sampled_from([EVERYTHING, CAUSAL, Local(1, 0), Local(0, 2)])


@settings(max_examples=25)
@given(n=sizes, more=st.integers(0, 4), d=sizes, seed=seeds, mask=masks, temperature=st.floats(0.05, 20))
def test_rows_of_weights_sum_to_one_and_hold_nothing_hidden(n, more, d, seed, mask, temperature):
    queries, keys, _ = three((2,), n, n + more, d, 1, seed=seed)
    for choose in (softargmax, hardargmax, straight_through, GumbelSoftmax(), GumbelSoftmax(is_hard=True)):
        weights = attention_weights(queries, keys, mask=mask, temperature=temperature, choose=choose)
        assert torch.allclose(weights.sum(-1), torch.ones(2, n, dtype=torch.float64), atol=1e-12)
        assert (weights >= 0).all()
        assert (weights[:, ~mask.visible((n, n + more), CPU)] == 0).all()


@settings(max_examples=25)
@given(n=sizes, m=sizes, d=sizes, t=sizes, seed=seeds, order=st.randoms(use_true_random=False))
def test_without_mask_and_positions_it_sees_a_set(n, m, d, t, seed, order):
    """Other order of the queries: the same order of what they gather. Other order of the keys: no other answer."""
    queries, keys, values = three((), n, m, d, t, seed=seed)
    asked, told = order.sample(range(n), n), order.sample(range(m), m)
    plain = attend(queries, keys, values, mask=EVERYTHING)
    assert torch.allclose(attend(queries[asked], keys[told], values[told], mask=EVERYTHING), plain[asked], atol=1e-12)


@settings(max_examples=25)
@given(n=st.integers(2, 6), d=sizes, seed=seeds, cut=st.integers(1, 5))
def test_causal_does_not_peek(n, d, seed, cut):
    queries, keys, values = three((2,), n, n, d, d, seed=seed)
    cut = min(cut, n - 1)
    before = attend(queries, keys, values)
    for each in (queries, keys, values):
        each[:, cut:] = 7 - 3 * each[:, cut:]
    after = attend(queries, keys, values)
    assert torch.equal(before[:, :cut], after[:, :cut])
    assert not torch.allclose(before[:, cut:], after[:, cut:])


@settings(max_examples=25)
@given(n=sizes, more=st.integers(0, 4), seed=seeds, mask=masks, n_values=st.integers(1, 3))
def test_hard_is_the_limit_of_small_temperature(n, more, seed, mask, n_values):
    """Whole numbers, so that scores tie often and differ by at least one where they differ: e^-1000 is left over."""
    chance = torch.Generator().manual_seed(seed)
    queries, keys = (torch.randint(0, n_values + 1, (length, 2), generator=chance).double() for length in (n, n + more))
    values = drawn(n + more, 3, seed=seed)
    hard = attend(queries, keys, values, scale=1.0, mask=mask, choose=hardargmax)
    assert torch.allclose(hard, attend(queries, keys, values, scale=1.0, mask=mask, temperature=1e-3), atol=1e-12)
    assert torch.allclose(hard, attend(queries, keys, values, scale=1e3, mask=mask), atol=1e-12)
    weights = attention_weights(queries, keys, scale=1.0, mask=mask, choose=hardargmax)
    scores = (queries @ keys.T).masked_fill(~mask.visible((n, n + more), CPU), -math.inf)
    for row in range(n):
        best = [j for j, score in enumerate(scores[row].tolist()) if score == max(scores[row].tolist())]
        wanted = [1 / len(best) if j in best else 0.0 for j in range(n + more)]
        assert weights[row].tolist() == pytest.approx(wanted, abs=1e-15)


@settings(max_examples=25)
@given(n=sizes, more=st.integers(0, 4), d=sizes, seed=seeds)
def test_scale_zero_is_the_mean_of_what_may_be_seen(n, more, d, seed):
    queries, keys, values = three((2,), n, n + more, d, 3, seed=seed)
    means = torch.stack([values[:, : more + i + 1].mean(1) for i in range(n)], dim=1)
    assert torch.allclose(attend(queries, keys, values, scale=0.0), means, atol=1e-12)
    everyones = values.mean(1, keepdim=True).expand(-1, n, -1)
    assert torch.allclose(attend(queries, keys, values, scale=0.0, mask=EVERYTHING), everyones, atol=1e-12)
    hot = attend(queries, keys, values, mask=EVERYTHING, temperature=1e12)
    assert torch.allclose(hot, everyones, atol=1e-9)


# Columns


@pytest.mark.parametrize("name", ["everything", "causal", "local", "causal & padding"])
@pytest.mark.parametrize(("n", "m"), [(6, 6), (3, 6)])
def test_columns_are_rows_transposed_and_the_loop(name, n, m):
    mask, may_see = DEFINED[name]
    queries, keys, values = three((1,), n, m, d=4, t=3)
    for scale, beta in ((inverse_root, 0.5), (0.3, 0.3), (0.0, 0.0)):
        scores, weights, outputs = attend_columns(queries.mT, keys.mT, values.mT, scale=scale, mask=mask)
        assert scores.shape == weights.shape == (1, m, n)
        assert torch.allclose(scores, torch.einsum("bnd,bmd->bmn", queries, keys), atol=1e-12)
        assert torch.allclose(weights.sum(-2), torch.ones(1, n, dtype=torch.float64))
        assert torch.allclose(weights.mT, attention_weights(queries, keys, scale=scale, mask=mask), atol=1e-12)
        wanted = by_loops(
            queries[0],
            keys[0],
            values[0],
            beta=beta,
            may_see=lambda i, j: may_see(i, j, n, m),
            bias=torch.zeros(n, m),
            temperature=1.0,
        )
        assert torch.allclose(outputs[0], wanted.T, atol=1e-12)


# Hard, straight-through, drawn


def test_straight_through_is_hard_forwards_and_soft_backwards():
    scores = drawn(5, 7, seed=3).requires_grad_()
    up = drawn(5, 7, seed=4)
    for temperature in (0.5, 2.0):
        weights = straight_through(scores, temperature)
        assert torch.equal(weights, hardargmax(scores))
        (slope,) = torch.autograd.grad(weights, scores, up)
        (wanted,) = torch.autograd.grad((scores / temperature).softmax(-1), scores, up)
        assert torch.allclose(slope, wanted, atol=1e-14)
    assert not hardargmax(scores).requires_grad, "nothing is learned through the best key"


@pytest.mark.parametrize("is_hard", [False, True])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_gumbel_draw_is_torchs(is_hard, temperature):
    """The same seed draws the same noise; values and gradients."""
    mine, yours = (drawn(4, 6, seed=2).requires_grad_() for _ in range(2))
    got = GumbelSoftmax(is_hard=is_hard, rng=torch.Generator().manual_seed(9))(mine, temperature)
    torch.manual_seed(9)
    wanted = functional.gumbel_softmax(yours, tau=temperature, hard=is_hard)
    assert torch.allclose(got, wanted, atol=1e-15)
    up = drawn(4, 6, seed=5)
    assert torch.allclose(torch.autograd.grad(got, mine, up)[0], torch.autograd.grad(wanted, yours, up)[0], atol=1e-15)


def test_a_hard_gumbel_draw_takes_each_key_as_often_as_softargmax_says():
    """20,000 draws; that chi-square rejects what is true has odds of one in a million, and the seed is fixed."""
    scores = torch.tensor([1.5, -0.5, 0.0, -math.inf, 0.7], dtype=torch.float64)
    picked = GumbelSoftmax(is_hard=True, rng=torch.Generator().manual_seed(1))(scores.expand(20_000, 5), 0.5)
    counts = picked.sum(0)
    assert counts[3] == 0
    wanted = 20_000 * special.softmax(scores.numpy())
    seen = [0, 1, 2, 4]
    assert stats.chisquare(counts.numpy()[seen], wanted[seen]).pvalue > 1e-6


def test_a_choice_passes_through_attention_with_its_mask_and_temperature():
    queries, keys, values = three((2,), 4, 4, d=3, t=5)
    scores = (queries @ keys.mT / math.sqrt(3)).masked_fill(~CAUSAL.visible((4, 4), CPU), -math.inf)
    for temperature in (0.5, 2.0):
        torch.manual_seed(1)
        got = attend(queries, keys, values, temperature=temperature, choose=GumbelSoftmax())
        torch.manual_seed(1)
        assert torch.allclose(got, functional.gumbel_softmax(scores, tau=temperature) @ values, atol=1e-12)


# Dropout of the weights


@pytest.mark.parametrize("choose", [softargmax, hardargmax], ids=["soft", "hard"])
def test_dropout_is_that_of_the_weights(choose):
    queries, keys, values = three((2, 2), 5, 5, d=4, t=4)
    torch.manual_seed(7)
    got = attend(queries, keys, values, choose=choose, dropout=0.4)
    weights = attention_weights(queries, keys, choose=choose)
    torch.manual_seed(7)
    assert torch.allclose(got, functional.dropout(weights, 0.4) @ values, atol=1e-12)
    assert not torch.allclose(got, weights @ values, atol=1e-3)


# Examples

OF_ATTENTION = (
    "attention",
    "softargmax",
    "masks",
    "kv_cache",
    "blocks",
    "feed_forward",
    "norms",
    "positions/encodings",
)


@pytest.mark.parametrize("name", OF_ATTENTION)
def test_whatever_attention_is_made_of_has_an_example(name):
    """Each example is run as a doctest; what has none would never be."""
    file = Path(layers.__file__).parent / f"{name}.py"
    public = [
        part
        for part in ast.parse(file.read_text()).body
        if isinstance(part, ast.ClassDef | ast.FunctionDef) and not part.name.startswith("_")
    ]
    assert public
    assert [part.name for part in public if ">>>" not in (ast.get_docstring(part) or "")] == []
