"""Residual: many blocks, each adding to what came in, F(X) = X + feat(X) (He et al. 2015).

To hand on X unchanged a block need only be zero, which is where it begins. The gradient comes back as 1 + dfeat/dX:
whatever the blocks do, one way leads around all of them. So a trained block may be left out, and the rest still works.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass, replace

from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.models.examples.contract import ExampleCard, Inputs
from pellucid.models.examples.deep import Deep, require_deep
from pellucid.models.network import Recipe


@dataclass(frozen=True)
class ResidualConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int
    width: int = 64
    depth: int = 8  # blocks of two linear layers each
    embedding: int = 4  # numbers for each category
    activation: str = "gelu"
    norm: str = "none"  # before the activation of each block
    groups: int = 8  # of group norm; the channels of instance norm
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_deep(self)


class Residual(Deep):
    """F(X) = X + feat(X), with feat = 0 at first: a new network is as shallow as its stem and head.

    >>> import torch
    >>> model = Residual(ResidualConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> torch.equal(model(two_rows, no_codes), model.without([0, 1, 2], two_rows, no_codes))
    True
    """

    def __init__(self, config: ResidualConfig) -> None:
        super().__init__(config, scale=0.0)
        self.config = config

    def joined(self, x: Tensor, feat: Tensor) -> Tensor:
        return x + feat

    def shortened(self, blocks: Collection[int]) -> Residual:
        """A copy that does not have these blocks: what `without` says, at the price of the blocks that are left."""
        kept = [block for number, block in enumerate(self.blocks) if number not in blocks]
        if not kept:
            raise PellucidError(f"all {len(self.blocks)} blocks would be left out", fix="Keep at least one")
        short = copy.deepcopy(self)
        short.blocks = copy.deepcopy(nn.ModuleList(kept))
        short.config = replace(self.config, depth=len(kept))
        return short


def sized(size: str, inputs: Inputs) -> ResidualConfig:
    width, depth = {"tiny": (32, 4), "small": (64, 8), "medium": (128, 12), "large": (256, 16)}[size]
    return ResidualConfig(inputs.numbers, inputs.categories, inputs.outputs, width, depth)


MODEL = ExampleCard(
    name="residual",
    says="many blocks that each add to what came in, F(X) = X + feat(X), so that any may be left out",
    config=ResidualConfig,
    build=Residual,
    sized=sized,
    tiny=ResidualConfig(numbers=(5,), categories=(3, 4), outputs=3, width=16, depth=3, embedding=2, norm="batch"),
    tiny_inputs=Inputs(numbers=(5,), categories=(3, 4), outputs=3),
    recipe=Recipe(rate=3e-3, batch=32, weight_decay=0.3, epochs=20.0),
)
