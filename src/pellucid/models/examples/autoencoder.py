"""Autoencoder: the example goes through a narrow place and has to come out as it was.

Nothing tells it what an example means; what survives the narrow place is what examples have in common. Without hidden
layers it can do no better than the first principal axes (Baldi and Hornik 1989), and hidden layers let the axes bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from pellucid.errors import PellucidError, require_one_of
from pellucid.layers.activations import ACTIVATIONS, gain
from pellucid.layers.columns import one_hot_row
from pellucid.layers.hidden import Hidden, head
from pellucid.models.examples.contract import ExampleCard, Inputs, Reconstructor
from pellucid.models.examples.shapes import require_shapes
from pellucid.models.network import Recipe
from pellucid.options import require_whole


@dataclass(frozen=True)
class AutoencoderConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int  # as many as the row has: numbers, and one for each code of each category
    latent: int = 2  # numbers in the narrow place
    hidden: int = 64
    depth: int = 1  # hidden layers on each side of the narrow place; 0 for none
    activation: str = "gelu"

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
        require_whole("latent", self.latent, most=row - 1)
        require_whole("hidden", self.hidden)
        require_whole("depth", self.depth, least=0)
        require_one_of("activation", self.activation, tuple(ACTIVATIONS))


class Autoencoder(Reconstructor):
    """Encoder, narrow place, decoder: all dense, the decoder a mirror of the encoder.

    The narrow place is linear, so that it is bounded by nothing but its width. The head begins small: the first answer
    is hardly more than 0, the mean of every standardised number, and the first loss is the variance.

    >>> import torch
    >>> model = Autoencoder(AutoencoderConfig(numbers=(1, 8, 8), categories=(), outputs=64, latent=3))
    >>> images, no_codes = torch.randn(5, 1, 8, 8), torch.zeros(5, 0, dtype=torch.long)
    >>> model.latent(images, no_codes).shape, model(images, no_codes).shape
    (torch.Size([5, 3]), torch.Size([5, 64]))
    """

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        factor = gain(config.activation)
        self.encoder = _stack(config.outputs, config)
        self.narrow = nn.Linear(config.hidden if config.depth else config.outputs, config.latent)
        nn.init.normal_(self.narrow.weight, std=(factor if config.depth else 1.0) * self.narrow.in_features**-0.5)
        nn.init.zeros_(self.narrow.bias)
        self.decoder = _stack(config.latent, config)
        self.head = head(
            config.hidden if config.depth else config.latent, config.outputs, factor if config.depth else 1.0
        )

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.decoded(self.latent(numbers, codes))

    def wanted(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return one_hot_row(numbers, codes, self.config.categories)

    def latent(self, numbers: Tensor, codes: Tensor) -> Tensor:
        narrow: Tensor = self.narrow(self.encoder(self.wanted(numbers, codes)))
        return narrow

    def decoded(self, latent: Tensor) -> Tensor:
        """The row that belongs to any point of the narrow place: (batch, latent) -> (batch, outputs)."""
        row: Tensor = self.head(self.decoder(latent))
        return row


def _stack(inputs: int, config: AutoencoderConfig) -> nn.Sequential:
    """`depth` hidden layers over inputs of mean square 1."""
    layers = nn.Sequential()
    for number in range(config.depth):
        over = (inputs, 1.0) if number == 0 else (config.hidden, gain(config.activation))
        layers.append(Hidden(over[0], config.hidden, over[1], config.activation))
    return layers


def row_width(numbers: tuple[int, ...], categories: tuple[int, ...]) -> int:
    """How many numbers an example has as one row.

    >>> row_width((5,), (3, 4)), row_width((1, 8, 8), ())
    (12, 64)
    """
    return prod(numbers) + sum(categories)


def sized(size: str, inputs: Inputs) -> AutoencoderConfig:
    """The narrow place has at most half of what the row has. What else the data are labelled with does not matter."""
    latent, hidden, depth = {
        "tiny": (2, 64, 1),
        "small": (8, 128, 1),
        "medium": (16, 256, 1),
        "large": (32, 256, 2),
    }[size]
    row = row_width(inputs.numbers, inputs.categories)
    return AutoencoderConfig(inputs.numbers, inputs.categories, row, max(1, min(latent, row // 2)), hidden, depth)


MODEL = ExampleCard(
    name="autoencoder",
    says="the example through a narrow place and out again: what survives is what examples have in common",
    config=AutoencoderConfig,
    build=Autoencoder,
    sized=sized,
    tiny=AutoencoderConfig(numbers=(5,), categories=(3, 4), outputs=12, latent=4, hidden=16),
    tiny_inputs=Inputs(numbers=(5,), categories=(3, 4), outputs=12),
    recipe=Recipe(rate=5e-3, batch=32, weight_decay=0.01, epochs=100.0),
)
