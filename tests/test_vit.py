"""The vision transformer: patches both ways, positions of other sizes, attention maps, and what order means to it."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.layers.convolution import grid_of
from pellucid.layers.positions.encodings import resize_grid
from pellucid.models.examples.configs import ExampleShape, ViTConfig
from pellucid.models.examples.vit import ConvolutionPatches, LinearPatches, ViT, as_convolution, patches
from pellucid.models.settings import SIZES
from pellucid.training.inference.attention_maps import rollout, similarity

CONFIG = ViTConfig(
    numbers=(2, 8, 12), categories=(), outputs=5, patch=4, width=8, depth=3, n_heads=2, hidden=6, positions="learned"
)
DIGITS = ExampleShape(numbers=(1, 8, 8), categories=(), outputs=10)


def pictures(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def answered(model: nn.Module, numbers: Tensor) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model.eval()(numbers, numbers.new_zeros(len(numbers), 0))
    return scores


def built(config: ViTConfig, seed: int = 1) -> ViT:
    """In float64, with every weight drawn anew: those that begin at zero would hide what they do."""
    torch.manual_seed(seed)
    model = ViT(config).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


# ---- Patches.


def test_patches_are_cut_row_after_row():
    """By a loop over every number."""
    x = pictures(2, 3, 8, 12)
    cut = patches(x, patch=4)
    assert cut.shape == (2, 6, 48)
    for row in range(2):
        for column in range(3):
            square = x[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            assert torch.equal(cut[:, 3 * row + column], square.reshape(2, 48))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 12), (3, 9, 7), (1, 1, 1)])
@pytest.mark.parametrize("patch", [1, 3, 4])
def test_both_projections_are_the_same_function(shape, patch):
    linear = LinearPatches(shape[0], patch, width=10).double()
    conv = as_convolution(linear)
    assert isinstance(conv, ConvolutionPatches)
    x = pictures(4, *shape)
    n = grid_of(*shape[1:], patch)
    assert linear(x).shape == (4, n[0] * n[1], 10)
    assert (linear(x) - conv(x)).abs().max() < 1e-12
    for way in (linear, conv):
        way(x).sin().sum().backward()
    assert (linear.project.weight.grad.flatten() - conv.project.weight.grad.flatten()).abs().max() < 1e-10
    assert (linear.project.bias.grad - conv.project.bias.grad).abs().max() < 1e-10


def test_beyond_the_edge_there_is_zero():
    x = pictures(2, 1, 5, 6)
    whole = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    whole[:, :, :5, :6] = x
    assert torch.equal(patches(x, 4), patches(whole, 4))


def test_a_network_may_project_either_way():
    linear, conv = built(CONFIG), built(dataclasses.replace(CONFIG, projection="conv"), seed=2)
    weights = linear.state_dict()
    weights["patches.project.weight"] = weights["patches.project.weight"].view(8, 2, 4, 4)
    x = pictures(3, 2, 8, 12)
    assert not torch.allclose(answered(linear, x), answered(conv, x))
    conv.load_state_dict(weights)
    assert (answered(linear, x) - answered(conv, x)).abs().max() < 1e-12


# ---- The network.


def test_parameters_are_counted_by_hand():
    width, patch, hidden, classes = 32, 2, 32, 10
    config = ViTConfig((1, 8, 8), (), classes, patch, width, depth=3, n_heads=4, hidden=hidden)
    attention = 4 * (width**2 + width)
    feed_forward = 8 * width**2
    norms = 4 * width
    around = (patch**2 + 1) * width + width + 17 * width + 2 * width
    head = (width + 1) * hidden + (hidden + 1) * classes
    assert ViT(config).n_parameters == around + 3 * (attention + feed_forward + norms) + head


@torch.no_grad()
def test_it_is_its_parts_one_after_another():
    model = built(CONFIG).eval()
    x = pictures(2, 2, 8, 12)
    stream = torch.cat([model.class_token.expand(2, 1, 8), model.patches(x)], dim=1) + model.positions.table.weight
    for block in model.blocks:
        stream = block(stream)
    by_hand = model.head(torch.nn.functional.gelu(model.summary.linear(model.norm(stream)[:, 0])))
    assert (answered(model, x) - by_hand).abs().max() < 1e-12


def test_a_configuration_that_cannot_be_is_refused():
    with pytest.raises(PellucidError, match="width 8 cannot be shared equally by 3 heads"):
        dataclasses.replace(CONFIG, n_heads=3)
    with pytest.raises(
        PellucidError, match=r"there is no position encoding called 'lerned'\. Perhaps you meant learned"
    ):
        dataclasses.replace(CONFIG, positions="lerned")
    with pytest.raises(PellucidError, match="an image of 1 × 8 × 12 came"):
        ViT(CONFIG)(torch.zeros(2, 1, 8, 12), torch.zeros(2, 0))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("numbers", [(1, 1, 1), (1, 8, 8), (3, 31, 17), (3, 64, 48)])
def test_every_size_reads_every_picture(size, numbers):
    config = ViTConfig.of_size(size, ExampleShape(numbers=numbers, categories=(), outputs=4))
    assert answered(ViT(config).double(), pictures(2, *numbers)).shape == (2, 4)
    assert max(config.grid) <= 31


def test_rows_of_a_batch_do_not_meet():
    model, x = built(CONFIG), pictures(5, 2, 8, 12)
    together = answered(model, x)
    for row in range(5):
        assert torch.allclose(answered(model, x[row : row + 1])[0], together[row], atol=1e-12)


# ---- Positions.


def moved(x: Tensor, order: Tensor) -> Tensor:
    """The picture with its patches of 4 × 4 in another order."""
    batch, channels, height, width = x.shape
    squares = x.unflatten(3, (width // 4, 4)).unflatten(2, (height // 4, 4))  # (batch, channels, rows, 4, columns, 4)
    row = squares.permute(2, 4, 0, 1, 3, 5).flatten(0, 1)[order]
    back = row.unflatten(0, (height // 4, width // 4)).permute(2, 3, 0, 4, 1, 5)
    return back.reshape(batch, channels, height, width)


def test_without_positions_the_order_of_patches_says_nothing():
    x = pictures(3, 2, 8, 12)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.equal(patches(moved(x, order), 4), patches(x, 4)[:, order])
    blind = built(dataclasses.replace(CONFIG, positions="none"))
    assert (answered(blind, x) - answered(blind, moved(x, order))).abs().max() < 1e-12
    seeing = built(CONFIG)
    assert (answered(seeing, x) - answered(seeing, moved(x, order))).abs().max() > 1e-2


def test_without_positions_maps_move_with_the_patches():
    """Equivariance: whichever patch is where, it is attended to as before."""
    x, order = pictures(2, 2, 8, 12), torch.tensor([3, 0, 5, 1, 4, 2])
    tokens = torch.cat([torch.tensor([0]), 1 + order])
    blind = built(dataclasses.replace(CONFIG, positions="none")).eval()
    before, after = blind.attention_maps(x), blind.attention_maps(moved(x, order))
    assert (after - before[..., tokens, :][..., tokens]).abs().max() < 1e-12


@torch.no_grad()
def test_positions_of_the_same_size_stay_as_they_were_learned():
    model = built(CONFIG)
    assert model.where((2, 3)) is not None
    assert torch.equal(model.where((2, 3)), model.positions.table.weight)
    # And interpolation to the same size is no interpolation either.
    again = resize_grid(model.positions.table.weight, (2, 3), (2, 3), n_apart=1)
    assert (again - model.positions.table.weight).abs().max() < 1e-12


@torch.no_grad()
def test_a_picture_of_another_size_has_positions_between():
    model = built(CONFIG).eval()
    own = model.positions.table.weight
    between = model.where((3, 5))
    assert between.shape == (16, 8)
    assert torch.equal(between[0], own[0])  # the class token has no place in the picture
    grid, old = between[1:].view(3, 5, 8), own[1:].view(2, 3, 8)
    assert torch.allclose(grid[0, 0], old[0, 0])
    assert torch.allclose(grid[2, 4], old[1, 2])
    assert torch.allclose(grid[1, 2], (old[0, 1] + old[1, 1]) / 2)
    assert torch.allclose(grid[0, 1], (old[0, 0] + old[0, 1]) / 2)
    for height, width in ((12, 20), (4, 4), (9, 13)):
        assert answered(model, pictures(2, 2, height, width)).shape == (2, 5)


@torch.no_grad()
def test_a_picture_of_one_gray_says_the_same_at_twice_the_size():
    """All patches are alike; with one position for all of them, twice as many change no average."""
    model = built(CONFIG)
    model.positions.table.weight[1:] = model.positions.table.weight[1]
    gray = torch.full((1, 2, 8, 12), 0.7, dtype=torch.float64)
    larger = torch.full((1, 2, 16, 24), 0.7, dtype=torch.float64)
    maps, larger_maps = model.attention_maps(gray), model.attention_maps(larger)
    # Of n equal keys beside the class token, each takes e^s / (n e^s + e^c).
    odds = maps[0, 0, :, 0, 1] / maps[0, 0, :, 0, 0]
    assert torch.allclose(larger_maps[0, 0, :, 0, 1] / larger_maps[0, 0, :, 0, 0], odds)
    assert torch.allclose(larger_maps[0, 0, :, 0, 0], 1 / (1 + 24 * odds))


def test_similarity_is_the_cosine():
    vectors = pictures(4, 6)
    found = similarity(vectors)
    for i in range(4):
        for j in range(4):
            cosine = vectors[i] @ vectors[j] / (vectors[i].norm() * vectors[j].norm())
            assert abs(found[i, j] - cosine) < 1e-12
    assert torch.allclose(found.diagonal(), torch.ones(4, dtype=torch.float64))


# ---- Attention maps.


@torch.no_grad()
def test_attention_maps_are_shares():
    model, x = built(CONFIG).eval(), pictures(4, 2, 8, 12)
    maps = model.attention_maps(x)
    assert maps.shape == (3, 4, 2, 7, 7)
    assert maps.min() >= 0
    assert (maps.sum(-1) - 1).abs().max() < 1e-12
    assert torch.allclose(maps[:, 1], model.attention_maps(x[1:2])[:, 0], atol=1e-12)
    # Those of the second block are of what the first one left.
    stream = model.blocks[0](model.stream(x))
    assert torch.allclose(maps[1], model.blocks[1].weights(stream), atol=1e-12)


def test_rollout_by_hand():
    first = torch.tensor(
        [[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]]
    )
    second = torch.tensor([[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
    maps = torch.stack([first, second])[:, None]  # (depth 2, batch 1, heads 2, 3, 3)
    # Half of the heads' mean and half of staying: .75 .25 0 | .25 .75 0 | 0 0 1, then .5 0 .5 | 0 1 0 | 0 .5 .5.
    by_hand = torch.tensor([[[0.375, 0.125, 0.5], [0.25, 0.75, 0.0], [0.125, 0.375, 0.5]]])
    assert torch.equal(rollout(maps), by_hand)


def test_rollout_hands_on_everything_and_nothing_more():
    maps = pictures(4, 2, 3, 6, 6).softmax(-1)
    through = rollout(maps)
    assert through.shape == (2, 6, 6)
    assert (through.sum(-1) - 1).abs().max() < 1e-12
    stays = torch.eye(6, dtype=torch.float64).expand(4, 2, 3, 6, 6)
    assert torch.equal(rollout(stays), stays[0, :, 0])
