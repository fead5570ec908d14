"""What attention shows: its road from an average, positions, and the exam's model with its matrices set by hand."""

from typing import NamedTuple

Matrix = tuple[tuple[float, ...], ...]  # by rows


class RoadShown(NamedTuple):
    """Four matrices over the same tokens, each row a position and what it takes of those before it."""

    tokens: tuple[str, ...]
    averaging: Matrix  # L̄
    wei: Matrix  # 0 where one may look, -inf where not
    softmax_of_wei: Matrix  # L̄ again
    weights: Matrix  # by the data: softmax(queries · keys / √d + wei)


class PositionsShown(NamedTuple):
    """One kind of positions: the numbers that each position has, and how any two of them meet.

    For positions that are added or that turn, `products` are the dot products of the encodings; for those that act on
    the scores it is what they add there, in the first head, and there are no encodings.
    """

    kind: str
    acts_on: str
    encodings: Matrix  # a row for each position, or none
    products: Matrix


class HandSetModel(NamedTuple):
    """A decoder of one layer on one example, with every number on the way from tokens to loss."""

    says: str  # how it attends, and with how many heads
    tokens: tuple[str, ...]
    vocabulary: tuple[str, ...]
    n_input: int  # tokens up to START and with it; those behind it are the output
    attention: Matrix  # of the first head; the heads are alike
    z: Matrix  # what each position gathered, heads side by side
    logits: Matrix  # tokens × vocabulary
    probabilities: Matrix
    own: tuple[float, ...]  # of each output token, scored at its own position, which has already seen it
    before: tuple[float, ...]  # of each output token, scored one position before, as a decoder must
    unshifted_loss: float  # -Σ ln own
    shifted_loss: float  # -Σ ln before
