"""Networks that papers name by their size: parameters and products by closed form, as published, and as inspected."""

import pytest
import torch
from tests.at_length import some_of
from torch import nn

from pellucid.api.inspect import find_target, inspect
from pellucid.api.inspect_child import inspect_published
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.layers.convolution import Convolution, Dense, Pooling, stages
from pellucid.models.catalogue import PUBLISHED, find_published
from pellucid.models.examples.published import PublishedViT, ResNet50

VITS = [one for one in PUBLISHED if one.name.startswith("ViT")]


def vit_by_hand(patch: int, width: int, depth: int, n_heads: int) -> tuple[int, int]:
    """Parameters and multiply-adds of one picture of 224 × 224, from the formulas alone."""
    n = (224 // patch) ** 2
    numbers = 3 * patch**2
    block = 4 * width**2 + 4 * width + 8 * width**2 + 5 * width + 4 * width  # attention, feed-forward, two norms
    parameters = numbers * width + width + width + (n + 1) * width + depth * block + 2 * width + 1000 * (width + 1)
    products = 12 * width**2 * (n + 1) + 2 * (n + 1) ** 2 * width  # of a block: by weights, and between tokens
    return parameters, n * numbers * width + depth * products + 1000 * width


def resnet_by_hand() -> tuple[int, int]:
    """The same, from the table of the paper: each convolution without a bias, and two numbers a channel of its norm."""
    parameters = 7 * 7 * 3 * 64 + 2 * 64
    products = 7 * 7 * 3 * 64 * 112 * 112
    channels, side = 64, 56
    for place, (n_blocks, narrow) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        for block in range(n_blocks):
            before, side = side, side // 2 if place and not block else side
            layers = [(channels, narrow, 1, before), (narrow, narrow, 3, side), (narrow, 4 * narrow, 1, side)]
            layers += [(channels, 4 * narrow, 1, side)] if not block else []
            for inputs, outputs, window, at in layers:
                parameters += inputs * outputs * window**2 + 2 * outputs
                products += inputs * outputs * window**2 * at**2
            channels = 4 * narrow
    return parameters + 1000 * (channels + 1), products + 1000 * channels


@pytest.mark.parametrize("published", some_of(PUBLISHED, 2), ids=lambda one: one.name)
def test_parameters_and_multiply_adds_are_the_published_ones(published):
    by_hand = vit_by_hand(**published.settings) if published in VITS else resnet_by_hand()
    seen = inspect_published(published)
    assert seen.parameters == published.parameters == by_hand[0]
    assert seen.flops_by_operation == 2 * by_hand[1]
    assert seen.flops_by_operation / 2e9 == pytest.approx(published.multiply_adds, abs=0.0006)
    assert f"here {published.parameters:,} and {by_hand[1] / 1e9:.3f} · 10⁹" in note_sentences(seen.notes)[-1]
    assert seen.failure is None


@pytest.mark.slow
def test_the_first_layers_of_resnet_leave_what_the_arithmetic_of_windows_says():
    first, pooled = stages(3, (224, 224), [Convolution(64, (7, 7), (2, 2), (3, 3)), Pooling((3, 3), (2, 2), (1, 1))])
    assert (first.shape, pooled.shape) == ((64, 112, 112), (64, 56, 56))
    assert stages(2048, (1, 1), [Dense(1000)])[0].parameters == 2_049_000
    seen = inspect_published(find_published("resnet-50"))
    shapes = {row.path: str(row.outputs[0]) for row in seen.rows if row.outputs}
    assert shapes["pool"] == "(batch 1, channels 64, height 56, width 56)"
    assert shapes["stages"] == "(batch 1, channels 2048, height 7, width 7)"


def test_a_published_vit_computes_what_torchs_encoder_does():
    torch.manual_seed(0)
    ours = PublishedViT(patch=112, width=8, depth=2, n_heads=2).double()
    layer = nn.TransformerEncoderLayer(8, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False).double()
    with torch.no_grad():
        for one in ours.parameters():
            one.normal_(std=0.3)
        for mine, other in zip(ours.blocks, theirs.layers, strict=True):
            other.self_attn.in_proj_weight.copy_(mine.attention.project.reshape(24, 8))
            other.self_attn.in_proj_bias.copy_(mine.attention.shift)
            other.self_attn.out_proj.load_state_dict(mine.attention.combine.state_dict())
            other.linear1.load_state_dict(mine.feed_forward.expand.state_dict())
            other.linear2.load_state_dict(mine.feed_forward.contract.state_dict())
            other.norm1.load_state_dict(mine.attention_norm.state_dict())
            other.norm2.load_state_dict(mine.feed_forward_norm.state_dict())
        theirs.norm.load_state_dict(ours.norm.state_dict())
        pictures = torch.randn(3, 3, 224, 224, dtype=torch.float64)
        vectors = ours.patches.project(pictures).flatten(2).transpose(1, 2)
        stream = torch.cat([ours.class_token.expand(3, 1, 8), vectors], dim=1) + ours.positions
        assert torch.allclose(ours(pictures), ours.head(theirs(stream)[:, 0]), atol=1e-10)


def test_resnet_runs_and_every_parameter_gets_a_gradient():
    model = ResNet50().eval()
    model(torch.randn(1, 3, 32, 32)).square().sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in model.parameters())
    assert sum(isinstance(one, nn.Conv2d) for one in model.modules()) == 53  # 49 in a row, and 4 beside


def test_names_are_found_however_they_are_written_and_near_ones_are_offered():
    assert {find_published(word).name for word in ("vit-b/16", "ViT_B_16", "vitb16")} == {"ViT-B/16"}
    assert find_target("resnet50").kind == "published"
    with pytest.raises(PellucidError, match="Perhaps you meant ViT-H/14"):
        find_target("vit-h/15")
    assert inspect("ViT-B/32").parameters == 88_224_232


def test_another_picture_size_has_positions_between_the_learned_ones():
    seen = inspect_published(find_published("vit-b/16"), (torch.zeros(1, 3, 384, 384),))
    n = (384 // 16) ** 2
    products = 768 * n * 768 + 12 * (12 * 768**2 * (n + 1) + 2 * (n + 1) ** 2 * 768) + 768_000
    # Only the weights of the interpolation come on top of it, and they are no product that is counted.
    assert seen.flops_by_operation == pytest.approx(2 * products, rel=1e-3)
    assert seen.parameters == 86_567_656


def test_the_command_shows_it_without_holding_a_weight(pellucid):
    said = pellucid("inspect", "vit-l/16").stdout
    assert "304,326,632 parameters" in said
    assert "61.555 · 10⁹ multiply-adds" in said
    assert "blocks.0.attention and 23 more: no formula" in said
