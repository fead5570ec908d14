"""Networks for rows of a table: logistic regression, MLP, plain and residual stacks, and an autoencoder.

A row is one vector: numbers as they are, and each category as a vector beside them. An image is a row as well: its
pixels, one after another. Code 0 of a category stands for a missing cell, and for a value that the training side does
not have.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import replace
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.feed_forward import Hidden, gain, output_head
from pellucid.models.contracts import ExampleModel, Reconstructor
from pellucid.models.examples.configs import AutoencoderConfig, DeepConfig, LogisticConfig, RowMLPConfig


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


class Logistic(ExampleModel):
    """Logistic regression: scores = W·row + b, where the row is the numbers beside one-hot categories.

    Multinomial, by softmax over all classes; with a single output and the squared error it is linear regression. The
    first rung for rows and images: what a deeper network earns is measured against it.

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


# MLP: the columns of a row, or the pixels of an image, through hidden layers.


class RowMLP(ExampleModel):
    """Columns, hidden layers, head.

    Weights are drawn so that every pre-activation begins with variance 1: N(0, 1 / fan_in) over the columns, which are
    standardised, and N(0, gain² / fan_in) over activations.

    >>> model = RowMLP(RowMLPConfig(numbers=(4,), categories=(), outputs=1))
    >>> model.n_parameters
    4545
    """

    def __init__(self, config: RowMLPConfig) -> None:
        super().__init__()
        self.config = config
        self.columns = Columns(prod(config.numbers), config.categories, config.embedding)
        factor, kind = gain(config.activation), (config.activation, config.norm, config.groups)
        self.layers = nn.ModuleList([Hidden(self.columns.width, config.hidden, 1.0, *kind)])
        for _ in range(config.depth - 1):
            self.layers.append(Hidden(config.hidden, config.hidden, factor, *kind))
        self.dropout = nn.Dropout(config.dropout)
        self.head = output_head(config.hidden, config.outputs, factor)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        x = self.columns(numbers, codes)
        for layer in self.layers:
            x = self.dropout(layer(x))
        scores: Tensor = self.head(x)
        return scores


# What plain and residual networks share: many equal blocks, of which each may be left out to see what it was worth.


class Feature(nn.Module):
    """feat(X) = W₂·f(norm(W₁·X + b₁)) + b₂: (batch, width) -> the same.

    scale: the deviation of what comes out at first, for inputs of mean square 1; at 0 nothing does.
    """

    def __init__(self, config: DeepConfig, scale: float) -> None:
        super().__init__()
        self.hidden = Hidden(config.width, config.width, 1.0, config.activation, config.norm, config.groups)
        self.dropout = nn.Dropout(config.dropout)
        self.back = nn.Linear(config.width, config.width)
        nn.init.normal_(self.back.weight, std=scale * gain(config.activation) * config.width**-0.5)
        nn.init.zeros_(self.back.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.back(self.dropout(self.hidden(x)))
        return y


class Deep(ExampleModel):
    """Columns, a linear stem to `width`, `depth` blocks, head. How X and feat(X) are joined tells them apart.

    scale: the deviation of every feat(X) at first.
    """

    def __init__(self, config: DeepConfig, scale: float) -> None:
        super().__init__()
        self.columns = Columns(prod(config.numbers), config.categories, config.embedding)
        self.stem = nn.Linear(self.columns.width, config.width)
        nn.init.normal_(self.stem.weight, std=self.columns.width**-0.5)
        nn.init.zeros_(self.stem.bias)
        self.blocks = nn.ModuleList([Feature(config, scale) for _ in range(config.depth)])
        self.head = output_head(config.width, config.outputs, 1.0)

    @abstractmethod
    def combine(self, x: Tensor, feat: Tensor) -> Tensor:
        """F(X), of X and feat(X)."""

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.without((), numbers, codes)

    def without(self, blocks: Collection[int], numbers: Tensor, codes: Tensor) -> Tensor:
        """The scores when feat(X) of these blocks, counted from 0, is zero: (batch, outputs)."""
        x = self.stem(self.columns(numbers, codes))
        for number, block in enumerate(self.blocks):
            x = self.combine(x, torch.zeros_like(x) if number in blocks else block(x))
        scores: Tensor = self.head(x)
        return scores


class Depth(NamedTuple):
    """The mean loss of a deep network as it is, and with each of its blocks left out alone."""

    whole: float
    without: tuple[float, ...]

    @property
    def loss_increases(self) -> tuple[float, ...]:
        """What each block is worth: by how much the loss rises without it; below 0 it is better left out."""
        return tuple(loss - self.whole for loss in self.without)


@torch.no_grad()
def depth_of(
    model: Deep, numbers: Tensor, codes: Tensor, targets: Tensor, losses: Callable[[Tensor, Tensor], Tensor]
) -> Depth:
    """What is lost on these examples when block i is left out, for each i; losses as those of `layers.losses`."""
    ready = model.for_inference()
    whole = losses(ready(numbers, codes), targets).mean().item()
    without = [losses(ready.without((i,), numbers, codes), targets).mean().item() for i in range(len(model.blocks))]
    return Depth(whole, tuple(without))


class Plain(Deep):
    """F(X) = feat(X), each block drawn so that the next reads mean square 1.

    Plain: many blocks one after another, F(X) = feat(X). The twin of `residual`, without the way around. Each block has
    to hand on all that later ones need, and a gradient comes back through every one of them. What that costs is what
    the twin is there to show.

    A block whose feat is zero hands on nothing: all examples get the same scores.

    >>> import torch
    >>> model = Plain(DeepConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> first, second = model.without([1], two_rows, no_codes)
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, config: DeepConfig) -> None:
        super().__init__(config, scale=1.0)
        self.config = config

    def combine(self, x: Tensor, feat: Tensor) -> Tensor:
        return feat


class Residual(Deep):
    """F(X) = X + feat(X), with feat = 0 at first: a new network is as shallow as its stem and head.

    Residual: many blocks, each adding to what came in, F(X) = X + feat(X) (He et al. 2015). To hand on X unchanged a
    block need only be zero, which is where it begins. The gradient comes back as 1 + dfeat/dX: whatever the blocks do,
    one way leads around all of them. So a trained block may be left out, and the rest still works.

    >>> import torch
    >>> model = Residual(DeepConfig(numbers=(3,), categories=(), outputs=2, width=4, depth=3))
    >>> two_rows, no_codes = torch.randn(2, 3), torch.zeros(2, 0, dtype=torch.long)
    >>> torch.equal(model(two_rows, no_codes), model.without([0, 1, 2], two_rows, no_codes))
    True
    """

    def __init__(self, config: DeepConfig) -> None:
        super().__init__(config, scale=0.0)
        self.config = config

    def combine(self, x: Tensor, feat: Tensor) -> Tensor:
        return x + feat

    def drop_blocks(self, blocks: Collection[int]) -> Residual:
        """A copy that does not have these blocks: what `without` says, at the price of the blocks that are left."""
        kept = [block for number, block in enumerate(self.blocks) if number not in blocks]
        if not kept:
            raise PellucidError(f"all {len(self.blocks)} blocks would be left out", fix="Keep at least one")
        short = copy.deepcopy(self)
        short.blocks = copy.deepcopy(nn.ModuleList(kept))
        short.config = replace(self.config, depth=len(kept))
        return short


class Autoencoder(Reconstructor):
    """Encoder, narrow place, decoder: all dense, the decoder a mirror of the encoder.

    Autoencoder: the example goes through a narrow place and has to come out as it was. Nothing tells it what an example
    means; what survives the narrow place is what examples have in common. Without hidden layers it can do no better
    than the first principal axes (Baldi and Hornik 1989), and hidden layers let the axes bend.

    The narrow place is linear, so that it is bounded by nothing but its width. The head begins small: the first answer
    is hardly more than 0, the mean of every standardised number, and the first loss is the variance.

    >>> import torch
    >>> model = Autoencoder(AutoencoderConfig(numbers=(1, 8, 8), categories=(), outputs=64, latent=3))
    >>> images, no_codes = torch.randn(5, 1, 8, 8), torch.zeros(5, 0, dtype=torch.long)
    >>> model.latent(images, no_codes).shape, model(images, no_codes).shape
    (torch.Size([5, 3]), torch.Size([5, 64]))
    """

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        factor = gain(config.activation)
        self.encoder = _stack(config.outputs, config)
        self.narrow = nn.Linear(config.hidden if config.depth else config.outputs, config.latent)
        nn.init.normal_(self.narrow.weight, std=(factor if config.depth else 1.0) * self.narrow.in_features**-0.5)
        nn.init.zeros_(self.narrow.bias)
        self.decoder = _stack(config.latent, config)
        self.head = output_head(
            config.hidden if config.depth else config.latent, config.outputs, factor if config.depth else 1.0
        )

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return self.decode(self.latent(numbers, codes))

    def reconstruction_target(self, numbers: Tensor, codes: Tensor) -> Tensor:
        return one_hot_row(numbers, codes, self.config.categories)

    def latent(self, numbers: Tensor, codes: Tensor) -> Tensor:
        narrow: Tensor = self.narrow(self.encoder(self.reconstruction_target(numbers, codes)))
        return narrow

    def decode(self, latent: Tensor) -> Tensor:
        """The row that belongs to any point of the narrow place: (batch, latent) -> (batch, outputs)."""
        row: Tensor = self.head(self.decoder(latent))
        return row


def _stack(inputs: int, config: AutoencoderConfig) -> nn.Sequential:
    """`depth` hidden layers over inputs of mean square 1."""
    layers = nn.Sequential()
    for number in range(config.depth):
        over = (inputs, 1.0) if number == 0 else (config.hidden, gain(config.activation))
        layers.append(Hidden(over[0], config.hidden, over[1], config.activation))
    return layers
