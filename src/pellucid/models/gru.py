"""GRU: gates decide, number by number, how much of the memory is kept and how much is written anew.

Cho et al. 2014. With update gate z and reset gate r, h' = z ∘ h + (1 - z) ∘ tanh(W x + r ∘ U h + b): where z is near 1
the memory passes unchanged, and so does its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.models.neural import NeuralCard, Recipe
from pellucid.models.recurrent import RecurrentConfig, RecurrentModel, width_and_depth


@dataclass(frozen=True)
class GRUConfig(RecurrentConfig):
    pass


class GRU(RecurrentModel[Tensor]):
    """Embedding, `depth` layers of torch's nn.GRU, head.

    >>> import torch
    >>> model = GRU(GRUConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: GRUConfig) -> None:
        super().__init__(config, nn.GRU)

    def begin(self, batch: int) -> Tensor:
        return self.nothing(batch)

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[:, rows]


def sized(size: str, vocab_size: int, context: int) -> GRUConfig:
    return GRUConfig(vocab_size, *width_and_depth(size))


MODEL = NeuralCard(
    name="gru",
    says="one vector carried from token to token; gates decide what is kept and what is written anew",
    config=GRUConfig,
    build=GRU,
    sized=sized,
    tiny=GRUConfig(vocab_size=5, width=16, depth=2),
    recipe=Recipe(optimizer="muon", rate=0.01, matrix_rate=0.02, batch=128, weight_decay=0.0, epochs=6.0),
)
