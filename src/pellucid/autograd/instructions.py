"""The few things a replay does: each instruction stands for many nodes of the graph and runs them at once.

All numbers of a replay stand in one row of slots and their gradients in another just as long. An instruction is
bound to both. Where the slots it reads happen to stand side by side, it reads them in place.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd.vectors import TWINS, Floats

Slots = NDArray[np.intp]


class Rows(NamedTuple):
    """One place for each number of a replay, in four rows of the same length."""

    values: Floats
    gradients: Floats
    moves: NDArray[np.bool_]  # whether it depends on an input or a parameter
    is_heard: NDArray[np.bool_]  # whether a change of it can reach the output, with the numbers at hand


class Instruction(Protocol):
    """Some nodes of one level: forward fills their values in, backward hands their gradients on."""

    def forward(self) -> None: ...

    def backward(self) -> None: ...


class Reading:
    """The numbers in some slots, in the shape in which the slots are given."""

    def __init__(self, row: Floats, slots: Slots) -> None:
        self._row, self._slots = row, slots
        self._is_in_place = _stand_in_a_row(slots)
        self._numbers = _window(row, slots) if self._is_in_place else row[slots]

    def __call__(self) -> Floats:
        if not self._is_in_place:
            # Without a mode, take would work on a copy of `out` for fear of a slot that does not exist.
            self._row.take(self._slots, out=self._numbers, mode="clip")
        return self._numbers


class Adding:
    """Adds to the gradients in some slots; a slot given more than once gets the sum."""

    def __init__(self, row: Floats, slots: Slots) -> None:
        self.size = slots.size
        self._row, self._slots = row, slots
        self._distinct, places = np.unique(slots, return_inverse=True)
        self._places = places.reshape(-1)
        self._is_distinct = self._distinct.size == slots.size
        self._is_in_place = slots.size > 0 and _stand_in_a_row(slots)
        if self._is_in_place:
            self._numbers = _window(row, slots)

    def __call__(self, contributions: Floats) -> None:
        if self._is_in_place:
            self._numbers += contributions
        elif self._is_distinct:
            self._row[self._slots] += contributions
        else:
            self._row[self._distinct] += np.bincount(self._places, contributions.reshape(-1))


class MatrixProduct:
    """Every left list of numbers times every right one, term by term and summed: a matrix product.

    lefts: (n_lefts, n_terms) slots, rights: (n_terms, n_rights). The results stand left by left from slot `first` on.
    """

    def __init__(self, rows: Rows, lefts: Slots, rights: Slots, first: int) -> None:
        shape = lefts.shape[0], rights.shape[1]
        row = slice(first, first + shape[0] * shape[1])
        self._results, self._upstream = rows.values[row].reshape(shape), rows.gradients[row].reshape(shape)
        self._read_lefts, self._read_rights = Reading(rows.values, lefts), Reading(rows.values, rights)
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        # Terms that never move, such as the 1 that a bias is multiplied by, are not asked for a gradient.
        self._left_terms = _places(rows.moves[lefts], axis=0)
        self._right_terms = _places(rows.moves[rights], axis=1)
        self._add_to_lefts = Adding(rows.gradients, lefts[:, self._left_terms])
        self._add_to_rights = Adding(rows.gradients, rights[self._right_terms])

    def forward(self) -> None:
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        np.matmul(self._lefts, self._rights, out=self._results)

    def backward(self) -> None:
        if self._add_to_lefts.size:
            self._add_to_lefts(self._upstream @ self._rights[self._left_terms].T)
        if self._add_to_rights.size:
            self._add_to_rights(self._lefts[:, self._right_terms].T @ self._upstream)


class SumsOfProducts:
    """Sums of as many products of two numbers each; a plain term is multiplied by one.

    lefts, rights: (n_terms, n_sums) slots. The results stand from slot `first` on.
    """

    def __init__(self, rows: Rows, lefts: Slots, rights: Slots, first: int) -> None:
        row = slice(first, first + lefts.shape[1])
        self._results, self._upstream = rows.values[row], rows.gradients[row]
        self._read_lefts, self._read_rights = Reading(rows.values, lefts), Reading(rows.values, rights)
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        self._products = np.empty(lefts.shape)
        self._left_terms = _places(rows.moves[lefts], axis=1)
        self._right_terms = _places(rows.moves[rights], axis=1)
        self._add_to_lefts = Adding(rows.gradients, lefts[self._left_terms])
        self._add_to_rights = Adding(rows.gradients, rights[self._right_terms])

    def forward(self) -> None:
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        np.multiply(self._lefts, self._rights, out=self._products)
        np.add.reduce(self._products, axis=0, out=self._results)

    def backward(self) -> None:
        if self._add_to_lefts.size:
            self._add_to_lefts(self._upstream * self._rights[self._left_terms])
        if self._add_to_rights.size:
            self._add_to_rights(self._upstream * self._lefts[self._right_terms])


class SameRule:
    """Nodes of one rule. inputs: for each position the slots (n_nodes,) of the inputs that stand there."""

    def __init__(self, rows: Rows, rule: str, inputs: Sequence[Slots], first: int) -> None:
        row = slice(first, first + inputs[0].size)
        self._twin = TWINS[rule]
        self._results, self._upstream = rows.values[row], rows.gradients[row]
        self._read = [Reading(rows.values, slots) for slots in inputs]
        self._inputs = [read() for read in self._read]
        self._add = [Adding(rows.gradients, slots[: slots.size * rows.moves[slots].any()]) for slots in inputs]

    def forward(self) -> None:
        self._inputs = [read() for read in self._read]
        self._results[:] = self._twin.forward(*self._inputs)

    def backward(self) -> None:
        slopes = self._twin.slopes(self._results, *self._inputs)
        for add, slope in zip(self._add, slopes, strict=True):
            if add.size:
                add(self._upstream * slope)


class PerhapsUnheard:
    """Nodes of one rule that a `where` may pass by, or that are one.

    What is not heard hands on nothing, not even zero times infinity.
    """

    def __init__(self, rows: Rows, rule: str, inputs: Sequence[Slots], first: int) -> None:
        row = slice(first, first + inputs[0].size)
        self._plain = SameRule(rows, rule, inputs, first)
        self._is_choice = rule == "where"
        self._twin, self._inputs = TWINS[rule], inputs
        self._rows, self._row = rows, row
        self._add = [Adding(rows.gradients, slots) for slots in inputs]

    def forward(self) -> None:
        self._plain.forward()

    def backward(self) -> None:
        values, gradients, _, is_heard = self._rows
        here = is_heard[self._row]
        slopes = self._twin.slopes(values[self._row], *[values[slots] for slots in self._inputs])
        for slots, add, slope in zip(self._inputs, self._add, slopes, strict=True):
            # Of a choice, only the road taken is heard, and the condition never.
            on_the_way = here & (slope == 1.0) if self._is_choice else here
            is_heard[slots[on_the_way]] = True
            add(np.where(on_the_way, gradients[self._row] * slope, 0.0))


def _window(row: Floats, slots: Slots) -> Floats:
    first = int(slots.flat[0])
    return row[first : first + slots.size].reshape(slots.shape)


def _stand_in_a_row(slots: Slots) -> bool:
    return bool((np.diff(slots.reshape(-1)) == 1).all())


def _places(moves: NDArray[np.bool_], axis: int) -> slice | Slots:
    """The terms in which anything moves, as a slice if they stand side by side: what a slice picks is not copied."""
    places = np.flatnonzero(moves.any(axis=axis))
    if places.size and _stand_in_a_row(places):
        return slice(int(places[0]), int(places[-1]) + 1)
    return places
