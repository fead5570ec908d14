"""Heads and blocks beside torch's with copied weights: values and gradients, in float64 to 1e-10."""

import math

import pytest
import torch
from torch import nn

from pellucid.errors import PellucidError
from pellucid.layers.attention import AsymmetricAttention, MultiHeadAttention
from pellucid.layers.blocks import (
    DecoderBlock,
    PostNormBlock,
    PostNormDecoderBlock,
    PreNormBlock,
    PreNormDecoderBlock,
)
from pellucid.layers.feed_forward import ActivatedFeedForward, GatedFeedForward, SquaredReLU
from pellucid.layers.masks import CAUSAL, EVERYTHING, Local, PaddingMask
from pellucid.layers.norms import RMSNorm

WIDTH, HEADS = 12, 3
LENGTHS = torch.tensor([7, 4, 1])  # of three examples with seven positions
CLOSE = {"atol": 1e-10, "rtol": 0}


@pytest.fixture(autouse=True)
def in_double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def scattered(module):
    """The module with every parameter drawn anew, so that no bias is zero and no gain one."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def heads_pairs(ours, theirs):
    """Parameters of ours beside torch's, as (ours, torch's)."""
    yield ours.project, theirs.in_proj_weight
    yield ours.shift, theirs.in_proj_bias
    yield from linear_pairs(ours.combine, theirs.out_proj)


def linear_pairs(ours, theirs):
    yield ours.weight, theirs.weight
    yield ours.bias, theirs.bias


def block_pairs(ours, theirs):
    yield from heads_pairs(ours.attention, theirs.self_attn)
    yield from linear_pairs(ours.feed_forward.expand, theirs.linear1)
    yield from linear_pairs(ours.feed_forward.contract, theirs.linear2)
    yield from linear_pairs(ours.attention_norm, theirs.norm1)
    if isinstance(theirs, nn.TransformerEncoderLayer):
        yield from linear_pairs(ours.feed_forward_norm, theirs.norm2)
    else:
        yield from heads_pairs(ours.memory_attention, theirs.multihead_attn)
        yield from linear_pairs(ours.memory_norm, theirs.norm2)
        yield from linear_pairs(ours.feed_forward_norm, theirs.norm3)


def copied(pairs):
    """The pairs once more, ours holding the numbers of theirs; together they are all parameters of both."""
    pairs = list(pairs)
    with torch.no_grad():
        for ours, theirs in pairs:
            ours.copy_(theirs.view_as(ours))
    return pairs


def require_all(ours, theirs, pairs):
    assert {id(one) for one, _ in pairs} == {id(parameter) for parameter in ours.parameters()}
    assert {id(other) for _, other in pairs} == {id(parameter) for parameter in theirs.parameters()}


def require_equal(mine, yours, pairs, inputs):
    """The values, and the gradients of a random combination of them in all parameters and inputs."""
    assert torch.allclose(mine, yours, **CLOSE)
    up = torch.randn_like(mine)
    slopes = torch.autograd.grad(mine, [*(one for one, _ in pairs), *inputs], up)
    wanted = torch.autograd.grad(yours, [*(other for _, other in pairs), *inputs], up)
    assert max(slope.abs().max() for slope in slopes) > 0.1
    for a, b in zip(slopes, wanted, strict=True):
        assert torch.allclose(a, b.view_as(a), **CLOSE)


def streams(n=7, m=5):
    return torch.randn(3, n, WIDTH, requires_grad=True), torch.randn(3, m, WIDTH, requires_grad=True)


def hidden(mask, n, m):
    """torch's form of a mask: True where nothing may be seen; (n, m), the same for all examples."""
    return ~mask.visible((n, m), torch.device("cpu"))


@pytest.mark.parametrize("mask", [EVERYTHING, CAUSAL, Local(2, 1)], ids=str)
@pytest.mark.parametrize("is_padded", [False, True])
def test_self_attention_is_torchs(mask, is_padded):
    ours, theirs = MultiHeadAttention(WIDTH, HEADS), scattered(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    pairs = copied(heads_pairs(ours, theirs))
    require_all(ours, theirs, pairs)
    stream, _ = streams()
    padding = torch.arange(7) >= LENGTHS[:, None] if is_padded else None
    if isinstance(mask, Local) and is_padded:
        padding = torch.arange(7) >= torch.tensor([7, 6, 5])[:, None]  # torch gives nan to queries that see nothing
    seen_by_ours = mask & PaddingMask((~padding).sum(-1)) if padding is not None else mask
    mine = ours(stream, stream, mask=seen_by_ours)
    yours, weights = theirs(
        stream, stream, stream, attn_mask=hidden(mask, 7, 7), key_padding_mask=padding, average_attn_weights=False
    )
    assert torch.allclose(ours.weights(stream, stream, mask=seen_by_ours), weights, **CLOSE)
    require_equal(mine, yours, pairs, [stream])


@pytest.mark.parametrize("is_padded", [False, True])
def test_cross_attention_is_torchs(is_padded):
    ours, theirs = MultiHeadAttention(WIDTH, HEADS), scattered(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    pairs = copied(heads_pairs(ours, theirs))
    stream, memory = streams(n=5, m=7)
    mask, padding = (PaddingMask(LENGTHS), torch.arange(7) >= LENGTHS[:, None]) if is_padded else (EVERYTHING, None)
    yours, weights = theirs(stream, memory, memory, key_padding_mask=padding, average_attn_weights=False)
    assert torch.allclose(ours.weights(stream, memory, mask=mask), weights, **CLOSE)
    require_equal(ours(stream, memory, mask=mask), yours, pairs, [stream, memory])


def test_without_biases_it_is_torchs_too():
    ours = MultiHeadAttention(WIDTH, HEADS, has_bias=False)
    theirs = scattered(nn.MultiheadAttention(WIDTH, HEADS, bias=False, batch_first=True))
    pairs = copied([(ours.project, theirs.in_proj_weight), (ours.combine.weight, theirs.out_proj.weight)])
    require_all(ours, theirs, pairs)
    stream, memory = streams()
    require_equal(ours(stream, memory, mask=EVERYTHING), theirs(stream, memory, memory)[0], pairs, [stream, memory])


def test_a_memory_of_other_widths_is_torchs():
    ours = AsymmetricAttention(
        query_width=WIDTH, key_width=5, value_width=8, n_heads=HEADS, d_k=4, d_v=4, out_width=WIDTH
    )
    theirs = scattered(nn.MultiheadAttention(WIDTH, HEADS, kdim=5, vdim=8, batch_first=True))
    matrices = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
    layers = [ours.queries, ours.keys, ours.values]
    pairs = copied(zip((layer.weight for layer in layers), matrices, strict=True))
    with torch.no_grad():  # torch has the three biases in one row
        for layer, bias in zip(layers, theirs.in_proj_bias.chunk(3), strict=True):
            layer.bias.copy_(bias)
    pairs += copied(linear_pairs(ours.combine, theirs.out_proj))
    stream, (keys_from, values_from) = streams()[0], (torch.randn(3, 6, width) for width in (5, 8))
    yours, weights = theirs(stream, keys_from, values_from, average_attn_weights=False)
    require_equal(ours(stream, keys_from, values_from, mask=EVERYTHING), yours, pairs, [stream])
    assert torch.allclose(ours.weights(stream, keys_from, mask=EVERYTHING), weights, **CLOSE)


def test_heads_may_have_d_and_t_of_their_own():
    attention = AsymmetricAttention(query_width=6, key_width=5, value_width=8, n_heads=2, d_k=3, d_v=7, out_width=6)
    stream, keys_from, values_from = torch.randn(1, 4, 6), torch.randn(1, 5, 5), torch.randn(1, 5, 8)
    weights = attention.weights(stream, keys_from, mask=EVERYTHING)
    values = attention.values(values_from).view(5, 2, 7)
    heads = [weights[0, head] @ values[:, head] for head in range(2)]
    by_hand = attention.combine(torch.cat(heads, dim=-1))
    assert torch.allclose(attention(stream, keys_from, values_from, mask=EVERYTHING)[0], by_hand, atol=1e-12)


def test_the_widths_of_the_formulas_give_an_output_of_width_t():
    """Q: d × n, K: d × m, V: t × m in columns; d_k = d / h, d_v = t / h and W_O: t × t, each head by its formula."""
    d, t, h, n, m = 6, 10, 2, 3, 5
    attention = AsymmetricAttention(
        query_width=d, key_width=d, value_width=t, n_heads=h, d_k=d // h, d_v=t // h, out_width=t, has_bias=False
    )
    q, k, v = torch.randn(d, n), torch.randn(d, m), torch.randn(t, m)
    heads = []
    for i in range(h):
        to_q, to_k = (layer.weight[i * 3 : i * 3 + 3] for layer in (attention.queries, attention.keys))
        to_v = attention.values.weight[i * 5 : i * 5 + 5]
        scores = (to_k @ k).T @ (to_q @ q) / math.sqrt(d // h)  # m × n
        heads.append((to_v @ v) @ (scores.exp() / scores.exp().sum(0)))  # d_v × n
    by_hand = attention.combine.weight @ torch.cat(heads)
    assert by_hand.shape == (t, n)
    assert torch.allclose(attention(q.T[None], k.T[None], v.T[None], mask=EVERYTHING)[0].T, by_hand, atol=1e-12)


@pytest.mark.parametrize("mask", [EVERYTHING, CAUSAL], ids=str)
def test_without_an_output_projection_heads_stand_side_by_side(mask):
    """Beside torch's with the identity for W_O, and beside heads of their own, one by one."""
    ours = MultiHeadAttention(WIDTH, HEADS, has_output=False)
    theirs = scattered(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    with torch.no_grad():
        theirs.out_proj.weight.copy_(torch.eye(WIDTH))
        theirs.out_proj.bias.zero_()
    pairs = copied([(ours.project, theirs.in_proj_weight), (ours.shift, theirs.in_proj_bias)])
    assert sum(parameter.numel() for parameter in ours.parameters()) == 3 * WIDTH * (WIDTH + 1)
    stream, _ = streams()
    yours, _ = theirs(stream, stream, stream, attn_mask=hidden(mask, 7, 7))
    require_equal(ours(stream, stream, mask=mask), yours, pairs, [stream])
    d = WIDTH // HEADS
    alone = []
    for head in range(HEADS):
        one = AsymmetricAttention(
            query_width=WIDTH, key_width=WIDTH, value_width=WIDTH, n_heads=1, d_k=d, d_v=d, out_width=None
        )
        rows = slice(head * d, head * d + d)
        with torch.no_grad():
            for part, layer in enumerate((one.queries, one.keys, one.values)):
                layer.weight.copy_(ours.project[part, rows])
                layer.bias.copy_(ours.shift.view(3, WIDTH)[part, rows])
        alone.append(one(stream, stream, stream, mask=mask))
    assert torch.allclose(ours(stream, stream, mask=mask), torch.cat(alone, dim=-1), **CLOSE)


def test_dropout_of_weights_is_torchs_and_only_in_training():
    ours = MultiHeadAttention(WIDTH, HEADS, dropout=0.3)
    theirs = scattered(nn.MultiheadAttention(WIDTH, HEADS, dropout=0.3, batch_first=True))
    copied(heads_pairs(ours, theirs))
    stream, _ = streams()
    torch.manual_seed(4)
    mine = ours(stream, stream, mask=EVERYTHING)
    torch.manual_seed(4)
    yours, _ = theirs(stream, stream, stream, need_weights=False)
    assert torch.allclose(mine, yours, **CLOSE)
    ours.eval(), theirs.eval()
    evaluated = ours(stream, stream, mask=EVERYTHING)
    assert not torch.allclose(mine, evaluated, atol=1e-3)
    assert torch.allclose(evaluated, theirs(stream, stream, stream)[0], **CLOSE)


@pytest.mark.parametrize("is_pre", [True, False])
def test_attention_dropout_reaches_the_attention_of_a_block(is_pre):
    kinds = (PreNormBlock, PreNormDecoderBlock) if is_pre else (PostNormBlock, PostNormDecoderBlock)
    stream, memory = streams()
    for kind in kinds:
        block = kind(WIDTH, HEADS, feed_forward=nn.Identity(), attention_dropout=0.5)
        inputs = (stream, memory) if isinstance(block, DecoderBlock) else (stream,)
        assert not torch.allclose(block(*inputs), block(*inputs), atol=1e-3)
        block.eval()
        assert torch.equal(block(*inputs), block(*inputs))


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


def encoder_twins(name, is_pre, dropout=0.0):
    feed_forward = ActivatedFeedForward(WIDTH, ACTIVATIONS[name](), dropout=dropout)
    kind = PreNormBlock if is_pre else PostNormBlock
    ours = kind(WIDTH, HEADS, feed_forward=feed_forward, dropout=dropout)
    theirs = scattered(
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=dropout, activation=name, batch_first=True, norm_first=is_pre
        )
    )
    return ours, theirs, copied(block_pairs(ours, theirs))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("is_pre", [True, False])
@pytest.mark.parametrize("mask", [EVERYTHING, CAUSAL, PaddingMask(LENGTHS)], ids=["everything", "causal", "padding"])
def test_an_encoder_block_is_torchs(name, is_pre, mask):
    ours, theirs, pairs = encoder_twins(name, is_pre)
    require_all(ours, theirs, pairs)
    stream, _ = streams()
    if isinstance(mask, PaddingMask):
        yours = theirs(stream, src_key_padding_mask=torch.arange(7) >= LENGTHS[:, None])
    else:
        yours = theirs(stream, src_mask=hidden(mask, 7, 7))
    require_equal(ours(stream, mask=mask), yours, pairs, [stream])


@pytest.mark.parametrize("is_pre", [True, False])
def test_evaluated_with_dropout_it_is_torchs_fast_path(is_pre):
    ours, theirs, _ = encoder_twins("relu", is_pre, dropout=0.3)
    stream, _ = streams()
    with torch.no_grad():
        assert torch.allclose(ours.eval()(stream), theirs.eval()(stream), **CLOSE)
        assert not torch.allclose(ours.train()(stream), ours(stream), atol=1e-3)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("is_pre", [True, False])
@pytest.mark.parametrize("is_padded", [False, True])
def test_a_decoder_block_is_torchs(name, is_pre, is_padded):
    kind = PreNormDecoderBlock if is_pre else PostNormDecoderBlock
    ours = kind(WIDTH, HEADS, feed_forward=ActivatedFeedForward(WIDTH, ACTIVATIONS[name]()))
    theirs = scattered(
        nn.TransformerDecoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation=name, batch_first=True, norm_first=is_pre
        )
    )
    pairs = copied(block_pairs(ours, theirs))
    require_all(ours, theirs, pairs)
    stream, memory = streams(n=6, m=7)
    mask, padding = (PaddingMask(LENGTHS), torch.arange(7) >= LENGTHS[:, None]) if is_padded else (EVERYTHING, None)
    yours = theirs(stream, memory, tgt_mask=hidden(CAUSAL, 6, 6), memory_key_padding_mask=padding)
    require_equal(ours(stream, memory, memory_mask=mask), yours, pairs, [stream, memory])


@pytest.mark.parametrize("kind", [PreNormDecoderBlock, PostNormDecoderBlock])
def test_a_decoder_blocks_weights_are_those_it_used(kind):
    block = scattered(kind(WIDTH, HEADS, feed_forward=ActivatedFeedForward(WIDTH, nn.ReLU())))
    stream, memory = streams(n=6, m=7)
    mask = PaddingMask(LENGTHS)
    seen = {}

    def note(name):  # what attention was asked with, whatever the block did before it
        def hook(_, args, options):
            seen[name] = (args, options)

        return hook

    block.attention.register_forward_pre_hook(note("own"), with_kwargs=True)
    weights = block.weights(stream, memory, memory_mask=mask)
    args, options = seen["own"]
    assert torch.equal(weights.own, block.attention.weights(*args, **options))
    assert (weights.own.triu(1) == 0).all()
    assert torch.allclose(weights.memory.sum(-1), torch.ones(3, HEADS, 6))
    assert (weights.memory[2, :, :, 1:] == 0).all()
    # Values that differ in one position only tell how much of it was taken.
    attention = block.memory_attention
    mixed = {}
    attention.combine.register_forward_pre_hook(lambda _, args: mixed.update(heads=args[0]))
    block(stream, memory, memory_mask=mask)
    _, values = attention.project_memory(memory)
    assert torch.allclose(mixed["heads"], (weights.memory @ values).transpose(1, 2).flatten(2), atol=1e-12)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU(), SquaredReLU(), nn.SiLU()], ids=lambda a: type(a).__name__)
def test_feed_forward_is_its_formula(activation):
    x = torch.randn(2, 3, WIDTH)
    plain, gated = ActivatedFeedForward(WIDTH, activation), GatedFeedForward(WIDTH, activation)
    bent = activation(x @ plain.expand.weight.T + plain.expand.bias)
    assert bent.shape[-1] == 4 * WIDTH
    assert torch.allclose(plain(x), bent @ plain.contract.weight.T + plain.contract.bias, atol=1e-12)
    bent = activation(x @ gated.gate.weight.T) * (x @ gated.expand.weight.T)
    assert torch.allclose(gated(x), bent @ gated.contract.weight.T, atol=1e-12)


@pytest.mark.parametrize("kind", [PreNormBlock, PostNormBlock])
def test_any_norm_and_feed_forward_fit_into_a_block(kind):
    block = kind(WIDTH, HEADS, feed_forward=GatedFeedForward(WIDTH, nn.SiLU()), norm=RMSNorm)
    out = block(torch.randn(2, 5, WIDTH))
    out.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in block.parameters())


def test_heads_that_cannot_share_the_width_are_refused():
    with pytest.raises(PellucidError, match=r"width 10 cannot be shared equally by 4 heads .* is 8"):
        MultiHeadAttention(10, 4)
