"""Patches: a picture cut into squares, each of which becomes one vector, so that attention can read it as a row.

Two ways to say the same: cut and multiply, as Dosovitskiy et al. 2021 ("An Image is Worth 16x16 Words") write it, or
slide a window as large as a patch by as much as a patch. With the same weights the numbers are the same.

Where the last patches reach over the edge, there is 0: the mean gray of standardised pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional


def patches(pictures: Tensor, patch: int) -> Tensor:
    """pictures: (batch, channels, height, width) -> (batch, n, channels · patch · patch), row after row.

    Inside a patch the channels come one after another, and in each the pixels row after row, as in a window's weights.

    >>> patches(torch.arange(8.0).view(1, 1, 2, 4), patch=2)
    tensor([[[0., 1., 4., 5.],
             [2., 3., 6., 7.]]])
    """
    whole = _pad_to_patches(pictures, patch)
    batch, channels, height, width = whole.shape
    rows, columns = height // patch, width // patch
    cut = whole.reshape(batch, channels, rows, patch, columns, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)


class LinearPatches(nn.Module):
    """Cut, then multiply: (batch, channels, height, width) -> (batch, n, width).

    >>> LinearPatches(channels=3, patch=4, width=10)(torch.zeros(2, 3, 8, 12)).shape
    torch.Size([2, 6, 10])
    """

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Linear(channels * patch**2, width)

    def forward(self, pictures: Tensor) -> Tensor:
        vectors: Tensor = self.project(patches(pictures, self.patch))
        return vectors


class ConvolutionPatches(nn.Module):
    """A window as large as a patch, moved by as much: (batch, channels, height, width) -> (batch, n, width).

    >>> ConvolutionPatches(channels=3, patch=4, width=10)(torch.zeros(2, 3, 8, 12)).shape
    torch.Size([2, 6, 10])
    """

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, pictures: Tensor) -> Tensor:
        maps: Tensor = self.project(_pad_to_patches(pictures, self.patch))
        return maps.flatten(2).transpose(1, 2)


PROJECTIONS: Mapping[str, Callable[[int, int, int], nn.Module]] = MappingProxyType(
    {"linear": LinearPatches, "conv": ConvolutionPatches}
)


@torch.no_grad()
def as_convolution(cut: LinearPatches) -> ConvolutionPatches:
    """The same function as a window that slides: each row of the matrix is the window of one number."""
    channels = cut.project.in_features // cut.patch**2
    window = ConvolutionPatches(channels, cut.patch, cut.project.out_features).to(cut.project.weight)
    window.project.weight.copy_(cut.project.weight.view_as(window.project.weight))
    assert window.project.bias is not None
    window.project.bias.copy_(cut.project.bias)
    return window


def _pad_to_patches(pictures: Tensor, patch: int) -> Tensor:
    """The picture with as many zeros on the right and below as its last patches lack."""
    height, width = pictures.shape[2:]
    lacking = (-width % patch, -height % patch)
    return functional.pad(pictures, (0, lacking[0], 0, lacking[1])) if any(lacking) else pictures
