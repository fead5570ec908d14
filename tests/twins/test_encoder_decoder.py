"""The encoder-decoder beside torch.nn.Transformer with the same weights, and its order-blindness without positions."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.positions import POSITIONS
from pellucid.models.pairs.configs import EncoderConfig, EncoderDecoderConfig, PairTransformerConfig
from pellucid.models.pairs.decoder_only import PairTransformer
from pellucid.models.pairs.encoder_decoder import Encoder, EncoderDecoder
from pellucid.models.settings import FORMS

CLOSE = 1e-10
WIDTH, DEPTH, N_HEADS = 12, 3, 2
SOURCES = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 0, 0, 0], [5, 0, 0, 0, 0]])
TOKENS = torch.tensor([[0, 1, 2, 3], [0, 4, 5, 6], [0, 1, 1, 1]])

pytestmark = pytest.mark.usefixtures("one_thread")


def built(network: type, config: type, **settings: object) -> nn.Module:
    """In double precision and away from its first weights, whose zeros would hide most of it."""
    torch.manual_seed(0)
    shape = {"vocab_size": 7, "longest_source": 5, "longest_target": 4, "width": WIDTH, "n_heads": N_HEADS}
    model = network(config(**{**shape, "depth": DEPTH, **settings})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def of_torch(form: str) -> nn.Transformer:
    """torch.nn.Transformer as it builds itself, but for nested tensors, of which it warns when norms come first."""
    shape = {"d_model": WIDTH, "nhead": N_HEADS, "dim_feedforward": 4 * WIDTH, "dropout": 0.0, "batch_first": True}
    layer = nn.TransformerEncoderLayer(**shape, norm_first=form == "pre")
    encoder = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
    usual = nn.Transformer(
        **shape,
        num_encoder_layers=DEPTH,
        num_decoder_layers=DEPTH,
        norm_first=form == "pre",
        custom_encoder=encoder,
    )
    return usual.double()


def theirs(name: str) -> str:
    """What torch calls the parameter that we call by this name."""
    stack, *rest = name.split(".")
    if rest[0] == "norm":
        return name
    _, depth, *part = rest
    feed_forward_norm = "norm2" if stack == "encoder" else "norm3"
    words = {
        "attention.project": "self_attn.in_proj_weight",
        "attention.shift": "self_attn.in_proj_bias",
        "attention.combine": "self_attn.out_proj",
        "memory_attention.project": "multihead_attn.in_proj_weight",
        "memory_attention.shift": "multihead_attn.in_proj_bias",
        "memory_attention.combine": "multihead_attn.out_proj",
        "feed_forward.expand": "linear1",
        "feed_forward.contract": "linear2",
        "attention_norm": "norm1",
        "memory_norm": "norm2",
        "feed_forward_norm": feed_forward_norm,
    }
    whole = ".".join(part)
    if whole in words:
        return f"{stack}.layers.{depth}.{words[whole]}"
    return f"{stack}.layers.{depth}.{words['.'.join(part[:-1])]}.{part[-1]}"


@pytest.mark.parametrize("form", ["pre", "post"])  # torch has no other
def test_it_is_torchs_transformer(form):
    ours = built(EncoderDecoder, EncoderDecoderConfig, form=form)
    stacks = {name: p for name, p in ours.named_parameters() if name.startswith(("encoder.", "decoder."))}
    twin = of_torch(form)
    twins = dict(twin.named_parameters())
    assert {theirs(name) for name in stacks} == set(twins)  # nothing of either is left out
    with torch.no_grad():
        for name, parameter in stacks.items():
            twins[theirs(name)].copy_(parameter.reshape(twins[theirs(name)].shape))

    def embedded(tokens: Tensor, stack: nn.Module) -> Tensor:
        return ours.embedding(tokens) + stack.positions.embeddings(0, tokens.shape[1])

    scores = ours(SOURCES, TOKENS)
    own = scores.square().mean()
    own_gradients = torch.autograd.grad(own, [*stacks.values(), ours.embedding.weight])
    padding = SOURCES == 0
    later = torch.ones(TOKENS.shape[1], TOKENS.shape[1], dtype=torch.bool).triu(1)
    stream = twin(
        embedded(SOURCES, ours.encoder),
        embedded(TOKENS, ours.decoder),
        tgt_mask=later,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    their_scores = functional.linear(stream, ours.head.weight, ours.head.bias)
    assert (scores - their_scores).abs().max() < CLOSE
    their_gradients = torch.autograd.grad(
        their_scores.square().mean(), [*(twins[theirs(name)] for name in stacks), ours.embedding.weight]
    )
    for name, mine, other in zip([*stacks, "embedding"], own_gradients, their_gradients, strict=True):
        assert (mine - other.reshape(mine.shape)).abs().max() < CLOSE, name
        assert mine.abs().max() > 1e-6, name


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_one_token_at_a_time_with_every_kind_of_positions(form, positions):
    model = built(EncoderDecoder, EncoderDecoderConfig, form=form, positions=positions).eval()
    whole = model(SOURCES, TOKENS)
    state = model.begin(SOURCES)
    for time in range(TOKENS.shape[1]):
        scores, state = model.advance(TOKENS[:, time], state)
        assert (scores - whole[:, time]).abs().max() < CLOSE


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_the_order_of_the_source_matters_by_positions_alone(form, positions):
    model = built(EncoderDecoder, EncoderDecoderConfig, form=form, positions=positions).eval()
    order = [2, 0, 1]
    moved = (model(SOURCES[:1, :3][:, order], TOKENS[:1]) - model(SOURCES[:1, :3], TOKENS[:1])).abs().max()
    assert moved < CLOSE if positions == "none" else moved > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("positions", POSITIONS)
def test_an_encoder_without_positions_moves_its_answer_with_the_source(positions):
    model = built(Encoder, EncoderConfig, positions=positions).eval()
    order = [4, 2, 0, 1, 3]
    tokens = torch.zeros(1, 5, dtype=torch.int64)
    moved = (model(SOURCES[:1, order], tokens) - model(SOURCES[:1], tokens)[:, order]).abs().max()
    assert moved < CLOSE if positions == "none" else moved > 1e-4


@torch.no_grad()
@pytest.mark.parametrize("depth", [1, 2])
def test_a_decoder_alone_has_the_order_from_its_mask_too(depth):
    """Its first block sees a set; the second sees what the first made of beginnings, and those depend on the order."""
    model = built(PairTransformer, PairTransformerConfig, positions="none", depth=depth).eval()
    moved = (model(SOURCES[:1, [4, 2, 0, 1, 3]], TOKENS[:1]) - model(SOURCES[:1], TOKENS[:1])).abs().max()
    assert moved < CLOSE if depth == 1 else moved > 1e-4
