"""Logistic regression: one weighted sum of the columns for each class, and nothing in between.

Multinomial, by softmax over all classes; with a single output and the squared error it is linear regression. The first
rung for rows and images: what a deeper network earns is measured against it.
"""

from __future__ import annotations

from math import prod

from torch import Tensor, nn

from pellucid.layers.columns import one_hot_row
from pellucid.models.examples.configs import LogisticConfig
from pellucid.models.examples.contract import ExampleModel


class Logistic(ExampleModel):
    """Scores = W·row + b, where the row is the numbers beside one-hot categories.

    All weights begin at zero: the loss is convex in them, so there is no symmetry to break, and the first loss is ln K
    exactly. A category that the training side does not have keeps its weights of zero and says nothing.

    >>> model = Logistic(LogisticConfig(numbers=(4,), categories=(3,), outputs=2))
    >>> model.n_parameters
    16
    """

    def __init__(self, config: LogisticConfig) -> None:
        super().__init__()
        self.config = config
        self.head = nn.Linear(prod(config.numbers) + sum(config.categories), config.outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        scores: Tensor = self.head(one_hot_row(numbers, codes, self.config.categories))
        return scores
