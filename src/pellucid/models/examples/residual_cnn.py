"""Residual CNN: many small filters, each block adding to what the one before it left, and a mean over all places.

After He, Zhang, Ren and Sun 2016, "Deep Residual Learning for Image Recognition", at a size for two processor cores:

    first filters      width channels, in steps of `stride`
    a stage            `depth` blocks of two 3 × 3 convolutions
    each stage on      half of the places, twice the channels
    mean, head         one number for each channel, wherever in the picture it was found
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.filters import Filters, ResidualBlock, ShrinkingBlock
from pellucid.layers.hidden import head
from pellucid.models.examples.configs import ResidualCNNConfig
from pellucid.models.examples.contract import ExampleModel
from pellucid.models.examples.images import require_size


class ResidualCNN(ExampleModel):
    """Filters, stages of residual blocks, mean over all places, head. It reads pictures of any size.

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
        self.head = head(channels, config.outputs, gain("relu"))

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        require_size(numbers, (self.config.numbers[0], 1, 1), or_larger=True)
        # The same numbers with the channels of a pixel side by side: convolutions and norms read them faster so.
        maps = self.blocks(self.activation(self.first(numbers.to(memory_format=torch.channels_last))))
        scores: Tensor = self.head(self.dropout(maps.mean((2, 3))))
        return scores

    def for_inference(self) -> ResidualCNN:
        """The same function with every batch norm folded into the convolution before it."""
        ready = copy.deepcopy(self).eval()
        for part in ready.modules():
            if isinstance(part, Filters):
                part.fold()
        return ready
