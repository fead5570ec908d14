"""CNN: small windows slide over the picture and look for the same thing everywhere; pooling keeps that it was there.

LeNet's plan (LeCun et al. 1998) at its smallest: convolution, pooling, ReLU, twice, and a head.
Of a gray picture of 32 × 32:

    8 filters 5 × 5     8 × 28 × 28     208 parameters
    pooled by 4         8 ×  7 ×  7
    16 filters 4 × 4   16 ×  6 ×  6   2,064 parameters, one place of padding
    pooled by 2        16 ×  3 ×  3
    head               10             1,450 parameters
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.layers.convolution import Pair
from pellucid.layers.feed_forward import gain, output_head
from pellucid.layers.norms import BatchNorm, Foldable
from pellucid.models.contracts import ExampleModel
from pellucid.models.examples.configs import CNNConfig, ResidualCNNConfig, shape_text

POOLS: Mapping[str, Callable[[int], nn.Module]] = MappingProxyType({"average": nn.AvgPool2d, "max": nn.MaxPool2d})


class LinearHead(nn.Module):
    """One weight for every channel at every place, for pictures of one size: maps (batch, channels, *size).

    Like all heads it answers with (batch, outputs, rows, columns) of scores, and here that is one place.
    """

    reads_larger = False

    def __init__(self, channels: int, size: Pair, outputs: int) -> None:
        super().__init__()
        self.score = nn.Linear(channels * size[0] * size[1], outputs)
        _little(self.score.weight, self.score.bias)

    def forward(self, maps: Tensor) -> Tensor:
        scores: Tensor = self.score(maps.flatten(1))
        return scores[:, :, None, None]


class ConvolutionHead(nn.Module):
    """The same as a window as large as the maps: with the weights of a `LinearHead` it is the same function.

    Of a larger picture the window has several places, and each has its scores.
    """

    reads_larger = True

    def __init__(self, channels: int, size: Pair, outputs: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(channels, outputs, size)
        _little(self.score.weight, self.score.bias)

    def forward(self, maps: Tensor) -> Tensor:
        scores: Tensor = self.score(maps)
        return scores


class PooledHead(nn.Module):
    """Every place of the maps has its scores by the same weights, and a window as large as the maps averages them."""

    reads_larger = True

    def __init__(self, channels: int, size: Pair, outputs: int) -> None:
        super().__init__()
        self.score = nn.Conv2d(channels, outputs, 1)
        self.pool = nn.AvgPool2d(size, stride=1)
        _little(self.score.weight, self.score.bias)

    def forward(self, maps: Tensor) -> Tensor:
        scores: Tensor = self.pool(self.score(maps))
        return scores


Head = LinearHead | ConvolutionHead | PooledHead
HEADS: Mapping[str, Callable[[int, Pair, int], Head]] = MappingProxyType(
    {"linear": LinearHead, "conv": ConvolutionHead, "pooled": PooledHead}
)


class CNN(ExampleModel):
    """Convolution, pooling, ReLU for each of the filters, then a head.

    >>> model = CNN(CNNConfig(numbers=(1, 32, 32), categories=(), outputs=10))
    >>> model.n_parameters
    3722
    >>> model(torch.zeros(5, 1, 32, 32), torch.zeros(5, 0)).shape
    torch.Size([5, 10])
    """

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.Sequential()
        before, scale = config.numbers[0], 1.0
        for channels, kernel, padding, pool in zip(
            config.filters, config.kernels, config.paddings, config.pools, strict=True
        ):
            convolution = nn.Conv2d(before, channels, kernel, padding=padding)
            nn.init.normal_(convolution.weight, std=scale * (before * kernel**2) ** -0.5)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
            self.layers.extend([convolution, POOLS[config.pool](pool), nn.ReLU()])
            before, scale = channels, gain("relu")
        self.dropout = nn.Dropout(config.dropout)
        last = config.stages()[-1]
        self.head = HEADS[config.head](last.channels, last.size, config.outputs)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Of a picture larger than the network was made for, the mean of the scores at all places of the head."""
        return self.scores_at(numbers).mean((2, 3))

    def scores_at(self, numbers: Tensor) -> Tensor:
        """numbers: (batch, channels, height, width) -> (batch, outputs, rows, columns): the scores at each place.

        For the size that the network was made for there is one place. Only a fully convolutional head ("conv" or
        "pooled") reads a larger picture. Its places are as far apart as all poolings together, and each is what the
        network would say of the part of the picture there, but that a part has padding at its edges where the whole
        picture goes on.

        >>> model = CNN(CNNConfig(numbers=(1, 32, 32), categories=(), outputs=10, head="conv"))
        >>> model.scores_at(torch.zeros(5, 1, 40, 64)).shape
        torch.Size([5, 10, 2, 5])
        """
        require_size(numbers, self.config.numbers, or_larger=self.head.reads_larger)
        # The same numbers with the channels of a pixel side by side: convolutions take half the time.
        scores: Tensor = self.head(self.dropout(self.layers(numbers.to(memory_format=torch.channels_last))))
        return scores


def _little(weight: Tensor, bias: Tensor | None) -> None:
    """A tenth of the deviation that keeps variances: no class is much likelier at first, and the first loss is ln n."""
    assert bias is not None
    nn.init.normal_(weight, std=0.1 * gain("relu") * weight[0].numel() ** -0.5)
    nn.init.zeros_(bias)


def require_size(pictures: Tensor, made_for: tuple[int, ...], *, or_larger: bool) -> None:
    """Refuse pictures, (batch, channels, height, width), that a network made for one shape cannot read.

    >>> import torch
    >>> require_size(torch.zeros(2, 1, 9, 8), (1, 8, 8), or_larger=False)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: an image of 1 × 9 × 8 came, and the network is made for 1 × 8 × 8. Resize it.
    """
    shape = tuple(pictures.shape[1:])
    if shape == made_for:
        return
    fits = len(shape) == 3 and shape[0] == made_for[0] and shape[1] >= made_for[1] and shape[2] >= made_for[2]
    if not (or_larger and fits):
        raise PellucidError(
            f"an image of {shape_text(shape)} came, and the network is made for {shape_text(made_for)}",
            fix="Resize it, but not to less" if or_larger else "Resize it",
        )


class Filters(Foldable):
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


class ResidualCNN(ExampleModel):
    """Filters, stages of residual blocks, mean over all places, head. It reads pictures of any size.

    Residual CNN: many small filters, each block adding to what the one before it left, and a mean over all places.
    After He, Zhang, Ren and Sun 2016, "Deep Residual Learning for Image Recognition", at a size for two processor
    cores:

        first filters    width channels, in steps of `stride`
        each stage       `depth` blocks of two 3 × 3 convolutions; from the second on half of the places a side and
                         twice the channels
        mean, head       one number for each channel, wherever in the picture it was found

    >>> model = ResidualCNN(ResidualCNNConfig(numbers=(1, 32, 32), categories=(), outputs=10))
    >>> model.n_parameters
    78010
    >>> model.eval()(torch.zeros(5, 1, 32, 32), torch.zeros(5, 0)).shape
    torch.Size([5, 10])
    """

    def __init__(self, config: ResidualCNNConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.width
        # In steps of 2 a window of 5 still sees every pixel more than once.
        self.first = Filters(config.numbers[0], channels, kernel=2 * config.stride + 1, stride=config.stride)
        self.activation = nn.ReLU()
        self.blocks = nn.Sequential(ResidualBlock(channels))
        for stage in range(config.stages):
            if stage:
                self.blocks.append(ShrinkingBlock(channels))
                channels *= 2
            for _ in range(config.depth - 1):
                self.blocks.append(ResidualBlock(channels))
        self.dropout = nn.Dropout(config.dropout)
        self.head = output_head(channels, config.outputs, gain("relu"))

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        require_size(numbers, (self.config.numbers[0], 1, 1), or_larger=True)
        # The same numbers with the channels of a pixel side by side: convolutions and norms read them faster so.
        maps = self.blocks(self.activation(self.first(numbers.to(memory_format=torch.channels_last))))
        scores: Tensor = self.head(self.dropout(maps.mean((2, 3))))
        return scores
