"""Lessons about images: positions on other grids, shifts, samples and diagrams; each held to torch or a plain loop."""

import math
import re

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch import nn
from torch.nn import functional

from pellucid.data import open_data
from pellucid.errors import PellucidError
from pellucid.lessons import network_diagram, pooling_shifts, sample_images
from pellucid.lessons.network_diagram import DiagramKnobs
from pellucid.lessons.pooling_shifts import (
    POOLINGS,
    PoolingShiftKnobs,
    build_cnn,
    move_images,
    share_right_when_moved,
)
from pellucid.lessons.sample_images import SampleSheetKnobs
from pellucid.lessons.vit_resolution import ResolutionKnobs, _read_at, _scores, measure, place_positions
from pellucid.models.examples.cnn import CNN
from pellucid.models.examples.configs import CNNConfig, ViTConfig
from pellucid.models.examples.vit import ViT

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def vit():
    torch.manual_seed(0)
    model = ViT(ViTConfig(numbers=(1, 8, 8), categories=(), outputs=10, patch=2, width=8, depth=2, n_heads=2)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


@pytest.mark.parametrize("new", [(3, 3), (4, 4), (5, 7), (8, 8)])
def test_interpolated_positions_are_torchs(vit, new):
    learned = vit.where((4, 4)).detach()
    interpolated, in_order, without = place_positions(learned, (4, 4), new)
    grid = learned[1:].t().reshape(1, 8, 4, 4)
    wanted = functional.interpolate(grid, new, mode="bilinear", align_corners=True)[0].flatten(1).t()
    assert torch.allclose(interpolated[1:], wanted, atol=1e-12)
    for where in (interpolated, in_order, without):
        assert where.shape == (1 + new[0] * new[1], 8)
        assert torch.equal(where[0], learned[0])  # the class token has no place in the picture
    n = min(17, len(in_order))
    assert torch.equal(in_order[:n], learned[:n])
    assert not in_order[n:].any()
    assert not without[1:].any()


def test_what_is_measured_is_what_the_network_says(vit):
    images, truths = torch.randn(40, 1, 8, 8, dtype=torch.float64), torch.arange(40) % 10
    with torch.no_grad():
        for side in (6, 8, 12):
            resized = functional.interpolate(images, (side, side), mode="bilinear", antialias=side < 8)
            said = vit(resized, torch.zeros(40, 0))
            grid = (side // 2, side // 2)
            where = place_positions(vit.where((4, 4)), (4, 4), grid)[0]
            assert torch.allclose(_scores(vit, resized, where), said, atol=1e-10)
            result = _read_at(vit, images, truths, side)
            assert result.grid == grid
            assert result.interpolated == (said.argmax(1) == truths).double().mean().item()
        own = _read_at(vit, images, truths, 8)
        assert own.interpolated == own.in_order


def test_a_record_has_the_positions_on_both_grids():
    study = measure(ResolutionKnobs(steps=2, sizes=(8, 16)))
    assert (study.side, study.grid, study.n_images) == (8, (4, 4), 332)
    assert np.shape(study.learned) == (4, 4)
    assert np.shape(study.interpolated) == np.shape(study.in_order) == (8, 8)
    corners = [[0, 0], [0, -1], [-1, 0], [-1, -1]]
    for row, column in corners:
        assert study.interpolated[row][column] == pytest.approx(study.learned[row][column], abs=1e-12)
    assert np.ravel(study.in_order)[:16] == pytest.approx(np.ravel(study.learned), abs=1e-12)
    assert [result.side for result in study.results] == [8, 16]
    assert study.results[0].interpolated == study.results[0].in_order


# Pooling and shifts.


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_three_networks_have_the_same_weights_and_halve_alike(pooling):
    for side in (10, 14, 15):
        model = build_cnn(pooling, side, seed=1)
        quarter = math.ceil(math.ceil(side / 2) / 2)
        assert sum(one.numel() for one in model.parameters()) == 80 + 1168 + 10 * (16 * quarter**2 + 1)
        assert model(torch.zeros(2, 1, side, side)).shape == (2, 10)
    first, again, other = (build_cnn(pooling, 10, seed)[0].weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    kinds = {type(layer) for layer in model}
    assert (nn.MaxPool2d in kinds) == (pooling == "max")
    assert (nn.AvgPool2d in kinds) == (pooling == "average")
    assert (model[0].stride == (2, 2)) == (pooling == "strided")


def test_moved_images_are_those_of_a_loop_and_keep_every_pixel():
    images = torch.zeros(3, 1, 9, 9)
    images[:, :, 3:6, 3:6] = torch.rand(3, 1, 3, 3)
    for down, across in ((0, 2), (-3, 0), (1, -1)):
        moved = move_images(images, (down, across))
        for row in range(9):
            for column in range(9):
                y, x = row - down, column - across
                wanted = images[:, :, y, x] if 0 <= y < 9 and 0 <= x < 9 else torch.zeros(3, 1)
                assert torch.equal(moved[:, :, row, column], wanted)
        assert moved.sum() == pytest.approx(images.sum().item())


def test_the_share_told_right_is_the_mean_over_four_directions():
    images = torch.zeros(4, 1, 7, 7)
    images[:, :, 3, 3] = 1.0

    class Where(nn.Module):
        """Says 1 where the dot is right of the middle, else 0."""

        def forward(self, pictures):
            is_right = (pictures[:, 0, :, 4:].sum((1, 2)) > 0).float()
            return torch.stack([1 - is_right, is_right], dim=1)

    truths = torch.tensor([0, 0, 0, 1])
    assert share_right_when_moved(Where(), images, truths, 0) == 0.75
    # To the right it says 1 of all, in the other three directions 0.
    assert share_right_when_moved(Where(), images, truths, 1) == (3 * 0.75 + 0.25) / 4


def test_intervals_over_trainings_are_students():
    study = pooling_shifts.measure(PoolingShiftKnobs("max", shift=1, steps=20, trainings=3))
    alone = [
        pooling_shifts.measure(PoolingShiftKnobs("max", shift=1, steps=20, trainings=1, seed=seed))
        for seed in (1, 2, 3)
    ]
    (curve,) = study.curves
    for shift in (0, 1):
        values = [one.curves[0].means[shift] for one in alone]
        low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
        assert curve.means[shift] == pytest.approx(np.mean(values))
        assert curve.reaches[shift] == pytest.approx((high - low) / 2, rel=1e-6)
    assert all(math.isnan(reach) for one in alone for reach in one.curves[0].reaches)
    assert (study.side, study.n_images, len(study.pixels)) == (10, 332, 2)
    still, moved = (np.array([[int(c[1:3], 16) for c in row] for row in image]) for image in study.pixels)
    assert np.array_equal(moved[:, 1:], still[:, :-1])


# Sample sheets.


def test_a_sheet_has_images_of_each_class_as_the_data_have_them():
    sheet = sample_images.measure(SampleSheetKnobs("digits", each=4, seed=3))
    data = open_data("digits")
    assert (sheet.n_images, sheet.n_classes, sheet.size) == (1797, 10, (8, 8))
    for place, of_class in enumerate(sheet.classes):
        assert of_class.n_images == (data.labels == place).sum()
        assert len(set(of_class.places)) == 4
        for image, where in zip(of_class.pixels, of_class.places, strict=True):
            number = int(where.removeprefix("image ").replace(",", "")) - 1
            assert data.labels[number] == place
            assert [[int(colour[1:3], 16) for colour in row] for row in image] == data.pixels[number].tolist()
    assert sheet != sample_images.measure(SampleSheetKnobs("digits", each=4, seed=4))
    assert sheet == sample_images.measure(SampleSheetKnobs("digits", each=4, seed=3))


def test_a_folder_of_images_of_several_sizes_and_few_files_is_drawn(tmp_path):
    for label, sizes in {"a": [(20, 9)], "b": [(9, 9), (70, 100)]}.items():
        (tmp_path / label).mkdir()
        for i, size in enumerate(sizes):
            Image.new("RGB", size, (250, 10 * i, 0)).save(tmp_path / label / f"{i}.png")
    sheet = sample_images.measure(SampleSheetKnobs(str(tmp_path), each=5))
    assert [(one.name, one.n_images, one.places) for one in sheet.classes] == [
        ("a", 1, ("a/0.png",)),
        ("b", 2, ("b/0.png", "b/1.png")),
    ]
    assert sheet.size == (64, 64)
    svg = sample_images.draw(sheet).svg
    assert svg.count("<image") == 3
    with pytest.raises(PellucidError, match="images is wanted"):
        sample_images.measure(SampleSheetKnobs("names"))


# Diagrams.


def test_the_small_lenet_is_drawn_with_its_shapes_and_counts():
    record = network_diagram.measure(DiagramKnobs())
    shapes = [(8, 28, 28), (8, 7, 7), (8, 7, 7), (16, 6, 6), (16, 3, 3), (16, 3, 3), (144,), (10,)]
    assert [layer.shape for layer in record.layers] == shapes
    assert [layer.parameters for layer in record.layers if layer.parameters] == [208, 2064, 1450]
    assert (record.parameters, record.input_shape) == (3722, (1, 32, 32))
    # By arithmetic alone, and by the network of the catalogue.
    lenet = CNNConfig(numbers=(1, 32, 32), categories=(), outputs=10)
    assert [stage.shape for stage in lenet.stages()] == [shapes[0], shapes[1], shapes[3], shapes[4]]
    assert CNN(lenet).n_parameters == record.parameters
    texts = re.findall(r">([^<>]+)</text>", network_diagram.draw(record).svg)
    for words in ("28×28×8", "7×7×8", "6×6×16", "3×3×16", "144", "10", "208 parameters", "2,064 parameters"):
        assert words in texts
    assert texts.count("then ReLU") == 2
    assert "3,722 parameters = 208 + 2,064 + 1,450" in " ".join(texts)


def test_a_network_that_fails_is_drawn_to_where_it_does():
    pasted = network_diagram.LENET.replace("nn.Linear(144", "nn.Linear(120").replace(
        "nn.AvgPool2d(4),", "nn.AvgPool2d(4)"
    )
    record = network_diagram.measure(DiagramKnobs(pasted, "1,1,32,32"))
    assert [layer.fails for layer in record.layers] == [False] * 7 + [True]
    assert "144" in record.failure
    svg = network_diagram.draw(record).svg
    assert ">fails</text>" in svg
    assert svg.count(network_diagram.WRONG) >= 3


def test_other_networks_and_what_cannot_be_drawn():
    vectors = network_diagram.measure(
        DiagramKnobs("nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Tanh(), nn.Linear(8, 2)))")
    )
    assert [(layer.kind, layer.shape) for layer in vectors.layers] == [
        ("Linear", (8,)),
        ("Tanh", (8,)),
        ("Linear", (2,)),
    ]
    with pytest.raises(PellucidError, match="60 can be drawn"):
        network_diagram.measure(DiagramKnobs(f"nn.Sequential({', '.join(['nn.Linear(2, 2)'] * 61)})"))
    with pytest.raises(PellucidError, match="no module called"):
        network_diagram.measure(DiagramKnobs("hello"))
