"""Transformer for pairs: source and target are one row of tokens, and only what stands behind the source is to be said.

    0 0 D A A 0 A D 0        DAA and AD: zeros for nothing, then the source, the boundary, the target, the end

Every source ends at the same place, with zeros before it, so that all rows of a batch go on at one position, and what
was read is kept as for any other text. A source may look back at itself alone; its order of reading is the row's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.models.contracts import PairModel
from pellucid.models.pairs.configs import PairTransformerConfig
from pellucid.models.pairs.padding import align_right, require_target_room
from pellucid.models.sequences.fast_decoding import DecodingState
from pellucid.models.sequences.transformer import Transformer


class PairTransformer(PairModel):
    """One stack of blocks for both: what the source is, is known by its place before the boundary.

    >>> config = PairTransformerConfig(vocab_size=5, longest_source=4, longest_target=3, width=8, depth=2, n_heads=2)
    >>> PairTransformer(config)(torch.tensor([[4, 1, 1]]), torch.tensor([[0, 1]])).shape
    torch.Size([1, 2, 5])
    """

    def __init__(self, config: PairTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.longest_source, self.longest_target = config.longest_source, config.longest_target
        self.network = Transformer(config.row)

    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        require_target_room(tokens.shape[1], self.longest_target)
        row = torch.cat([align_right(sources, self.longest_source), tokens], dim=1)
        scores: Tensor = self.network(row)
        return scores[:, self.longest_source :]

    def begin(self, sources: Tensor) -> DecodingState:
        _, state = self.network.read(align_right(sources, self.longest_source), self.network.begin(len(sources)))
        return state

    def advance(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        require_target_room(state.n_read + 1 - self.longest_source, self.longest_target)
        return self.network.advance(tokens, state)

    def keep(self, state: DecodingState, rows: Tensor) -> DecodingState:
        return self.network.keep(state, rows)
