"""Logistic regression: one weighted sum of the columns for each class, and nothing in between.

Multinomial, by softmax over all classes; with a single output and the squared error it is linear regression. The first
rung for rows and images: what a deeper network earns is measured against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from pellucid.layers.columns import one_hot_row
from pellucid.models.examples.contract import ExampleCard, ExampleModel, Inputs
from pellucid.models.examples.shapes import require_shapes
from pellucid.models.network import Recipe


@dataclass(frozen=True)
class LogisticConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int

    def __post_init__(self) -> None:
        require_shapes(self.numbers, self.categories, self.outputs)


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


def sized(size: str, inputs: Inputs) -> LogisticConfig:
    """It comes in one size, which the data decide."""
    return LogisticConfig(inputs.numbers, inputs.categories, inputs.outputs)


MODEL = ExampleCard(
    name="logistic",
    says="a weighted sum of the columns for each class (logistic regression), or of a number (linear regression)",
    config=LogisticConfig,
    build=Logistic,
    sized=sized,
    tiny=LogisticConfig(numbers=(6,), categories=(3, 4), outputs=3),
    tiny_inputs=Inputs(numbers=(6,), categories=(3, 4), outputs=3),
    recipe=Recipe(rate=0.03, batch=32, weight_decay=0.01, epochs=40.0),
)
