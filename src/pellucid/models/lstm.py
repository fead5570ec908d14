"""LSTM: beside what it says at each token it carries a cell that is only ever added to, and gates to guard it.

Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. With gates f, i and o between 0 and 1,
c' = f ∘ c + i ∘ tanh(W x + U h + b) and h' = o ∘ tanh(c').
"""

from __future__ import annotations

from torch import Tensor, nn

from pellucid.models.recurrent import RecurrentModel
from pellucid.models.sequences.configs import RecurrentConfig

Cells = tuple[Tensor, Tensor]  # what was said last and the cell, each (depth, batch, width)


class LSTM(RecurrentModel[Cells]):
    """Embedding, `depth` layers of torch's nn.LSTM, head.

    >>> import torch
    >>> model = LSTM(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
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
