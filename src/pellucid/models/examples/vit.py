"""ViT: a picture is cut into patches, and every patch looks at all others, as the words of a sentence do.

Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words". Nothing is built in about neighbourhood: where a patch stands
is told by a vector that is learned and added to it. One token more, which stands for no patch, gathers what the head
needs.

Patches become vectors in one of two ways: cut and multiply, as the paper writes it, or slide a window as large as a
patch by as much as a patch. With the same weights the numbers are the same. Where the last patches reach over the edge,
there is 0: the mean gray of standardised pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.blocks import PreNormBlock
from pellucid.layers.convolution import Grid, grid_of
from pellucid.layers.feed_forward import FeedForward, Hidden, gain, output_head
from pellucid.layers.positions.encodings import LearnedPositions, NoPositions, resize_grid
from pellucid.models.contracts import ExampleModel
from pellucid.models.examples.cnn import require_size
from pellucid.models.examples.configs import ViTConfig

SPREAD = 0.02  # of positions at first: hardly any, so that what they become was learned


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


class ViT(ExampleModel):
    """Patches, a class token before them, positions, pre-norm blocks, and a head with one hidden layer.

    Of pictures of another size the positions are read off between those that were learned.

    >>> model = ViT(ViTConfig(numbers=(1, 8, 8), categories=(), outputs=10, patch=2, width=8, n_heads=2))
    >>> [model(torch.zeros(5, 1, height, 8), torch.zeros(5, 0)).shape for height in (8, 12)]
    [torch.Size([5, 10]), torch.Size([5, 10])]
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.patches = PROJECTIONS[config.projection](config.numbers[0], config.patch, width)
        self.class_token = nn.Parameter(torch.zeros(width))
        n_patches = config.grid[0] * config.grid[1]
        self.positions = LearnedPositions(1 + n_patches, width) if config.positions == "learned" else NoPositions()
        if isinstance(self.positions, LearnedPositions):
            nn.init.normal_(self.positions.table.weight, std=SPREAD)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            PreNormBlock(width, config.n_heads, feed_forward=FeedForward(width), dropout=config.dropout)
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width)
        self.summary = Hidden(width, config.hidden, function="gelu")
        self.head = output_head(config.hidden, config.outputs, gain("gelu"))

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        stream = self.stream(numbers)
        for block in self.blocks:
            stream = block(stream)
        scores: Tensor = self.head(self.summary(self.norm(stream[:, 0])))
        return scores

    def stream(self, numbers: Tensor) -> Tensor:
        """What the first block reads: (batch, channels, height, width) -> (batch, 1 + patches, width)."""
        require_size(numbers, (self.config.numbers[0], 1, 1), or_larger=True)
        vectors = self.patches(numbers)
        stream = torch.cat([self.class_token.expand(vectors.shape[0], 1, -1), vectors], dim=1)
        where = self.where(grid_of(numbers.shape[2], numbers.shape[3], self.config.patch))
        placed: Tensor = self.dropout(stream if where is None else stream + where)
        return placed

    def where(self, grid: Grid) -> Tensor | None:
        """The positions of the class token and of the patches of a grid, (1 + rows · columns, width), if there are any.

        For the grid that the network is made for they are those that were learned.
        """
        own = self.config.grid
        learned = self.positions.embeddings(0, 1 + own[0] * own[1])
        return learned if learned is None or grid == own else resize_grid(learned, own, grid, n_apart=1)

    def attention_maps(self, numbers: Tensor) -> Tensor:
        """How much of each token every token takes, in each block and head: (depth, batch, heads, n, n).

        Token 0 is the class token, and the patches follow row after row. Each row sums to one.
        """
        stream, maps = self.stream(numbers), []
        for block in self.blocks:
            assert isinstance(block, PreNormBlock)
            maps.append(block.weights(stream))
            stream = block(stream)
        return torch.stack(maps)
