"""Lessons about images: positions on other grids, shifts and pooling; each number held to torch or to a plain loop."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from pellucid.lessons.vit_resolution import ResolutionKnobs, _read_at, _scores, measure, place_positions
from pellucid.models.examples.configs import ViTConfig
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
