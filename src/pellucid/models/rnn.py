"""RNN: what is remembered is mixed anew with every token, h' = tanh(W x + U h + b).

Elman 1990, "Finding Structure in Time". The gradient comes back through one U for each token, so that it fades or
explodes with the distance; gates (gru, lstm) are the remedy.
"""

from __future__ import annotations

from torch import Tensor, nn

from pellucid.models.recurrent import RecurrentModel
from pellucid.models.sequences.configs import RecurrentConfig


class RNN(RecurrentModel[Tensor]):
    """Embedding, `depth` layers of torch's nn.RNN with tanh, head.

    >>> import torch
    >>> model = RNN(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, nn.RNN)

    def begin(self, batch: int) -> Tensor:
        return self.nothing(batch)

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[:, rows]
