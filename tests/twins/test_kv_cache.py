"""Reading on with a cache beside the full pass, at every position, token by token and in pieces."""

import pytest
import torch
from torch import nn

from pellucid.errors import PellucidError
from pellucid.layers.blocks import PostNormBlock, PostNormDecoderBlock, PreNormBlock, PreNormDecoderBlock
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.kv_cache import KeyValueCache, RingCache
from pellucid.layers.masks import CAUSAL, EVERYTHING, Local, PaddingMask
from pellucid.layers.positions.encodings import ALiBi, RotaryPositions

WIDTH, HEADS, TIME, BEFORE = 12, 3, 23, 4
FORMATS = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
PIECES = [[1] * TIME, [TIME], [3, 1, 1, 8, 1, 5, 4], [1, 2, 20], [BEFORE, 1, BEFORE + 1, 1, 12]]


def built(kind, dtype):
    torch.manual_seed(1)
    block = kind(WIDTH, HEADS, feed_forward=ActivatedFeedForward(WIDTH, nn.GELU())).to(dtype).eval()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    return block


def drawn(dtype, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)


def cache_and_mask(block, way, batch):
    if way == "all":
        return block.attention.cache(batch, longest=TIME), CAUSAL
    return block.attention.ring(batch, before=BEFORE), Local(BEFORE, after=0)


@FORMATS
@pytest.mark.parametrize("pieces", PIECES, ids=str)
@pytest.mark.parametrize("way", ["all", "ring"])
@pytest.mark.parametrize("kind", [PreNormBlock, PostNormBlock])
@torch.no_grad()
def test_a_block_reads_on_as_in_the_full_pass(kind, way, pieces, dtype, tolerance):
    block, stream = built(kind, dtype), drawn(dtype, 2, TIME, WIDTH)
    cache, mask = cache_and_mask(block, way, batch=2)
    whole = block(stream, mask=mask)
    read = torch.cat([block.advance(piece, cache) for piece in stream.split(pieces, dim=1)], dim=1)
    assert (read - whole).abs().max() < tolerance
    assert cache.read == TIME


@pytest.mark.parametrize("pieces", PIECES[:3], ids=str)
@pytest.mark.parametrize("way", ["all", "ring"])
@torch.no_grad()
def test_positions_read_on_as_in_the_full_pass(way, pieces):
    block, stream = built(PreNormBlock, torch.float64), drawn(torch.float64, 2, TIME, WIDTH)
    rotary, alibi = RotaryPositions(TIME, WIDTH // HEADS), ALiBi(HEADS)
    for is_turned in (True, False):
        cache, mask = cache_and_mask(block, way, batch=2)

        def places(start, end, seen, is_turned=is_turned):
            if is_turned:
                return {"angles": rotary.angles(start, end).double()}
            return {"bias": alibi.bias(end - start, seen).double()}

        whole = block(stream, mask=mask, **places(0, TIME, TIME))
        assert (whole - block(stream, mask=mask)).abs().max() > 1e-2
        for piece in stream.split(pieces, dim=1):
            start, end = cache.read, cache.read + piece.shape[1]
            seen = end if way == "all" else min(start, BEFORE) + end - start
            read = block.advance(piece, cache, **places(start, end, seen))
            assert (read - whole[:, start:end]).abs().max() < 1e-12


@FORMATS
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("way", ["all", "ring"])
@pytest.mark.parametrize("kind", [PreNormDecoderBlock, PostNormDecoderBlock])
@torch.no_grad()
def test_a_decoder_block_reads_on_as_in_the_full_pass(kind, way, is_padded, dtype, tolerance):
    block, stream, memory = built(kind, dtype), drawn(dtype, 3, TIME, WIDTH), drawn(dtype, 3, 7, WIDTH)
    own, mask = cache_and_mask(block, way, batch=3)
    memory_mask = PaddingMask(torch.tensor([7, 2, 4])) if is_padded else EVERYTHING
    whole = block(stream, memory, mask=mask, memory_mask=memory_mask)
    state = block.begin(memory, own, memory_mask=memory_mask)
    for start, piece in enumerate(stream.split(1, dim=1)):
        read = block.advance(piece, state)
        assert (read - whole[:, start : start + 1]).abs().max() < tolerance


@pytest.mark.parametrize("way", ["all", "ring"])
@torch.no_grad()
def test_kept_rows_read_on_alone(way):
    block = built(PreNormDecoderBlock, torch.float64)
    stream, memory = drawn(torch.float64, 3, TIME, WIDTH), drawn(torch.float64, 3, 7, WIDTH)
    own, mask = cache_and_mask(block, way, batch=3)
    padding = PaddingMask(torch.tensor([7, 2, 4]))
    state, rows = block.begin(memory, own, memory_mask=padding), torch.tensor([2, 0, 2, 1])
    block.advance(stream[:, :9], state)
    kept = state.keep(rows)
    whole = block(stream, memory, mask=mask, memory_mask=padding)
    changed = stream.flip(1)
    for time in range(9, TIME):
        block.advance(changed[:, [time]], state)  # the rows left behind go their own way
        read = block.advance(stream[rows, time : time + 1], kept)
        assert (read - whole[rows, time : time + 1]).abs().max() < 1e-12


def test_the_room_does_not_grow():
    ring = RingCache(batch=1, n_heads=1, before=3, key_width=2, value_width=5, like=torch.zeros(()))
    room = ring.keys.data_ptr(), ring.keys.numel(), ring.values.data_ptr(), ring.values.numel()
    for position in range(50):
        keys, values = ring.append(torch.full((1, 1, 1, 2), float(position)), torch.full((1, 1, 1, 5), float(position)))
        wanted = torch.arange(max(0, position - 3), position + 1.0)
        assert torch.equal(keys[0, 0, :, 0], wanted)
        assert torch.equal(values[0, 0, :, 4], wanted)
    assert room == (ring.keys.data_ptr(), ring.keys.numel(), ring.values.data_ptr(), ring.values.numel())


def test_more_than_there_is_room_for_is_refused():
    cache = KeyValueCache(batch=1, n_heads=1, longest=2, key_width=1, value_width=1, like=torch.zeros(()))
    cache.append(torch.zeros(1, 1, 2, 1), torch.zeros(1, 1, 2, 1))
    with pytest.raises(PellucidError, match="3 positions came, and there is room for 2"):
        cache.append(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
