"""MLP: the columns of a row, or the pixels of an image, through hidden layers."""

from __future__ import annotations

import copy
from math import prod

from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.columns import Columns
from pellucid.layers.hidden import Hidden, head
from pellucid.models.examples.configs import RowMLPConfig
from pellucid.models.examples.contract import ExampleModel


class RowMLP(ExampleModel):
    """Columns, hidden layers, head.

    Weights are drawn so that every pre-activation begins with variance 1: N(0, 1 / fan_in) over the columns, which are
    standardised, and N(0, gain² / fan_in) over activations.

    >>> model = RowMLP(RowMLPConfig(numbers=(4,), categories=(), outputs=1))
    >>> model.n_parameters
    4545
    """

    def __init__(self, config: RowMLPConfig) -> None:
        super().__init__()
        self.config = config
        self.columns = Columns(prod(config.numbers), config.categories, config.embedding)
        factor, kind = gain(config.activation), (config.activation, config.norm, config.groups)
        self.layers = nn.ModuleList([Hidden(self.columns.width, config.hidden, 1.0, *kind)])
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(config.hidden, config.hidden, factor, *kind))
        self.dropout = nn.Dropout(config.dropout)
        self.head = head(config.hidden, config.outputs, factor)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        x = self.columns(numbers, codes)
        for layer in self.layers:
            x = self.dropout(layer(x))
        scores: Tensor = self.head(x)
        return scores

    def for_inference(self) -> RowMLP:
        """The same function with every batch norm folded into the linear layer before it."""
        ready = copy.deepcopy(self).eval()
        for layer in ready.layers:
            assert isinstance(layer, Hidden)
            layer.fold()
        return ready
