"""Neural n-gram: each of the n - 1 last tokens looks up a row of scores for what comes next, and the rows are added.

For n = 2 it is the bigram once more, as a table that learns: its scores become logarithms of counts, but for a constant
of each row. For n > 2 it has (n - 1) |V|² numbers where counting has |V|ⁿ; it cannot tell which tokens came together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.models.sequences.configs import NeuralNGramConfig
from pellucid.models.windows import WindowModel, begun


class NeuralNGram(WindowModel):
    """scores = Σᵢ W[i, xᵢ], W of shape (n - 1, |V|, |V|): place in the window, the token there, the next token.

    It is the product of one-hot vectors with W, without the multiplications by 0. The table begins with zeros: the loss
    is convex in it, so that there is no symmetry to break, and every token is as likely as any at first.

    >>> model = NeuralNGram(NeuralNGramConfig(vocab_size=5, order=3))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: NeuralNGramConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.reach = config.order - 1
        self.table = nn.Parameter(torch.zeros(self.reach, config.vocab_size, config.vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        seen = begun(tokens, self.reach - 1)
        return self._sum([seen[:, place : place + time] for place in range(self.reach)])

    def of_windows(self, windows: Tensor) -> Tensor:
        return self._sum(list(windows.unbind(1)))

    def _sum(self, places: list[Tensor]) -> Tensor:
        scores = functional.embedding(places[0], self.table[0])
        for place in range(1, self.reach):
            scores = scores + functional.embedding(places[place], self.table[place])
        return scores
