"""Models that roll over the tokens and carry what they remember from one to the next. torch's own cells do the work."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from torch import Tensor, nn

from pellucid.layers.hidden import head
from pellucid.models.neural import SequenceModel
from pellucid.models.sequences.configs import RecurrentConfig

State = TypeVar("State")


class RecurrentModel(SequenceModel, Generic[State]):
    """Embedding, cell, head. State: the hidden tensors of the cell, each (depth, batch, width), zeros at first."""

    def __init__(self, config: RecurrentConfig, cell: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        # torch drops between the layers only, and warns where there is nothing between.
        between = config.dropout if config.depth > 1 else 0.0
        self.cell = cell(config.width, config.width, config.depth, batch_first=True, dropout=between)
        self.head = head(config.width, config.vocab_size, 1.0)

    def forward(self, tokens: Tensor) -> Tensor:
        return self._rolled(tokens, self.begin(len(tokens)))[0]

    @abstractmethod
    def begin(self, batch: int) -> State: ...

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        scores, state = self._rolled(tokens, state)
        return scores[:, -1], state

    def _rolled(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        carried, state = self.cell(self.dropout(self.embedding(tokens)), state)
        return self.head(self.dropout(carried)), state

    def nothing(self, batch: int) -> Tensor:
        """A hidden tensor before anything was read, (depth, batch, width)."""
        return self.head.weight.new_zeros(self.config.depth, batch, self.config.width)
