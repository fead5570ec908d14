"""The CNNs: sizes and counts of the exam, heads that say the same, pictures larger than planned, and folded norms."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.norms import BatchNorm
from pellucid.models.examples.cnn import CNN, Filters, ResidualBlock, ResidualCNN, ShrinkingBlock
from pellucid.models.examples.configs import CNNConfig, ExampleShape, ResidualCNNConfig
from pellucid.models.settings import SIZES

EXAM = CNNConfig(numbers=(1, 32, 32), categories=(), outputs=10)


def pictures(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


def answered(model: nn.Module, numbers: Tensor) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model.eval()(numbers, numbers.new_zeros(len(numbers), 0))
    return scores


def built(config: CNNConfig, seed: int = 1) -> CNN:
    """In float64, with a head that says something: at first it hardly does."""
    torch.manual_seed(seed)
    model = CNN(config).double()
    nn.init.normal_(model.head.score.weight)
    nn.init.normal_(model.head.score.bias)
    return model


def test_it_is_the_exams_network():
    model = CNN(CNNConfig.of_size("tiny", ExampleShape(numbers=(1, 32, 32), categories=(), outputs=10)))
    assert model.config == EXAM
    by_layer = [sum(p.numel() for p in part.parameters()) for part in (model.layers[0], model.layers[3], model.head)]
    assert by_layer == [208, 2_064, 1_450]
    assert model.n_parameters == sum(by_layer) == 3_722
    assert [type(layer) for layer in model.layers] == 2 * [nn.Conv2d, nn.AvgPool2d, nn.ReLU]
    kinds = [stage.shape for stage in EXAM.stages()]
    assert kinds == [(8, 28, 28), (8, 7, 7), (16, 6, 6), (16, 3, 3)]
    x = torch.zeros(2, 1, 32, 32)
    seen = []
    for layer in model.layers:
        x = layer(x)
        seen.append(tuple(x.shape[1:]))
    assert [shape for layer, shape in zip(model.layers, seen, strict=True) if not isinstance(layer, nn.ReLU)] == kinds
    assert EXAM.stages()[-1].field == (24, 24)  # pixels that a place behind the second pooling sees


@torch.no_grad()
def test_it_is_what_the_formulas_say():
    model = built(EXAM)
    x = pictures(3, 1, 32, 32)
    first, second, score = model.layers[0], model.layers[3], model.head.score
    by_hand = functional.conv2d(x, first.weight, first.bias)
    by_hand = by_hand.unflatten(3, (7, 4)).unflatten(2, (7, 4)).mean((3, 5)).clamp(min=0)
    by_hand = functional.conv2d(functional.pad(by_hand, (1, 1, 1, 1)), second.weight, second.bias)
    by_hand = by_hand.unflatten(3, (3, 2)).unflatten(2, (3, 2)).mean((3, 5)).clamp(min=0)
    by_hand = by_hand.reshape(3, 144) @ score.weight.T + score.bias
    assert (answered(model, x) - by_hand).abs().max() < 1e-12


@torch.no_grad()
def test_average_pooling_before_the_bend_makes_one_window_of_two():
    """Convolution and mean are both sums, so 5 × 5 and a mean of 4 × 4 are one window of 8 × 8 in steps of 4."""
    model = built(EXAM)
    first = model.layers[0]
    even = torch.full((1, 1, 4, 4), 1 / 16, dtype=torch.float64)
    window = functional.conv2d(functional.pad(first.weight, (3, 3, 3, 3)), even)
    assert window.shape == (8, 1, 8, 8)
    x = pictures(2, 1, 32, 32)
    assert torch.allclose(functional.conv2d(x, window, first.bias, stride=4), model.layers[:2](x), atol=1e-12)


def test_a_linear_head_and_a_window_as_large_as_the_maps_are_the_same_function():
    x = pictures(4, 1, 32, 32)
    linear, conv = built(EXAM), built(dataclasses.replace(EXAM, head="conv"), seed=2)
    assert conv.head.score.weight.shape == (10, 16, 3, 3)
    copied = linear.state_dict()
    copied["head.score.weight"] = copied["head.score.weight"].view(10, 16, 3, 3)
    assert not torch.allclose(answered(linear, x), answered(conv, x))
    conv.load_state_dict(copied)
    assert (answered(linear, x) - answered(conv, x)).abs().max() < 1e-12
    assert linear.n_parameters == conv.n_parameters == 3_722


def test_a_pooled_head_is_a_linear_one_with_equal_weights_at_all_places():
    x = pictures(4, 1, 32, 32)
    linear, pooled = built(EXAM), built(dataclasses.replace(EXAM, head="pooled"), seed=2)
    assert pooled.n_parameters == 208 + 2_064 + 170
    copied = pooled.state_dict()
    copied["head.score.weight"] = (copied["head.score.weight"] / 9).expand(10, 16, 3, 3).reshape(10, 144)
    linear.load_state_dict(copied)
    assert (answered(linear, x) - answered(pooled, x)).abs().max() < 1e-12


@pytest.mark.parametrize("pool", ["average", "max"])
@pytest.mark.parametrize("head", ["linear", "conv", "pooled"])
def test_heads_and_pools_answer_in_one_shape(head, pool):
    model = built(dataclasses.replace(EXAM, head=head, pool=pool))
    x = pictures(3, 1, 32, 32)
    assert answered(model, x).shape == (3, 10)
    assert model.scores_at(x).shape == (3, 10, 1, 1)


@torch.no_grad()
def test_the_maximum_is_another_pooling():
    average, largest = (built(dataclasses.replace(EXAM, pool=pool)) for pool in ("average", "max"))
    x = pictures(2, 1, 32, 32)
    windows = average.layers[0](x).unflatten(3, (7, 4)).unflatten(2, (7, 4))
    assert torch.allclose(average.layers[:2](x), windows.mean((3, 5)), atol=1e-12)
    assert torch.equal(largest.layers[:2](x), windows.amax((3, 5)))
    assert not torch.allclose(answered(average, x), answered(largest, x))


@pytest.mark.parametrize("head", ["conv", "pooled"])
def test_a_larger_picture_has_the_scores_of_its_parts(head):
    """Without padding the scores at a place are exactly those of the part of the picture there."""
    config = CNNConfig((1, 16, 16), (), 10, filters=(4, 8), kernels=(3, 2), paddings=(0, 0), pools=(2, 2), head=head)
    model = built(config)
    x = pictures(2, 1, 20, 28)
    with torch.no_grad():
        scores = model.scores_at(x)
        assert scores.shape == (2, 10, 2, 4)
        for row in range(2):
            for column in range(4):
                part = x[:, :, 4 * row : 4 * row + 16, 4 * column : 4 * column + 16]
                assert torch.allclose(scores[:, :, row, column], model.scores_at(part)[:, :, 0, 0], atol=1e-12)
    assert torch.allclose(answered(model, x), scores.mean((2, 3)))


def test_what_a_head_cannot_read_is_refused():
    with pytest.raises(PellucidError, match=r"an image of 1 × 40 × 32 came, and .* made for 1 × 32 × 32\. Resize it\."):
        CNN(EXAM)(torch.zeros(1, 1, 40, 32), torch.zeros(1, 0))
    conv = CNN(dataclasses.replace(EXAM, head="conv"))
    assert conv.scores_at(torch.zeros(1, 1, 40, 32)).shape == (1, 10, 2, 1)
    for shape in ((1, 1, 31, 32), (1, 3, 32, 32), (1, 32, 32)):
        with pytest.raises(PellucidError, match="Resize it, but not to less"):
            conv(torch.zeros(shape), torch.zeros(1, 0))
    with pytest.raises(PellucidError, match="a kernel of 4 does not fit into 1 places"):
        CNNConfig(numbers=(1, 8, 8), categories=(), outputs=10)
    with pytest.raises(PellucidError, match=r"there is no kind of pooling called 'maximum'"):
        dataclasses.replace(EXAM, pool="maximum")
    with pytest.raises(PellucidError, match=r"there is no output head called 'linaer'\. Perhaps you meant linear"):
        dataclasses.replace(EXAM, head="linaer")
    with pytest.raises(PellucidError, match=r"pools is \(4,\)\. Give one number for each convolution"):
        dataclasses.replace(EXAM, pools=(4,))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "numbers", [(1, 1, 1), (1, 2, 3), (1, 8, 8), (3, 5, 40), (1, 16, 16), (3, 31, 17), (3, 64, 48)]
)
def test_every_size_reads_every_picture(size, numbers):
    inputs = ExampleShape(numbers=numbers, categories=(), outputs=4)
    for model in (CNN(CNNConfig.of_size(size, inputs)), ResidualCNN(ResidualCNNConfig.of_size(size, inputs))):
        assert answered(model, pictures(2, *numbers, dtype=torch.float32)).shape == (2, 4)


def test_the_order_of_bytes_changes_nothing():
    """Channels side by side are faster for convolutions; whoever gives pictures need not know."""
    for model in (CNN(EXAM), ResidualCNN(ResidualCNNConfig((3, 9, 9), (), 4))):
        x = pictures(2, *model.config.numbers, dtype=torch.float32)
        other = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        assert torch.allclose(answered(model, x), answered(model, other), atol=1e-6)


# ---- The residual one.


@torch.no_grad()
def test_filters_are_a_convolution_and_torchs_batch_norm():
    filters = Filters(3, 5, kernel=3, stride=2).double()
    twin = nn.BatchNorm2d(5).double()
    nn.init.normal_(filters.norm.gain)
    nn.init.normal_(filters.norm.bias)
    twin.weight.copy_(filters.norm.gain)
    twin.bias.copy_(filters.norm.bias)
    x = pictures(4, 3, 7, 8)
    for _ in range(3):
        theirs = twin(functional.conv2d(x, filters.convolution.weight, stride=2, padding=1))
        assert (filters(x) - theirs).abs().max() < 1e-12
    assert torch.allclose(filters.norm.running_variance, twin.running_var, atol=1e-12)
    assert (filters.eval()(x) - twin.eval()(filters.convolution(x))).abs().max() < 1e-12


@torch.no_grad()
def test_blocks_add_to_what_came_in():
    for block in (ResidualBlock(4).double().eval(), ShrinkingBlock(4).double().eval()):
        nn.init.normal_(block.second.norm.gain)
        x = pictures(2, 4, 5, 6).relu()
        added = block.second(block.first(x).relu())
        if isinstance(block, ShrinkingBlock):
            # The last row of 5 has no partner, and its mean is its own.
            means = torch.cat([x[:, :, :4].unflatten(2, (2, 2)).mean(3), x[:, :, 4:]], dim=2)
            means = means.unflatten(3, (3, 2)).mean(4)
            assert torch.allclose(block(x), (block.beside(means) + added).relu(), atol=1e-12)
        else:
            assert torch.allclose(block(x), (x + added).relu(), atol=1e-12)


def test_folded_it_is_the_same_function_without_norms():
    torch.manual_seed(0)
    model = ResidualCNN(ResidualCNNConfig(numbers=(1, 9, 8), categories=(), outputs=4, width=4, depth=2)).double()
    x = pictures(16, 1, 9, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):  # away from statistics of 0 and 1, and from blocks that add nothing
        optimizer.zero_grad()
        model(x, x.new_zeros(16, 0)).square().mean().backward()
        optimizer.step()
    ready = model.for_inference()
    assert not any(isinstance(part, BatchNorm) for part in ready.modules())
    assert any(isinstance(part, BatchNorm) for part in model.modules())
    assert model.rows_meet
    assert (answered(ready, x) - answered(model, x)).abs().max() < 1e-12


def test_the_residual_one_reads_pictures_of_any_size():
    model = ResidualCNN(ResidualCNNConfig(numbers=(1, 32, 32), categories=(), outputs=10))
    for height, width in ((1, 1), (32, 32), (50, 33)):
        assert answered(model, torch.randn(2, 1, height, width)).shape == (2, 10)
    with pytest.raises(PellucidError, match="an image of 3 × 32 × 32 came"):
        answered(model, torch.randn(2, 3, 32, 32))


def test_rows_of_a_batch_do_not_meet_once_it_is_trained():
    for model in (built(EXAM), ResidualCNN(ResidualCNNConfig((1, 32, 32), (), 10, width=4)).double()):
        x = pictures(5, 1, 32, 32)
        together = answered(model, x)
        for row in range(5):
            assert torch.allclose(answered(model, x[row : row + 1])[0], together[row], atol=1e-12)
