"""LSTM: beside what it says at each token it carries a cell that is only ever added to, and gates to guard it.

Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. With gates f, i and o between 0 and 1,
c' = f ∘ c + i ∘ tanh(W x + U h + b) and h' = o ∘ tanh(c').
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from pellucid.models.neural import NeuralCard, Recipe
from pellucid.models.recurrent import RecurrentConfig, RecurrentModel, width_and_depth

Cells = tuple[Tensor, Tensor]  # what was said last and the cell, each (depth, batch, width)


@dataclass(frozen=True)
class LSTMConfig(RecurrentConfig):
    pass


class LSTM(RecurrentModel[Cells]):
    """Embedding, `depth` layers of torch's nn.LSTM, head.

    >>> import torch
    >>> model = LSTM(LSTMConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config, nn.LSTM)
        for layer in range(config.depth):
            # The gates stand in the order input, forget, cell, output. A forget gate that is open at first lets the
            # gradient through from the beginning (Jozefowicz et al. 2015).
            bias: nn.Parameter = getattr(self.cell, f"bias_ih_l{layer}")
            nn.init.ones_(bias[config.width : 2 * config.width])

    def begin(self, batch: int) -> Cells:
        return self.nothing(batch), self.nothing(batch)

    def keep(self, state: Cells, rows: Tensor) -> Cells:
        said, cell = state
        return said[:, rows], cell[:, rows]


def sized(size: str, vocab_size: int, context: int) -> LSTMConfig:
    return LSTMConfig(vocab_size, *width_and_depth(size))


MODEL = NeuralCard(
    name="lstm",
    says="a cell carried from token to token that gates let forget, write and speak",
    config=LSTMConfig,
    build=LSTM,
    sized=sized,
    tiny=LSTMConfig(vocab_size=5, width=16, depth=2),
    recipe=Recipe(optimizer="muon", rate=0.01, matrix_rate=0.02, batch=128, weight_decay=0.0, epochs=6.0),
)
