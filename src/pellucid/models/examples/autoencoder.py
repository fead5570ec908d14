"""Autoencoder: the example goes through a narrow place and has to come out as it was.

Nothing tells it what an example means; what survives the narrow place is what examples have in common. Without hidden
layers it can do no better than the first principal axes (Baldi and Hornik 1989), and hidden layers let the axes bend.
"""

from __future__ import annotations

from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.columns import one_hot_row
from pellucid.layers.hidden import Hidden, head
from pellucid.models.examples.configs import AutoencoderConfig
from pellucid.models.examples.contract import Reconstructor


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
