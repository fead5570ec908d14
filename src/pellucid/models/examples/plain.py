"""Plain: many blocks one after another, F(X) = feat(X). The twin of `residual`, without the way around.

Each block has to hand on all that later ones need, and a gradient comes back through every one of them. What that costs
is what the twin is there to show.
"""

from __future__ import annotations

from torch import Tensor

from pellucid.models.examples.configs import DeepConfig
from pellucid.models.examples.deep import Deep


class Plain(Deep):
    """F(X) = feat(X), each block drawn so that the next reads mean square 1.

    A block whose feat is zero hands on nothing: all examples get the same scores.

    >>> import torch
    >>> model = Plain(DeepConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> first, second = model.without([1], two_rows, no_codes)
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, config: DeepConfig) -> None:
        super().__init__(config, scale=1.0)
        self.config = config

    def joined(self, x: Tensor, feat: Tensor) -> Tensor:
        return feat
