"""Plain: many blocks one after another, F(X) = feat(X). The twin of `residual`, without the way around.

Each block has to hand on all that later ones need, and a gradient comes back through every one of them. What that costs
is what the twin is there to show.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pellucid.models.examples.contract import ExampleCard, Inputs
from pellucid.models.examples.deep import Deep, require_deep
from pellucid.models.network import Recipe


@dataclass(frozen=True)
class PlainConfig:
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


class Plain(Deep):
    """F(X) = feat(X), each block drawn so that the next reads mean square 1.

    A block whose feat is zero hands on nothing: all examples get the same scores.

    >>> import torch
    >>> model = Plain(PlainConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> first, second = model.without([1], two_rows, no_codes)
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, config: PlainConfig) -> None:
        super().__init__(config, scale=1.0)
        self.config = config

    def joined(self, x: Tensor, feat: Tensor) -> Tensor:
        return feat


def sized(size: str, inputs: Inputs) -> PlainConfig:
    width, depth = {"tiny": (32, 4), "small": (64, 8), "medium": (128, 12), "large": (256, 16)}[size]
    return PlainConfig(inputs.numbers, inputs.categories, inputs.outputs, width, depth)


MODEL = ExampleCard(
    name="plain",
    says="many blocks one after another, F(X) = feat(X): what residual is compared with",
    config=PlainConfig,
    build=Plain,
    sized=sized,
    tiny=PlainConfig(numbers=(5,), categories=(3, 4), outputs=3, width=16, depth=3, embedding=2, norm="batch"),
    tiny_inputs=Inputs(numbers=(5,), categories=(3, 4), outputs=3),
    recipe=Recipe(rate=3e-3, batch=32, weight_decay=0.3, epochs=20.0),
)
