"""What every network answers: of sequences, of examples and of pairs.

SequenceModel    tokens (batch, time) -> logits (batch, time, vocab); begin and advance, one token at a time
ExampleModel     numbers and codes of a batch -> logits (batch, outputs); rows of a table, or images
PairModel        sources and tokens of targets -> logits (batch, time, vocab)
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

from torch import Tensor, nn

from pellucid.layers.norms import BatchNorm, Foldable
from pellucid.models.rows_apart import RowsApart, SeparateRows


class Network(nn.Module, ABC):
    """A network that pellucid can train."""

    def for_inference(self) -> Self:
        """The same function in eval mode, with every batch norm folded into the layer before it; a copy."""
        ready = copy.deepcopy(self).eval()
        for part in list(ready.modules()):
            if isinstance(part, Foldable):
                part.fold()
        return ready

    @property
    def rows_meet(self) -> bool:
        """Whether the rows of a training batch are seen together, as by batch norm.

        Then a batch has to be a fair sample. Items of one length only would be told by their statistics, and the
        network would lean on a length that no statistics tell it when it reads a single item: wavenet's dev loss on
        names was 2.67 with batches by length and 2.01 with mixed ones.
        """
        return any(isinstance(part, BatchNorm | nn.BatchNorm1d | nn.BatchNorm2d) for part in self.modules())

    @property
    def core(self) -> Network:
        """The network of the catalogue: this one, or the one inside it."""
        return self

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


ANY_LENGTH = 1 << 62


class SequenceModel(Network):
    """A network that reads tokens and scores what comes next.

    `forward` is for whole sequences, `begin` and `advance` for one token at a time. Both give the same numbers;
    advancing costs the same however much was read before.

    `longest` is how many tokens one pass may have. What reads on past it begins anew with the last of them.
    """

    vocab_size: int
    longest: int = ANY_LENGTH

    @property
    def skips_padding(self) -> bool:
        """Whether `forward` can be told by `real` which places of a padded batch hold tokens, and computes no others.

        Then scores are of those alone, (n, vocab). real: (n,), places in the batch as one row.
        """
        return False

    @property
    def expected_first_loss(self) -> float | None:
        """The loss before the first step over all first weights of their kind, in nats; None where it is not known."""
        return None

    def look_back(self) -> None:  # most have no attention that could
        """Begin a training with attention to the tokens just before, where that has to be learned."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (batch, time) -> (batch, time, vocab); the scores at t have seen positions up to t only."""

    @abstractmethod
    def begin(self, batch: int) -> Any:
        """The state before anything was read."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch,) -> (batch, vocab) and the next state. The state that came in is not used again."""

    @abstractmethod
    def keep(self, state: Any, rows: Tensor) -> Any:
        """The state of these rows alone, in this order; a row may come twice."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch, time), at least one -> the scores after the last of them, (batch, vocab), and the state."""
        for column in tokens.unbind(1):
            scores, state = self.advance(column, state)
        return scores, state

    def rows_apart(self) -> RowsApart:
        """Rows that each have read something of their own; see rows_apart.py."""
        return SeparateRows(self)


class ExampleModel(Network):
    """A network that reads one example at a time; in a batch none sees another, unless by batch norm in training."""

    @abstractmethod
    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """numbers: (batch, features) or (batch, channels, height, width); codes: (batch, columns) -> scores.

        Scores are (batch, outputs). An image has no categories, and its codes are (batch, 0).
        """

    def member_scores(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The scores of each member, (batch, members, outputs), of which each learns by its own loss."""
        scores: Tensor = self(numbers, codes)
        return scores[:, None]

    def learn_inputs(self, numbers: Tensor) -> None:  # most have nothing to learn but weights
        """Take from the numbers of train what is known before the first step, such as quantiles."""


class Reconstructor(ExampleModel):
    """A network whose answer is the example itself, gone through a narrow place."""

    @abstractmethod
    def reconstruction_target(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The example as one row of numbers, (batch, features): what `forward` should give back."""

    @abstractmethod
    def latent(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """What is left of the example in the narrow place: (batch, latent)."""


class PairModel(Network):
    """A network that reads a whole source and scores the tokens of its target.

    What every network for pairs answers. Source and target share one vocabulary, whose token 0 is the boundary. A
    source comes as its tokens, padded on the right with 0; how far it is padded changes nothing. A target is read and
    written as `0 a b c` with `a b c 0` to be said.

    `longest_source` and `longest_target` (both without boundaries) are how much it was made for.
    """

    vocab_size: int
    longest_source: int
    longest_target: int

    @abstractmethod
    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        """sources: (batch, source), tokens: (batch, time), each row `0 a b …` -> scores, (batch, time, vocab).

        The scores at t have seen the whole source, and of the target the tokens up to t only: teacher forcing.
        """

    @abstractmethod
    def begin(self, sources: Tensor) -> Any:
        """The state when the sources were read and nothing is written yet."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch,), at first 0 -> (batch, vocab) and the next state; the same numbers as `forward`."""

    @abstractmethod
    def keep(self, state: Any, rows: Tensor) -> Any:
        """The state of these rows alone, in this order; a row may come twice."""
