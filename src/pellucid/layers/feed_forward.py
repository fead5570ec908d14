"""Feed-forward: each position by itself, into four times the width, through a bend, and back."""

from __future__ import annotations

from torch import Tensor, nn

WIDER = 4


class FeedForward(nn.Module):
    """stream: (..., width) -> (..., width).

    The way back begins at zero: a new block adds nothing, and the network is as easy to train as a shallow one.

    >>> import torch
    >>> FeedForward(8)(torch.ones(2, 3, 8)).abs().sum().item()
    0.0
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, WIDER * width, bias=False)
        self.activation = nn.GELU()
        self.contract = nn.Linear(WIDER * width, width, bias=False)
        nn.init.zeros_(self.contract.weight)

    def forward(self, stream: Tensor) -> Tensor:
        out: Tensor = self.contract(self.activation(self.expand(stream)))
        return out
