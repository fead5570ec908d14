"""RNN, GRU and LSTM: networks that roll over the tokens and carry what they remember; torch's own cells do the work."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pellucid.layers.feed_forward import output_head
from pellucid.models.contracts import SequenceModel
from pellucid.models.rows_apart import StackedRows
from pellucid.models.sequences.configs import RecurrentConfig


class RecurrentModel(SequenceModel):
    """Embedding, cell, head. State: what the cell carries, (depth, batch, width), zeros at first."""

    def __init__(self, config: RecurrentConfig, cell: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        # torch drops between the layers only, and warns where there is nothing between.
        between = config.dropout if config.depth > 1 else 0.0
        self.cell = cell(config.width, config.width, config.depth, batch_first=True, dropout=between)
        self.head = output_head(config.width, config.vocab_size, 1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        return self._roll(tokens, self.begin(tokens.shape[0]))[0]

    def begin(self, batch: int) -> Any:
        return self.head.weight.new_zeros(self.config.depth, batch, self.config.width)

    def keep(self, state: Any, rows: Tensor) -> Any:
        return state[:, rows]

    def rows_apart(self) -> StackedRows:
        return StackedRows(self, parts=lambda state: [state], join=lambda parts: parts[0], axis=1)

    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        scores, state = self._roll(tokens, state)
        return scores[:, -1], state

    def _roll(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        carried, state = self.cell(self.dropout(self.embedding(tokens)), state)
        return self.head(self.dropout(carried)), state


class RNN(RecurrentModel):
    """Embedding, `depth` layers of torch's nn.RNN with tanh, head.

    RNN: what is remembered is mixed anew with every token, h' = tanh(W x + U h + b). Elman 1990, "Finding Structure in
    Time". The gradient comes back through one U for each token, so that it fades or explodes with the distance; gates
    (gru, lstm) are the remedy.

    >>> import torch
    >>> model = RNN(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, nn.RNN)


class GRU(RecurrentModel):
    """Embedding, `depth` layers of torch's nn.GRU, head.

    GRU: gates decide, number by number, how much of the memory is kept and how much is written anew. Cho et al. 2014.
    With update gate z and reset gate r, h' = z ∘ h + (1 - z) ∘ tanh(W x + r ∘ U h + b): where z is near 1 the memory
    passes unchanged, and so does its gradient.

    >>> import torch
    >>> model = GRU(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, nn.GRU)


class LSTM(RecurrentModel):
    """Embedding, `depth` layers of torch's nn.LSTM, head. State: what was said last and the cell.

    LSTM: beside what it says at each token it carries a cell that is only ever added to, and gates to guard it.
    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. With gates f, i and o between 0 and 1, c'
    = f ∘ c + i ∘ tanh(W x + U h + b) and h' = o ∘ tanh(c').

    >>> import torch
    >>> model = LSTM(RecurrentConfig(vocab_size=5, width=8))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config, nn.LSTM)
        assert isinstance(self.cell, nn.LSTM)
        open_forget_gates(self.cell)

    def begin(self, batch: int) -> tuple[Tensor, Tensor]:
        return super().begin(batch), super().begin(batch)

    def keep(self, state: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
        said, cell = state
        return said[:, rows], cell[:, rows]

    def rows_apart(self) -> StackedRows:
        return StackedRows(self, parts=list, join=tuple, axis=1)


def open_forget_gates(cell: nn.LSTM) -> None:
    """Open them at first, in every layer and direction: so the gradient gets through from the beginning.

    Jozefowicz et al. 2015. The gates stand in the order input, forget, cell, output.
    """
    for name, bias in cell.named_parameters():
        if name.startswith("bias_ih"):
            nn.init.ones_(bias[cell.hidden_size : 2 * cell.hidden_size])
