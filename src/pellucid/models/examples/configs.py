"""Configs of the networks for rows of a table and for images. Nothing here needs torch.

Each has `numbers`, `categories` and `outputs`, the shape of the data (see `ExampleShape`), and settings of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Self

from pellucid.errors import PellucidError
from pellucid.layers.convolution import Convolution, Grid, Layer, Pooling, Stage, grid_of, stages
from pellucid.models.settings import require_heads, require_norm_groups, setting
from pellucid.options import check_options, option, require_whole

SMALL = 16  # pixels: in smaller images windows of 5 and pooling by 4 leave nothing


class ExampleShape(NamedTuple):
    """The shape of one example, and how many scores are wanted for it.

    >>> ExampleShape(numbers=(1, 8, 8), categories=(), outputs=10).is_image
    True
    """

    numbers: tuple[int, ...]  # (features,) of a table; (channels, height, width) of an image
    categories: tuple[int, ...]  # how many codes each category column has, 0 for "unknown" included
    outputs: int  # classes; 1 for a number

    @classmethod
    def of(cls, config: ExampleConfig) -> ExampleShape:
        """What a network of this config reads."""
        return cls(config.numbers, config.categories, config.outputs)

    @property
    def is_image(self) -> bool:
        return len(self.numbers) == 3

    @property
    def n_numbers(self) -> int:
        return prod(self.numbers)


@dataclass(frozen=True)
class LogisticConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> LogisticConfig:
        """It comes in one size, which the data decide."""
        return cls(*inputs)


@dataclass(frozen=True)
class RowMLPConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int
    hidden: int = setting("hidden", 64)
    depth: int = setting("depth", 2)
    embedding: int = setting("embedding", 4)
    activation: str = setting("activation", "gelu")
    norm: str = setting("norm", "none")  # after each hidden linear layer, before the activation
    groups: int = setting("groups", 8)
    dropout: float = setting("dropout", 0.0)  # after each hidden layer

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)
        check_options(self)
        require_norm_groups("hidden", self.hidden, self.norm, self.groups)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> RowMLPConfig:
        """small is two hidden layers of 64.

        Batch norm helped on images (digits: a dev loss of 0.073 with it and 0.103 without), and it hurt on tables (the
        polynomial: 0.026 and 0.005).
        """
        hidden, depth = {"tiny": (32, 1), "small": (64, 2), "medium": (256, 2), "large": (512, 3)}[size]
        norm = "batch" if inputs.is_image else "none"
        return cls(*inputs, hidden, depth, norm=norm)


@dataclass(frozen=True)
class TabMConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int
    hidden: int = setting("hidden", 128)
    depth: int = setting("depth", 2)
    members: int = option(
        8, "Members of the ensemble that TabM is.", noun="the number of members", minimum=1, maximum=256
    )
    bins: int = option(
        16,
        "Intervals of each number in which TabM may bend, equally full on train.",
        noun="the number of bins",
        minimum=1,
    )
    embedding: int = setting("embedding", 8)
    activation: str = setting("activation", "relu")
    dropout: float = setting("dropout", 0.0)  # after each hidden layer

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)
        check_options(self)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> TabMConfig:
        """Of many columns each has a shorter vector, so that the first matrix stays small beside the rows, and bends
        less: of ten thousand numbers 16 intervals each took five times as long a step as one.

        >>> wide = TabMConfig.of_size("tiny", ExampleShape(numbers=(10_000,), categories=(), outputs=2))
        >>> wide.embedding, wide.bins
        (1, 1)
        """
        hidden, depth = {"tiny": (64, 2), "small": (128, 2), "medium": (192, 2), "large": (256, 3)}[size]
        n_columns = inputs.n_numbers + len(inputs.categories)
        bins = max(1, min(16, 16_000 // max(1, inputs.n_numbers)))
        return cls(*inputs, hidden, depth, bins=bins, embedding=max(1, min(8, 1_024 // max(1, n_columns))))


@dataclass(frozen=True)
class DeepConfig:
    """Plain and residual networks are told the same, so that only the way around the blocks tells them apart."""

    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int
    width: int = setting("width", 64)
    depth: int = setting("depth", 8)  # blocks of two linear layers each
    embedding: int = setting("embedding", 4)
    activation: str = setting("activation", "gelu")
    norm: str = setting("norm", "none")  # before the activation of each block
    groups: int = setting("groups", 8)
    dropout: float = setting("dropout", 0.0)

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)
        check_options(self)
        require_norm_groups("width", self.width, self.norm, self.groups)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> Self:
        width, depth = {"tiny": (32, 4), "small": (64, 8), "medium": (128, 12), "large": (256, 16)}[size]
        return cls(*inputs, width, depth)


@dataclass(frozen=True)
class AutoencoderConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int  # as many as the row has: numbers, and one for each code of each category
    latent: int = setting("latent", 2)
    hidden: int = setting("hidden", 64)
    depth: int = setting("depth", 1, minimum=0)  # hidden layers on each side of the latent layer; 0 for none
    activation: str = setting("activation", "gelu")

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)
        row = row_width(self.numbers, self.categories)
        if self.outputs != row:
            raise PellucidError(
                f"an autoencoder of rows of {row:,} numbers cannot have {self.outputs:,} outputs",
                fix=f"Give it {row:,}",
            )
        if row == 1:
            raise PellucidError(
                "a row of a single number cannot go through anything narrower", fix="Give it more columns"
            )
        check_options(self)
        require_whole("latent", self.latent, most=row - 1)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> AutoencoderConfig:
        """The latent layer has at most half of what the row has. The labels of the data do not matter."""
        latent, hidden, depth = {
            "tiny": (2, 64, 1),
            "small": (8, 128, 1),
            "medium": (16, 256, 1),
            "large": (32, 256, 2),
        }[size]
        row = row_width(inputs.numbers, inputs.categories)
        return cls(inputs.numbers, inputs.categories, row, max(1, min(latent, row // 2)), hidden, depth)


@dataclass(frozen=True)
class CNNConfig:
    numbers: tuple[int, ...]  # channels, height, width
    categories: tuple[int, ...]
    outputs: int
    filters: tuple[int, ...] = (8, 16)  # of each convolution
    kernels: tuple[int, ...] = (5, 4)  # their sides
    paddings: tuple[int, ...] = (0, 1)
    pools: tuple[int, ...] = (4, 2)  # the sides of what is pooled behind each of them
    pool: str = setting("pool", "average")
    head: str = setting("head", "linear")
    dropout: float = setting("dropout", 0.0)  # of what the head reads

    def __post_init__(self) -> None:
        require_image(self.numbers, self.categories, self.outputs)
        for field, least in {"filters": 1, "kernels": 1, "paddings": 0, "pools": 1}.items():
            values = getattr(self, field)
            if not isinstance(values, tuple) or not values or len(values) != len(self.filters):
                raise PellucidError(f"{field} is {values!r}", fix="Give one number for each convolution, as (8, 16)")
            for value in values:
                require_whole(f"one of {field}", value, least)
        check_options(self)
        self.stages()  # refuses a window that does not fit into what is left of the picture

    def stages(self) -> tuple[Stage, ...]:
        """What each convolution and each pooling puts out.

        >>> lenet = CNNConfig(numbers=(1, 32, 32), categories=(), outputs=10)
        >>> [stage.shape for stage in lenet.stages()], lenet.stages()[-1].field
        ([(8, 28, 28), (8, 7, 7), (16, 6, 6), (16, 3, 3)], (24, 24))
        """
        layers: list[Layer] = []
        for channels, kernel, padding, pool in zip(self.filters, self.kernels, self.paddings, self.pools, strict=True):
            layers.append(Convolution(channels, (kernel, kernel), padding=(padding, padding)))
            layers.append(Pooling((pool, pool), stride=(pool, pool)))
        channels, height, width = self.numbers
        return stages(channels, (height, width), layers)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> CNNConfig:
        """Tiny is LeNet's plan; the others are wider and pool by the maximum. Small pictures have smaller windows.

        >>> digits = CNNConfig.of_size("small", ExampleShape(numbers=(1, 8, 8), categories=(), outputs=10))
        >>> digits.filters, digits.kernels, digits.pools
        ((32, 64), (3, 3), (2, 1))
        """
        side, width = min(inputs.numbers[1:]), {"tiny": 8, "small": 16, "medium": 32, "large": 64}[size]
        if side >= SMALL:
            return cls(*inputs, filters=(width, 2 * width), pool="average" if size == "tiny" else "max")
        # Pooled again, a digit of 8 × 8 has 2 × 2 places left, and is told less well. Of so few pixels there are mostly
        # few pictures too, which dropout makes last longer.
        pools = (2 if side > 1 else 1, 1)
        filters = (2 * width, 4 * width)
        return cls(*inputs, filters, kernels=(3, 3), paddings=(1, 1), pools=pools, pool="max", dropout=0.5)


@dataclass(frozen=True)
class ResidualCNNConfig:
    numbers: tuple[int, ...]  # channels, height, width
    categories: tuple[int, ...]
    outputs: int
    width: int = setting("width", 16)  # channels of the first stage
    stages: int = setting("stages", 3)
    depth: int = setting("depth", 1)  # blocks of each stage
    stride: int = setting("stride", 2)
    dropout: float = setting("dropout", 0.0)  # of what the head reads

    def __post_init__(self) -> None:
        require_image(self.numbers, self.categories, self.outputs)
        check_options(self)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> ResidualCNNConfig:
        """Two of three stages for pictures below 16 pixels; first filters as coarse as leave about 16 places a side.

        >>> small = ResidualCNNConfig.of_size("small", ExampleShape(numbers=(1, 8, 8), categories=(), outputs=10))
        >>> small.stride, small.stages
        (1, 2)
        """
        width, depth = {"tiny": (8, 1), "small": (16, 1), "medium": (24, 1), "large": (32, 2)}[size]
        side = min(inputs.numbers[1:])
        stride = max(1, min(4, round(side / 16)))
        return cls(*inputs, width, 3 if side >= 16 else 2, depth, stride)


@dataclass(frozen=True)
class ViTConfig:
    numbers: tuple[int, ...]  # channels, height, width
    categories: tuple[int, ...]
    outputs: int
    patch: int = setting("patch", 4)
    width: int = setting("width", 64)
    depth: int = setting("depth", 4)
    n_heads: int = setting("n_heads", 4)
    hidden: int = setting("hidden", 64)  # of the head
    dropout: float = setting("dropout", 0.0)
    positions: str = setting("positions", "learned", choices=("learned", "none"))
    projection: str = setting("projection", "linear")

    def __post_init__(self) -> None:
        require_image(self.numbers, self.categories, self.outputs)
        check_options(self)
        require_heads(self.width, self.n_heads, self.positions)

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches in a picture of the size that the network is made for."""
        return grid_of(self.numbers[1], self.numbers[2], self.patch)

    @classmethod
    def of_size(cls, size: str, inputs: ExampleShape) -> ViTConfig:
        """About 4 patches a side, none smaller than 4 pixels.

        Patches half as large told less of the 8 × 8 digits and of the house numbers, at 2 and 4 times the cost.

        >>> digits, houses = (ExampleShape(numbers=(1, side, side), categories=(), outputs=10) for side in (8, 32))
        >>> ViTConfig.of_size("tiny", digits).patch, ViTConfig.of_size("tiny", houses).patch
        (4, 8)
        """
        depth, width, n_heads = {"tiny": (2, 16, 2), "small": (2, 32, 4), "medium": (4, 64, 4), "large": (6, 128, 4)}[
            size
        ]
        side = min(inputs.numbers[1:])
        patch = min(side, max(4, round(side / 4)))
        return cls(*inputs, patch, width, depth, n_heads, hidden=width)


ExampleConfig = (
    LogisticConfig | RowMLPConfig | DeepConfig | AutoencoderConfig | CNNConfig | ResidualCNNConfig | ViTConfig
)


def row_width(numbers: tuple[int, ...], categories: tuple[int, ...]) -> int:
    """How many numbers an example has as one row, categories one-hot.

    >>> row_width((5,), (3, 4)), row_width((1, 8, 8), ())
    (12, 64)
    """
    return prod(numbers) + sum(categories)


def require_shapes(numbers: object, categories: object, outputs: object) -> None:
    """Refuse what is no shape of an example: numbers of a table or an image, codes of each category, scores.

    >>> require_shapes((1, 8, 8), (), 10)
    >>> require_shapes((0,), (), 2)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is neither a number nor a category to read. Give at least one column.
    """
    if not isinstance(numbers, tuple) or len(numbers) not in (1, 3):
        raise PellucidError(
            f"numbers is {numbers!r}", fix="Give (features,) of a table, or (channels, height, width) of an image"
        )
    if not isinstance(categories, tuple):
        raise PellucidError(f"categories is {categories!r}", fix="Give the number of codes of each category column")
    require_whole("outputs", outputs)
    is_image = len(numbers) == 3
    for number in numbers:
        require_whole("a number of numbers", number, least=1 if is_image else 0)
    for codes in categories:
        require_whole("a number of codes", codes)
    if numbers == (0,) and not categories:
        raise PellucidError("there is neither a number nor a category to read", fix="Give at least one column")


def require_image(numbers: tuple[int, ...], categories: tuple[int, ...], outputs: int) -> None:
    """Refuse inputs that are no picture of channels, height and width.

    >>> require_image((64,), (), 10)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: an example has the shape 64, which is no image. Give (channels, height, width).
    """
    require_shapes(numbers, categories, outputs)
    if len(numbers) != 3:
        raise PellucidError(
            f"an example has the shape {shape_text(numbers)}, which is no image", fix="Give (channels, height, width)"
        )
    if categories:
        raise PellucidError(f"an image came with {len(categories)} columns of categories", fix="Leave them out")


def shape_text(numbers: tuple[int, ...]) -> str:
    return " × ".join(map(str, numbers)) or "nothing"
