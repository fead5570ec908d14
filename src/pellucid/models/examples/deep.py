"""What plain and residual networks share: many equal blocks, of which each may be left out to see what it was worth."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection
from math import prod
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from pellucid.layers.activations import gain
from pellucid.layers.columns import Columns
from pellucid.layers.hidden import Hidden, head
from pellucid.models.examples.configs import DeepConfig
from pellucid.models.examples.contract import ExampleModel


class Feature(nn.Module):
    """feat(X) = W₂·f(norm(W₁·X + b₁)) + b₂: (batch, width) -> the same.

    scale: the deviation of what comes out at first, for inputs of mean square 1; at 0 nothing does.
    """

    def __init__(self, config: DeepConfig, scale: float) -> None:
        super().__init__()
        self.hidden = Hidden(config.width, config.width, 1.0, config.activation, config.norm, config.groups)
        self.dropout = nn.Dropout(config.dropout)
        self.back = nn.Linear(config.width, config.width)
        nn.init.normal_(self.back.weight, std=scale * gain(config.activation) * config.width**-0.5)
        nn.init.zeros_(self.back.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.back(self.dropout(self.hidden(x)))
        return y


class Deep(ExampleModel):
    """Columns, a linear stem to `width`, `depth` blocks, head. How X and feat(X) are joined tells them apart.

    scale: the deviation of every feat(X) at first.
    """

    def __init__(self, config: DeepConfig, scale: float) -> None:
        super().__init__()
        self.columns = Columns(prod(config.numbers), config.categories, config.embedding)
        self.stem = nn.Linear(self.columns.width, config.width)
        nn.init.normal_(self.stem.weight, std=self.columns.width**-0.5)
        nn.init.zeros_(self.stem.bias)
        self.blocks = nn.ModuleList([Feature(config, scale) for _ in range(config.depth)])
        self.head = head(config.width, config.outputs, 1.0)

    @abstractmethod
    def joined(self, x: Tensor, feat: Tensor) -> Tensor:
        """F(X), of X and feat(X)."""

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.without((), numbers, codes)

    def without(self, blocks: Collection[int], numbers: Tensor, codes: Tensor) -> Tensor:
        """The scores when feat(X) of these blocks, counted from 0, is zero: (batch, outputs)."""
        x = self.stem(self.columns(numbers, codes))
        for number, block in enumerate(self.blocks):
            x = self.joined(x, torch.zeros_like(x) if number in blocks else block(x))
        scores: Tensor = self.head(x)
        return scores

    def for_inference(self) -> Self:
        """The same function with every batch norm folded into the linear layer before it."""
        ready = copy.deepcopy(self).eval()
        for block in ready.blocks:
            assert isinstance(block, Feature)
            block.hidden.fold()
        return ready


class Depth(NamedTuple):
    """The mean loss of a deep network as it is, and with each of its blocks left out alone."""

    whole: float
    without: tuple[float, ...]

    @property
    def lost(self) -> tuple[float, ...]:
        """What each block is worth: by how much the loss rises without it; below 0 it is better left out."""
        return tuple(loss - self.whole for loss in self.without)


@torch.no_grad()
def depth_of(
    model: Deep, numbers: Tensor, codes: Tensor, targets: Tensor, losses: Callable[[Tensor, Tensor], Tensor]
) -> Depth:
    """What is lost on these examples when block i is left out, for each i; losses as those of `layers.losses`."""
    ready = model.for_inference()
    whole = losses(ready(numbers, codes), targets).mean().item()
    without = [losses(ready.without((i,), numbers, codes), targets).mean().item() for i in range(len(model.blocks))]
    return Depth(whole, tuple(without))
