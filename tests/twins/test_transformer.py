"""The transformer's parts beside the same thing written out slowly, and cached reading beside the plain pass."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.layers import row_attention
from pellucid.layers.attention import attend, attention_weights, join_heads, split_heads
from pellucid.layers.feed_forward import squared_relu
from pellucid.layers.positions import POSITIONS
from pellucid.layers.positions.encodings import rotary_angles, rotate
from pellucid.layers.row_attention import LONGEST_COMPILED, LONGEST_IN_TORCH, TokenRows, attend_rows, attend_short_rows
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer


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


def written_out(projected, n_heads, angles):
    """(batch, time, 3 · width) -> (batch, time, width), by the formula."""
    q, k, v = (split_heads(part, n_heads) for part in projected.chunk(3, dim=-1))
    if angles is not None:
        q, k = rotate(q, angles), rotate(k, angles)
    return join_heads(attention_weights(q, k) @ v)


@pytest.mark.parametrize("has_angles", [True, False])
@pytest.mark.parametrize(("batch", "time"), [(1, 1), (3, 5), (2, LONGEST_IN_TORCH)])
def test_short_rows_are_turned_and_attended_as_written_out(batch, time, has_angles):
    """Outputs and slopes, in double precision."""
    projected = torch.randn(batch, time, 24, generator=torch.Generator().manual_seed(time), dtype=torch.float64)
    angles = rotary_angles(time, 4).double() if has_angles else None
    given, asked = (projected.clone().requires_grad_() for _ in range(2))
    wanted, found = written_out(given, 2, angles), attend_short_rows(asked, 2, angles)
    assert torch.allclose(found, wanted, atol=1e-13)
    slopes = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted.backward(slopes)
    found.backward(slopes)
    assert torch.allclose(asked.grad, given.grad, atol=1e-12)


# Heads of whole vectors, of a part of one, of one and a part, and of an odd number; rows that fill tiles or do not.
@pytest.mark.parametrize(
    ("width", "n_heads", "has_angles"), [(32, 2, True), (12, 2, True), (20, 1, True), (15, 3, False)]
)
@pytest.mark.parametrize("lengths", [[1], [5, 0, 9, 8, 1], [64, 33], [LONGEST_COMPILED, 3]])
@pytest.mark.parametrize("is_plain", [False, True])
def test_rows_of_any_lengths_in_c_are_those_in_double_precision(
    width, n_heads, has_angles, lengths, is_plain, monkeypatch
):
    """Outputs and slopes of every row, with the instructions of this processor and without them."""
    compiled = pytest.importorskip("pellucid.layers._attention", reason="it was installed without a C compiler")
    for name in ("forward", "backward"):
        one = getattr(compiled, name)
        monkeypatch.setattr(compiled, name, lambda *given, one=one: one(*given, is_plain))
    chance, time = torch.Generator().manual_seed(sum(lengths)), max(lengths)
    projected = torch.randn(sum(lengths), 3 * width, generator=chance)
    slopes = torch.randn(sum(lengths), width, generator=chance)
    angles = rotary_angles(time, width // n_heads) if has_angles else None
    real = torch.cat([torch.arange(length) + row * time for row, length in enumerate(lengths)])
    rows = TokenRows(len(lengths), time, real)
    asked = projected.clone().requires_grad_()
    found = attend_rows(asked, n_heads, angles, rows)
    found.backward(slopes)
    for start, length in zip(np.cumsum([0, *lengths]), lengths, strict=False):
        if not length:
            continue
        here = slice(start, start + length)
        given = projected[None, here].double().requires_grad_()
        wanted = written_out(given, n_heads, None if angles is None else angles[:length].double())
        wanted.backward(slopes[None, here].double())
        assert torch.allclose(found[here].double(), wanted[0], atol=1e-5)
        assert torch.allclose(asked.grad[here].double(), given.grad[0], atol=2e-5)
        if not is_plain:  # a row has the same bits alone
            alone = projected[here].clone().requires_grad_()
            one = attend_rows(alone[None], n_heads, angles)[0]
            one.backward(slopes[here])
            assert one.equal(found[here])
            assert alone.grad.equal(asked.grad[here])


def test_what_does_not_fit_the_rows_is_not_read():
    compiled = pytest.importorskip("pellucid.layers._attention", reason="it was installed without a C compiler")
    parts, mixed, weights = np.zeros((3, 12), np.float32), np.zeros((3, 4), np.float32), np.zeros(64, np.float32)
    for starts, n_heads, held in (([0, 4], 2, 64), ([0, 2], 2, 64), ([1, 3], 2, 64), ([0, 3], 3, 64), ([0, 3], 2, 8)):
        with pytest.raises(ValueError, match=r"rows|sizes"):
            compiled.forward(parts, np.array(starts), n_heads, 4, None, weights[:held], mixed)


def test_scores_that_are_no_number_are_told():
    if row_attention._attention is None:
        pytest.skip("it was installed without a C compiler")
    projected = torch.zeros(3, 6)
    projected[1, 0] = math.nan
    found = attend_rows(projected[None], 1, None)[0]
    assert found.isnan().any(1).tolist() == [False, True, False]


def test_a_network_in_training_computes_what_it_does_in_evaluation():
    """Short rows have a way of their own while they are trained on."""
    model = awakened(TransformerConfig(vocab_size=7, context=80, width=16, depth=2, n_heads=2))
    for time in (1, LONGEST_IN_TORCH, LONGEST_IN_TORCH + 1):
        tokens = torch.randint(7, (3, time), generator=torch.Generator().manual_seed(time))
        trained, followed = model.train()(tokens), model.eval()(tokens)
        with torch.inference_mode():
            evaluated = model(tokens)
        assert torch.allclose(trained, followed, atol=1e-12)
        assert torch.allclose(evaluated, followed, atol=1e-12)
        assert evaluated.equal(trained) or time > LONGEST_IN_TORCH  # the same products, and nothing else


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_without_their_padding_have_the_same_scores_and_slopes(positions, dtype):
    model = awakened(TransformerConfig(vocab_size=7, context=40, width=16, depth=2, n_heads=2, positions=positions))
    model = model.to(dtype).train()
    lengths, time = [3, 40, 1, 17], 40
    tokens = torch.randint(7, (4, time), generator=torch.Generator().manual_seed(0))
    real = torch.cat([torch.arange(length) + row * time for row, length in enumerate(lengths)])
    slopes = torch.randn(len(real), 7, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = {}
    for name, scores in (("padded", model(tokens).flatten(0, 1)[real]), ("alone", model(tokens, real))):
        model.zero_grad()
        scores.backward(slopes)
        found[name] = [scores.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
    for one, other in zip(*found.values(), strict=True):
        assert torch.allclose(one, other, atol=1e-4 if dtype == torch.float32 else 1e-11)


def test_slopes_of_squared_relu_are_those_of_its_formula():
    values = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    assert torch.equal(squared_relu(values), values.relu().square())
    assert torch.autograd.gradcheck(squared_relu, (values + 0.01,))
    assert torch.autograd.gradgradcheck(squared_relu, (values + 0.01,))
    each = torch.func.vmap(torch.func.grad(squared_relu))(torch.tensor([-1.0, 0.0, 3.0]))
    assert each.tolist() == [0.0, 0.0, 6.0]


def test_turning_leaves_only_the_distance():
    draw = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 6, generator=draw, dtype=torch.float64)
    by = rotary_angles(50, 6).double()

    def product(i: int, j: int) -> float:
        return float(rotate(query[None], by[i : i + 1])[0] @ rotate(key[None], by[j : j + 1])[0])

    assert product(7, 3) == pytest.approx(product(44, 40), abs=1e-5)
    assert product(7, 3) != pytest.approx(product(7, 4), abs=1e-2)
    pair = rotate(query[None], by[9:10])[0, 2:4]  # the second pair, by sines and cosines
    angle = 9 * 10_000 ** (-2 / 6)
    first, second = query[2:4].tolist()
    assert pair[0].item() == pytest.approx(first * math.cos(angle) - second * math.sin(angle), abs=1e-6)
    assert pair[1].item() == pytest.approx(first * math.sin(angle) + second * math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("positions", POSITIONS)
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


@pytest.mark.parametrize("form", ["post", "none"])
@pytest.mark.parametrize("positions", ["rotary", "learned", "relative"])
def test_blocks_of_any_form_read_on_token_by_token(form, positions):
    """Three kinds of positions, each of which acts in another place; the fast way is for the form "pre" alone."""
    config = TransformerConfig(11, context=12, width=16, depth=3, n_heads=2, positions=positions, form=form)
    model = awakened(config)
    tokens = torch.randint(0, 11, (3, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole, state = model(tokens), model.begin(3)
        for time in range(12):
            scores, state = model.advance(tokens[:, time], state)
            assert torch.allclose(scores, whole[:, time], atol=1e-10)
        with pytest.raises(PellucidError, match="13 tokens came"):
            model.advance(tokens[:, 0], state)


@pytest.mark.parametrize("form", ["pre", "post"])
def test_a_block_is_torchs_layer_of_its_form(form):
    """torch.nn.TransformerEncoderLayer with the same weights, no biases, and norms whose gain stays 1."""
    model = awakened(TransformerConfig(7, context=9, width=12, depth=1, n_heads=3, positions="none", form=form))
    (block,) = model.blocks
    theirs = torch.nn.TransformerEncoderLayer(
        12, 3, 48, dropout=0.0, activation=squared_relu, batch_first=True, norm_first=form == "pre", bias=False
    ).double()
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(block.attention.project.flatten(0, 1))
        theirs.self_attn.out_proj.weight.copy_(block.attention.combine.weight)
        theirs.linear1.weight.copy_(block.feed_forward.expand.weight)
        theirs.linear2.weight.copy_(block.feed_forward.contract.weight)
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    ours = block(x, None, None)
    hidden = torch.ones(9, 9).triu(1).bool()
    wanted = theirs(x, src_mask=hidden)
    assert torch.allclose(ours, wanted, atol=1e-10)
    up = torch.randn(ours.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    (slope,), (other) = torch.autograd.grad(ours, [x], up), torch.autograd.grad(wanted, [x], up)[0]
    assert torch.allclose(slope, other, atol=1e-9)


def test_without_residual_connections_a_part_takes_the_place_of_what_it_read():
    model = awakened(TransformerConfig(7, context=9, width=12, depth=1, n_heads=3, form="none"))
    (block,) = model.blocks
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    angles = model.positions.angles(0, 9)

    def norm(vectors: torch.Tensor) -> torch.Tensor:
        centred = vectors - vectors.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    gathered = block.attention(norm(x), angles)
    hidden = (norm(gathered) @ block.feed_forward.expand.weight.T).relu() ** 2
    assert torch.allclose(block(x, angles, None), hidden @ block.feed_forward.contract.weight.T, atol=1e-10)


def test_only_the_form_pre_begins_with_blocks_that_add_nothing():
    """And its first weights are what they were before there were forms: none is drawn more."""
    tokens = torch.randint(0, 5, (2, 8), generator=torch.Generator().manual_seed(4))
    for form in ("pre", "post", "none"):
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(5, context=8, width=8, depth=2, n_heads=2, form=form))
        is_zero = not any(block.attention.combine.weight.any() for block in model.blocks)
        assert is_zero == (form == "pre")
        assert not model(tokens).any(), "every token is as likely at first"
        assert model.n_parameters == 5 * 8 * 2 + 2 * 12 * 64


@pytest.mark.parametrize("positions", POSITIONS)
def test_kept_rows_read_on_alone(positions):
    model = awakened(TransformerConfig(7, context=8, width=8, depth=2, n_heads=2, positions=positions))
    tokens = torch.randint(0, 7, (4, 8), generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([3, 1, 1])
    with torch.no_grad():
        _, state = model.read(tokens[:, :5], model.begin(4))
        state = model.keep(state, rows)
        for time in range(5, 8):
            scores, state = model.advance(tokens[rows, time], state)
        assert torch.allclose(scores, model(tokens[rows])[:, -1], atol=1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_tell_which_came_first(positions):
    """After "ab" and after "ba" a last token sees the same set; one block without positions cannot tell them apart."""
    model = awakened(TransformerConfig(5, context=4, width=8, depth=1, n_heads=2, positions=positions))
    with torch.no_grad():
        one, other = model(torch.tensor([[1, 2, 3], [2, 1, 3]]))[:, -1]
    apart = (one - other).abs().max()
    assert apart < 1e-12 if positions == "none" else apart > 1e-3


def test_under_a_causal_mask_two_blocks_need_no_positions():
    """The first block's output already depends on what came before, so the second sees no set any more."""
    model = awakened(TransformerConfig(5, context=4, width=8, depth=2, n_heads=2, positions="none"))
    with torch.no_grad():
        one, other = model(torch.tensor([[1, 2, 3], [2, 1, 3]]))[:, -1]
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_position_lets_a_token_see_ahead(positions):
    model = awakened(TransformerConfig(7, context=8, width=8, depth=2, n_heads=2, positions=positions))
    tokens = torch.randint(0, 7, (2, 8), generator=torch.Generator().manual_seed(3))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 7
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :5], after[:, :5], atol=1e-12)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)


@pytest.mark.parametrize("positions", POSITIONS)
def test_every_parameter_learns_with_any_positions(positions):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(5, context=8, width=8, depth=2, n_heads=2, positions=positions))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    tokens = torch.randint(0, 5, (16, 9), generator=torch.Generator().manual_seed(4))
    torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if positions == "relative" and name == "positions.table.weight":
            # Causal distances up to 7 fill the first eight buckets; the others wait for longer texts.
            assert (parameter.grad.abs().amax(1) > 0).tolist() == [bucket < 8 for bucket in range(32)]
        else:
            assert parameter.grad.abs().max() > 1e-9, name


def test_what_positions_learn_or_know_is_saved_or_made_again():
    saved = {
        kind: [name for name in Transformer(_config(kind)).state_dict() if name.startswith("positions")]
        for kind in POSITIONS
    }
    learned = ["positions.table.weight"]
    assert saved == {kind: learned if kind in ("learned", "relative") else [] for kind in POSITIONS}


def _config(positions: str) -> TransformerConfig:
    return TransformerConfig(5, context=8, width=8, depth=1, n_heads=2, positions=positions)


def test_a_new_transformer_finds_every_token_as_likely():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig.of_size("small", vocab_size=27, context=16))
    scores = model(torch.randint(0, 27, (2, 16)))
    assert torch.equal(scores, torch.zeros_like(scores))
    assert 40_000 < model.n_parameters < 60_000
    assert 780_000 < Transformer(TransformerConfig.of_size("large", vocab_size=65, context=64)).n_parameters < 820_000


def test_what_cannot_be_built_is_refused():
    with pytest.raises(
        PellucidError, match=r"width 10 cannot be shared equally by 4 heads\. The nearest that can is 8"
    ):
        TransformerConfig(5, context=4, width=10, depth=1, n_heads=4)
    with pytest.raises(PellucidError, match="a head of 3 numbers has one left over"):
        TransformerConfig(5, context=4, width=6, depth=1, n_heads=2)
    with pytest.raises(
        PellucidError,
        match=r"called 'absolute'\. Choose one of none, index, sinusoidal, learned, rotary, relative, alibi",
    ):
        TransformerConfig(5, context=4, width=8, depth=1, n_heads=2, positions="absolute")
    with pytest.raises(PellucidError, match="9 tokens came"):
        awakened(TransformerConfig(5, context=8, width=8, depth=1, n_heads=2))(torch.zeros(1, 9, dtype=torch.int64))


def test_short_contexts_turn_faster_and_old_configs_as_before():
    short, long = (TransformerConfig.of_size("tiny", 5, context) for context in (64, 65))
    assert (short.rotary_base, long.rotary_base) == (100, 10_000)
    assert torch.equal(Transformer(short).positions.angles(0, 64), rotary_angles(64, 8, 100))
    stored = {name: value for name, value in dataclasses.asdict(short).items() if name != "rotary_base"}
    old = find_network("transformer", "text").config_from(stored)  # of a run from before there was such a field
    assert torch.equal(Transformer(old).positions.angles(0, 64), rotary_angles(64, 8, 10_000))
    with pytest.raises(PellucidError, match="a rotary base of 0 came"):
        dataclasses.replace(short, rotary_base=0.0)
