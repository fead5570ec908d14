"""Models that look at the last few tokens through a window. Before the beginning they see token 0.

For a list that is the boundary, so that the windows of "emma" are ···, ··e, ·em, emm and mma.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.models.neural import SequenceModel


class WindowModel(SequenceModel):
    """State: the window itself, (batch, reach), the oldest token first."""

    reach: int  # tokens in a window

    @abstractmethod
    def of_windows(self, windows: Tensor) -> Tensor:
        """windows: (batch, reach) -> (batch, vocab), the scores of what comes after each."""

    def begin(self, batch: int) -> Tensor:
        device = next(self.parameters()).device
        return torch.zeros((batch, self.reach), dtype=torch.long, device=device)

    def advance(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.read(tokens[:, None], state)

    def read(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        # Only the last window matters, however much is read at once.
        window = torch.cat([state, tokens], dim=1)[:, -self.reach :]
        return self.of_windows(window), window

    def keep(self, state: Tensor, rows: Tensor) -> Tensor:
        return state[rows]


def begun(tokens: Tensor, before: int) -> Tensor:
    """tokens: (batch, time) -> (batch, before + time), with as many 0 before the first as a window there looks back.

    >>> begun(torch.tensor([[5, 6]]), before=2)
    tensor([[0, 0, 5, 6]])
    """
    return functional.pad(tokens, (before, 0))


def slid(values: Tensor, reach: int) -> Tensor:
    """values: (batch, reach - 1 + time, features) -> (batch, time, reach * features), one window for each position.

    Side by side, the oldest first. Each value was computed once and is only copied, not looked up again.

    >>> slid(torch.tensor([[[1.0], [2.0], [3.0]]]), reach=2)
    tensor([[[1., 2.],
             [2., 3.]]])
    """
    time = values.shape[1] - reach + 1
    return torch.cat([values[:, first : first + time] for first in range(reach)], dim=-1)
