"""GRU: gates decide, number by number, how much of the memory is kept and how much is written anew.

Cho et al. 2014. With update gate z and reset gate r, h' = z ∘ h + (1 - z) ∘ tanh(W x + r ∘ U h + b): where z is near 1
the memory passes unchanged, and so does its gradient.
"""

from __future__ import annotations

from torch import Tensor, nn

from pellucid.models.recurrent import RecurrentModel
from pellucid.models.sequences.configs import RecurrentConfig


class GRU(RecurrentModel[Tensor]):
    """Embedding, `depth` layers of torch's nn.GRU, head.

    >>> import torch
    >>> model = GRU(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, nn.GRU)

    def begin(self, batch: int) -> Tensor:
        return self.nothing(batch)

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[:, rows]
