"""The networks for images that papers call by their size, built from the same parts: ViT-B/32 to H/14, and ResNet-50.

They are too large to be trained here. Without numbers, on the device "meta", they cost nothing and can be looked at:
`pellucid inspect vit-b/16`. The rows of PUBLISHED in catalogue.py have their sizes.

The ViT here is the paper's, where that of vit.py is made for small pictures: it has GELU and biases in its feed-forward
layers, and a single linear layer as its head. ResNet-50 is that of He et al. 2016 with the stride in the 3 × 3 window,
as most have trained it since (Goyal et al. 2017, "v1.5").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.layers.blocks import PreNormBlock
from pellucid.layers.convolution import grid_of
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.positions.encodings import resize_grid
from pellucid.models.examples.vit import ConvolutionPatches

CHANNELS, SIDE, CLASSES = 3, 224, 1000  # of ImageNet
BLOCKS = (3, 4, 6, 3)  # of each stage of ResNet-50
NARROW = (
    64,
    128,
    256,
    512,
)  # channels of the 3 × 3 windows of each stage; what a block puts out has four times as many
WIDER = 4


class PublishedViT(nn.Module):
    """pictures: (batch, 3, height, width) -> (batch, 1000).

    Dosovitskiy et al. 2021. Pictures of another size than 224 × 224 get positions between those that were learned.

    >>> tiny = PublishedViT(patch=56, width=8, depth=1, n_heads=2)
    >>> tiny(torch.zeros(2, 3, 224, 224)).shape, tiny(torch.zeros(2, 3, 280, 224)).shape
    (torch.Size([2, 1000]), torch.Size([2, 1000]))
    """

    def __init__(self, patch: int, width: int, depth: int, n_heads: int) -> None:
        super().__init__()
        self.patch, self.grid = patch, grid_of(SIDE, SIDE, patch)
        self.patches = ConvolutionPatches(CHANNELS, patch, width)
        self.class_token = nn.Parameter(torch.zeros(width))
        self.positions = nn.Parameter(torch.zeros(1 + self.grid[0] * self.grid[1], width))
        self.blocks = nn.Sequential(
            *[PreNormBlock(width, n_heads, feed_forward=ActivatedFeedForward(width, nn.GELU())) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        vectors = self.patches(pictures)  # (batch, patches, width)
        grid = grid_of(pictures.shape[2], pictures.shape[3], self.patch)
        where = self.positions if grid == self.grid else resize_grid(self.positions, self.grid, grid, n_apart=1)
        stream = torch.cat([self.class_token.expand(len(vectors), 1, -1), vectors], dim=1) + where
        scores: Tensor = self.head(self.norm(self.blocks(stream))[:, 0])
        return scores


class Bottleneck(nn.Module):
    """Narrow, look around, widen, and add: (batch, channels, height, width) -> (batch, 4 · narrow, less, less).

    >>> Bottleneck(64, narrow=64, stride=2)(torch.zeros(1, 64, 8, 8)).shape
    torch.Size([1, 256, 4, 4])
    """

    def __init__(self, channels: int, narrow: int, stride: int = 1) -> None:
        super().__init__()
        wide = WIDER * narrow
        self.narrow = nn.Sequential(nn.Conv2d(channels, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU())
        self.look = nn.Sequential(
            nn.Conv2d(narrow, narrow, 3, stride, padding=1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU()
        )
        self.widen = nn.Sequential(nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide))
        self.beside = (
            nn.Identity()
            if channels == wide and stride == 1
            else nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        )
        self.activation = nn.ReLU()

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.activation(self.beside(maps) + self.widen(self.look(self.narrow(maps))))
        return out


class ResNet50(nn.Module):
    """pictures: (batch, 3, height, width) -> (batch, 1000): 49 convolutions, a mean over all places, one linear layer.

    >>> ResNet50().eval()(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1000])
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(CHANNELS, NARROW[0], 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(NARROW[0]), nn.ReLU()
        )
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.Sequential()
        channels = NARROW[0]
        for place, (n_blocks, narrow) in enumerate(zip(BLOCKS, NARROW, strict=True)):
            stage = nn.Sequential()
            for block in range(n_blocks):
                stage.append(Bottleneck(channels, narrow, stride=2 if place and not block else 1))
                channels = WIDER * narrow
            self.stages.append(stage)
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.head(self.mean(self.stages(self.pool(self.first(pictures)))))
        return scores


def example_pictures() -> Tensor:
    """One picture of the published size, without numbers."""
    return torch.zeros(1, CHANNELS, SIDE, SIDE, device="meta")
