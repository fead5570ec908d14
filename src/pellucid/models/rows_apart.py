"""Rows that are read on together though each has read something of its own: how requests share a running batch.

RowsApart       what every network answers, by `SequenceModel.rows_apart`
SeparateRows    one state and one pass for each row: any network has it, without the gain of a batch
StackedRows     of networks whose state has one size however much was read: windows, and what recurrent cells carry

The transformer's keeps keys and values, and stands beside its other ways to read: `fast_decoding.RaggedRows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from pellucid.models.contracts import SequenceModel


class RowsApart(ABC):
    """Rows that are read on together though each has read something of its own: some join while others leave.

    Numbered from 0 without gaps. A row is set by `put`, from a state of one row that `begin` and `read` made.
    """

    @abstractmethod
    def put(self, row: int, state: Any) -> None:
        """Let that row be as the only row of a state."""

    @abstractmethod
    def move(self, source: int, target: int) -> None:
        """Let the row `target` be as the row `source`."""

    @abstractmethod
    def advance(self, tokens: Tensor) -> Tensor:
        """tokens: (rows,), the next of the rows 0, 1, … -> scores after them, (rows, vocab)."""


class SeparateRows(RowsApart):
    """One state for each row, and one pass for each: for any network, and without the gain of a batch."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        self.states: dict[int, Any] = {}

    def put(self, row: int, state: Any) -> None:
        # A state that came in is not used again, so that two rows may not share one.
        self.states[row] = self.model.keep(state, torch.zeros(1, dtype=torch.long))

    def move(self, source: int, target: int) -> None:
        self.put(target, self.states[source])

    def advance(self, tokens: Tensor) -> Tensor:
        found = []
        for row in range(len(tokens)):
            scores, self.states[row] = self.model.advance(tokens[row : row + 1], self.states[row])
            found.append(scores)
        return torch.cat(found)


# Matrix products of a number of rows that this divides give each row the same bits, whatever stands in the others; of
# other numbers they may not. So idle rows are computed along, and a row's scores are the same alone and among others.
EVEN = 8


def even(n: int) -> int:
    """The next number of rows, or of positions, that has the same bits as any other such number.

    >>> even(1), even(8), even(9)
    (8, 8, 16)
    """
    return -(-n // EVEN) * EVEN


class StackedRows(RowsApart):
    """Rows of a network whose state is tensors of one size, however much was read: a window, or what a cell carries.

    parts: such a state as a list of tensors, with the rows in dimension `axis` of each; join: the list as a state.
    """

    def __init__(
        self,
        model: SequenceModel,
        parts: Callable[[Any], list[Tensor]],
        join: Callable[[list[Tensor]], Any],
        axis: int = 0,
    ) -> None:
        self.model, self.parts, self.join = model, parts, join
        self.axis = axis
        self.stacks = [part.movedim(axis, 0) for part in parts(model.begin(EVEN))]  # each (rows, …)

    def put(self, row: int, state: Any) -> None:
        if row >= len(self.stacks[0]):
            self.stacks = [torch.cat([stack, torch.zeros_like(stack)]) for stack in self.stacks]
        for stack, part in zip(self.stacks, self.parts(state), strict=True):
            stack[row] = part.select(self.axis, 0)

    def move(self, source: int, target: int) -> None:
        for stack in self.stacks:
            stack[target] = stack[source]

    def advance(self, tokens: Tensor) -> Tensor:
        n, wide = len(tokens), even(len(tokens))
        held = [stack[:wide].movedim(0, self.axis).contiguous() for stack in self.stacks]
        scores, state = self.model.advance(functional.pad(tokens, (0, wide - n)), self.join(held))
        for stack, part in zip(self.stacks, self.parts(state), strict=True):
            stack[:wide] = part.movedim(self.axis, 0)
        return scores[:n]
