"""Residual: many blocks, each adding to what came in, F(X) = X + feat(X) (He et al. 2015).

To hand on X unchanged a block need only be zero, which is where it begins. The gradient comes back as 1 + dfeat/dX:
whatever the blocks do, one way leads around all of them. So a trained block may be left out, and the rest still works.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace

from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.models.examples.configs import DeepConfig
from pellucid.models.examples.deep import Deep


class Residual(Deep):
    """F(X) = X + feat(X), with feat = 0 at first: a new network is as shallow as its stem and head.

    >>> import torch
    >>> model = Residual(DeepConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> torch.equal(model(two_rows, no_codes), model.without([0, 1, 2], two_rows, no_codes))
    True
    """

    def __init__(self, config: DeepConfig) -> None:
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
