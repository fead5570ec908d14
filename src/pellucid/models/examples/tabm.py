"""TabM: several MLPs for rows in one, which share their matrices, over piecewise-linear features of the numbers.

Gorishniy, Kotelnikov and Babenko 2024: the members differ in scales of what goes in and out of each matrix, and in
their heads, so that an ensemble costs little more than one network. Each member is trained by its own loss; the answer
is the mean of their scores.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn

from pellucid.layers.feed_forward import build_activation, gain
from pellucid.models.contracts import ExampleModel
from pellucid.models.examples.configs import TabMConfig
from pellucid.models.examples.rows import Columns

FARTHEST = 5.0  # deviations; a number beyond counts as that


class PiecewiseLinear(nn.Module):
    """Each number as a vector that is a piecewise-linear function of it: (batch, features) -> (batch, features, width).

    Every feature has `bins` intervals with as many rows of train in each; in each interval the vector may go another
    way (Gorishniy, Rubachev and Babenko 2022). At first it is straight: the bends begin at 0.

    >>> numbers = PiecewiseLinear(features=1, bins=2, width=3)
    >>> numbers.learn_edges(torch.tensor([[0.0], [1.0], [9.0]]))
    >>> numbers.shares(torch.tensor([[0.5], [5.0], [20.0]]))[:, 0]
    tensor([[0.5000, 0.0000],
            [1.0000, 0.5000],
            [1.0000, 1.0000]])
    """

    edges: Tensor  # (features, bins + 1), rising

    def __init__(self, features: int, bins: int, width: int) -> None:
        super().__init__()
        # Of standardised numbers, until train was looked at.
        self.register_buffer("edges", torch.linspace(-2, 2, bins + 1).repeat(features, 1))
        self.straight = nn.Parameter(torch.randn(features, width))
        self.offset = nn.Parameter(0.5 * torch.randn(features, width))
        self.bends = nn.Parameter(torch.zeros(features, bins, width))

    @torch.no_grad()
    def learn_edges(self, numbers: Tensor) -> None:
        """Take the quantiles of these rows, (rows, features), as edges."""
        places = torch.linspace(0, len(numbers) - 1, self.edges.shape[1]).round().long()
        self.edges.copy_(numbers.sort(dim=0).values[places].T)

    def shares(self, numbers: Tensor) -> Tensor:
        """How far each number is through each interval, from 0 to 1; an interval without width is always at 0."""
        starts, widths = self.edges[:, :-1], self.edges.diff(dim=1)
        passed = (numbers[:, :, None] - starts) / torch.where(widths > 0, widths, torch.inf)
        return passed.clamp(0, 1)  # (batch, features, bins)

    def forward(self, numbers: Tensor) -> Tensor:
        straight = numbers.clamp(-FARTHEST, FARTHEST)[:, :, None] * self.straight + self.offset
        bent = self.shares(numbers).transpose(0, 1) @ self.bends  # (features, batch, width)
        return straight + bent.transpose(0, 1)


class SharedLinear(nn.Module):
    """One matrix for all members, and scales before it and after it and a bias for each: (batch, members, inputs) ->
    (batch, members, outputs).

    BatchEnsemble (Wen, Tran and Ba 2020). Where members begin apart, the scales of their inputs are 1 or −1.
    """

    def __init__(self, inputs: int, outputs: int, members: int, scale: float, *, is_first: bool) -> None:
        super().__init__()
        self.members = members
        self.weight = nn.Parameter(scale * inputs**-0.5 * torch.randn(outputs, inputs))
        signs = 2.0 * torch.randint(0, 2, (members * inputs,)) - 1
        # Vectors and no matrices: what decays is the shared matrix alone.
        self.before = nn.Parameter(signs if is_first else torch.ones(members * inputs))
        self.after = nn.Parameter(torch.ones(members * outputs))
        self.bias = nn.Parameter(torch.zeros(members * outputs))

    def forward(self, x: Tensor) -> Tensor:
        before, after, bias = (part.view(self.members, -1) for part in (self.before, self.after, self.bias))
        y: Tensor = nn.functional.linear(x * before, self.weight) * after + bias
        return y


class TabM(ExampleModel):
    """Piecewise-linear numbers and embedded categories, hidden layers that members share, a head for each member.

    >>> model = TabM(TabMConfig(numbers=(4,), categories=(3,), outputs=2, members=8))
    >>> rows, codes = torch.randn(5, 4), torch.zeros(5, 1, dtype=torch.long)
    >>> model.member_scores(rows, codes).shape, model(rows, codes).shape
    (torch.Size([5, 8, 2]), torch.Size([5, 2]))
    """

    def __init__(self, config: TabMConfig) -> None:
        super().__init__()
        self.config = config
        n_numbers = prod(config.numbers)
        self.numbers = PiecewiseLinear(n_numbers, config.bins, config.embedding) if n_numbers else None
        self.columns = Columns(n_numbers * config.embedding, config.categories, config.embedding)
        factor, layers, width = gain(config.activation), [], self.columns.width
        for place in range(config.depth):
            scale = factor if place else 1.0
            layers.append(SharedLinear(width, config.hidden, config.members, scale, is_first=not place))
            width = config.hidden
        self.layers = nn.ModuleList(layers)
        self.activation = build_activation(config.activation)
        self.dropout = nn.Dropout(config.dropout)
        # A tenth, as of every head: at first no answer is much likelier than another.
        self.head = nn.Parameter(0.1 * factor * width**-0.5 * torch.randn(config.members, width, config.outputs))
        self.bias = nn.Parameter(torch.zeros(config.members * config.outputs))

    def learn_inputs(self, numbers: Tensor) -> None:
        if self.numbers is not None:
            self.numbers.learn_edges(numbers.flatten(1))

    def member_scores(self, numbers: Tensor, codes: Tensor) -> Tensor:
        row = numbers.flatten(1)
        if self.numbers is not None:
            row = self.numbers(row).flatten(1)
        x = self.columns(row, codes)[:, None]  # (batch, 1, width)
        for layer in self.layers:
            x = self.dropout(self.activation(layer(x)))  # (batch, members, hidden)
        scores = (x.transpose(0, 1) @ self.head).transpose(0, 1)  # (batch, members, outputs)
        with_bias: Tensor = scores + self.bias.view(self.config.members, -1)
        return with_bias

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.member_scores(numbers, codes).mean(1)
