"""What attention was seen to do: weights for each head of a network, over tokens or over the patches of an image."""

from typing import Any, NamedTuple, Protocol

Matrix = tuple[tuple[float, ...], ...]  # by rows
Colours = tuple[tuple[str, ...], ...]  # an image by its rows of colours, such as #ff8800


class Array(Protocol):
    """A tensor of torch or an array of NumPy."""

    def tolist(self) -> Any: ...


def as_matrix(values: Array) -> Matrix:
    """A tensor of two dimensions as plain numbers, for a record."""
    return tuple(map(tuple, values.tolist()))


class Attended(NamedTuple):
    """One kind of attention in a network: who asks, who is asked, and the weights of every head."""

    name: str  # "self-attention", or of which part
    askers: tuple[str, ...]  # tokens
    asked: tuple[str, ...]
    layers: tuple[tuple[Matrix, ...], ...]  # by layer and head; a row for each asker, which sums to one


class AttentionMaps(NamedTuple):
    """What every head of a network attends to while it reads one input."""

    source: str
    parts: tuple[Attended, ...]


class PatchPositions(NamedTuple):
    """How alike the learned positions of a vision transformer are: cosines, by patch and patch."""

    source: str
    grid: tuple[int, int]
    cosines: Matrix
    neighbours: float  # the mean cosine of patches that touch, above, below or beside
    others: float  # that of all other pairs


class PatchAttention(NamedTuple):
    """What the class token of a vision transformer attends to in one image."""

    source: str
    answer: str  # the class that the network says it is
    probability: float
    truth: str  # "" where it is not known
    pixels: Colours
    grid: tuple[int, int]
    layers: tuple[tuple[tuple[float, ...], ...], ...]  # by layer and head: the weight of the class token, then patches
    rollout: tuple[float, ...]  # through all layers: the class token's share, then that of each patch
