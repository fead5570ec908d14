"""RNN: what is remembered is mixed anew with every token, h' = tanh(W x + U h + b).

Elman 1990, "Finding Structure in Time". The gradient comes back through one U for each token, so that it fades or
explodes with the distance; gates (gru, lstm) are the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.models.neural import NeuralCard, Recipe
from pellucid.models.recurrent import RecurrentConfig, RecurrentModel, width_and_depth


@dataclass(frozen=True)
class RNNConfig(RecurrentConfig):
    pass


class RNN(RecurrentModel[Tensor]):
    """Embedding, `depth` layers of torch's nn.RNN with tanh, head.

    >>> import torch
    >>> model = RNN(RNNConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RNNConfig) -> None:
        super().__init__(config, nn.RNN)

    def begin(self, batch: int) -> Tensor:
        return self.nothing(batch)

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[:, rows]


def sized(size: str, vocab_size: int, context: int) -> RNNConfig:
    return RNNConfig(vocab_size, *width_and_depth(size))


MODEL = NeuralCard(
    name="rnn",
    says="one vector carried from token to token and mixed anew with each",
    config=RNNConfig,
    build=RNN,
    sized=sized,
    tiny=RNNConfig(vocab_size=5, width=16, depth=2),
    recipe=Recipe(optimizer="muon", rate=0.01, matrix_rate=0.02, batch=128, weight_decay=0.0, epochs=8.0),
)
