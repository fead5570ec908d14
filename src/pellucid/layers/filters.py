"""Filters with batch norm, and residual blocks of them: the parts of a deep convolutional network.

He, Zhang, Ren and Sun 2016, "Deep Residual Learning for Image Recognition". A block adds to what came in, so that many
of them are as easy to train as few. The last gain of each begins at zero: a new block adds nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.norms import BatchNorm


class Filters(nn.Module):
    """Windows that keep the picture's size, or go through it in steps, and batch norm over all places of the batch.

    pictures: (batch, inputs, height, width) -> (batch, outputs, ⌈height / stride⌉, ⌈width / stride⌉). kernel: odd.

    >>> Filters(1, 4, kernel=3, stride=2)(torch.zeros(2, 1, 5, 8)).shape
    torch.Size([2, 4, 3, 4])
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, scale: float = 1.0) -> None:
        super().__init__()
        assert kernel % 2 == 1, f"a window of {kernel} has no middle"
        # Not only would such a window skip places: oneDNN writes past its memory on the way back (its issue 6035).
        assert kernel > 1 or stride == 1, "a window of one place goes to every place"
        # Batch norm takes the mean away, and a bias with it.
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.norm: BatchNorm | nn.Identity = BatchNorm(outputs)
        nn.init.normal_(self.convolution.weight, std=scale * (inputs * kernel**2) ** -0.5)

    def forward(self, pictures: Tensor) -> Tensor:
        maps = self.convolution(pictures)
        # A place is a row of features for the norm, and in this order of dimensions nothing has to be copied for it.
        level: Tensor = self.norm(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return level

    @torch.no_grad()
    def fold(self) -> None:
        """Let the convolution do the work of its batch norm, as it is in eval mode: W' = s·W, b' = bias - s·mean."""
        if not isinstance(self.norm, BatchNorm):
            return
        norm, one = self.norm, self.convolution
        # In float64, so that the only rounding is the last one.
        scale = norm.gain.double() / (norm.running_variance.double() + norm.epsilon).sqrt()
        one.bias = nn.Parameter((norm.bias.double() - scale * norm.running_mean.double()).to(one.weight))
        one.weight.copy_(scale[:, None, None, None] * one.weight.double())
        self.norm = nn.Identity()


class ResidualBlock(nn.Module):
    """relu(x + filters(relu(filters(x)))): (batch, channels, height, width) -> the same.

    >>> block = ResidualBlock(3)
    >>> maps = torch.rand(2, 3, 4, 4)
    >>> torch.equal(block(maps), maps)
    True
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Filters(channels, channels, kernel=3, scale=gain("relu"))
        self.second = Filters(channels, channels, kernel=3, scale=gain("relu"))
        self.activation = nn.ReLU()
        _begin_at_zero(self.second)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.activation(maps + self.second(self.activation(self.first(maps))))
        return out


class ShrinkingBlock(nn.Module):
    """The same, with half of the places a side and twice the channels: what is added to is the mean of 2 × 2 places.

    (batch, channels, height, width) -> (batch, 2 · channels, ⌈height / 2⌉, ⌈width / 2⌉).

    >>> ShrinkingBlock(3)(torch.zeros(2, 3, 7, 4)).shape
    torch.Size([2, 6, 4, 2])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Filters(channels, 2 * channels, kernel=3, stride=2, scale=gain("relu"))
        self.second = Filters(2 * channels, 2 * channels, kernel=3, scale=gain("relu"))
        self.pool = nn.AvgPool2d(2, ceil_mode=True)
        self.beside = Filters(channels, 2 * channels, kernel=1, scale=gain("relu"))
        self.activation = nn.ReLU()
        _begin_at_zero(self.second)

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.activation(self.beside(self.pool(maps)) + self.second(self.activation(self.first(maps))))
        return out


def _begin_at_zero(filters: Filters) -> None:
    assert isinstance(filters.norm, BatchNorm)
    nn.init.zeros_(filters.norm.gain)
