"""A row of a table as one vector: numbers as they are, and each category as a vector beside them.

An image is a row as well: its pixels, one after another. Code 0 of a category stands for a missing cell, and for a
value that the training side does not have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Columns(nn.Module):
    """Numbers and embedded categories side by side.

    numbers: (batch, ...), codes: (batch, columns) -> (batch, width), where width = numbers + columns · embedding.

    All columns share one table of vectors; those of a column begin where the one before it ends. The vector of code 0
    begins at zero, which is the mean of the others: if the training side has none, that is what it stays, and something
    never seen says nothing.

    >>> columns = Columns(numbers=2, categories=(4, 3), embedding=5)
    >>> columns.width
    12
    >>> columns(torch.tensor([[0.1, 0.2]]), torch.tensor([[0, 2]])).detach()[0, :7]
    tensor([0.1000, 0.2000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000])
    """

    starts: Tensor  # of each column's vectors in the table

    def __init__(self, numbers: int, categories: tuple[int, ...], embedding: int) -> None:
        super().__init__()
        self.width = numbers + len(categories) * embedding
        starts = torch.tensor([sum(categories[:column]) for column in range(len(categories))], dtype=torch.long)
        self.register_buffer("starts", starts, persistent=False)  # what follows from the configuration is not saved
        self.embedding = nn.Embedding(sum(categories), embedding) if categories else None
        if self.embedding is not None:
            with torch.no_grad():
                self.embedding.weight[starts] = 0

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        row = numbers.flatten(1)
        if self.embedding is None:
            return row
        return torch.cat([row, self.embedding(codes + self.starts).flatten(1)], dim=1)


def one_hot_row(numbers: Tensor, codes: Tensor, categories: tuple[int, ...]) -> Tensor:
    """Numbers and one-hot categories side by side: (batch, ...), (batch, columns) -> (batch, numbers + Σ categories).

    The squares of a one-hot column's deviations add up to less than 1 on average: a category weighs no more than a
    standardised number.

    >>> one_hot_row(torch.tensor([[0.5]]), torch.tensor([[2, 0]]), categories=(3, 2))
    tensor([[0.5000, 0.0000, 0.0000, 1.0000, 1.0000, 0.0000]])
    """
    row = numbers.flatten(1)
    hot = [functional.one_hot(codes[:, column], n).to(row.dtype) for column, n in enumerate(categories)]
    return torch.cat([row, *hot], dim=1)
