"""What windows that slide leave of a picture: sizes, parameters, and how much of it each place has seen.

Along each side the windows of length F, S apart, over N places with P more on either end, are

    ⌊(N - F + 2P) / S⌋ + 1

and what the floor drops is said: places that no window reaches. A place of the output sees `field` places of the input,
and its neighbour sees as many, `jump` places further on:

    field ← field + (F - 1) · jump        jump ← S · jump
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.errors import PellucidError

Pair = tuple[int, int]  # rows and columns
Grid = tuple[int, int]  # rows and columns of patches


class Convolution(NamedTuple):
    """Filters that each look at all channels through a window and have weights of their own, and a bias."""

    filters: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)


class Pooling(NamedTuple):
    """The mean or the maximum of each window, channel by channel; nothing is learned."""

    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)


class Dense(NamedTuple):
    """Everything to everything, each output with a bias; the same as filters as large as the picture."""

    outputs: int


Layer = Convolution | Pooling | Dense


class Side(NamedTuple):
    """What sliding makes of one side: how many windows there are, and how many places none of them reaches."""

    length: int
    unused: int


class Stage(NamedTuple):
    """What a layer puts out, and what a place of it has seen; pairs are rows and columns."""

    channels: int
    size: Pair
    parameters: int
    field: Pair  # places of the input that a place sees
    jump: Pair  # places of the input from what one place sees to what its neighbour sees
    unused: Pair  # of what came in; padding is not counted

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.channels, *self.size)

    @property
    def note(self) -> str:
        """What no window reached, in words, or "" when everything was.

        >>> Stage(1, (4, 4), 0, (3, 3), (2, 2), unused=(1, 2)).note
        '1 row and 2 columns are not used'
        """
        parts = [f"{n} {noun}{'s' * (n != 1)}" for n, noun in zip(self.unused, ("row", "column"), strict=True) if n]
        return f"{' and '.join(parts)} {'is' if sum(self.unused) == 1 else 'are'} not used" if parts else ""


def count_windows(n: int, kernel: int, stride: int = 1, padding: int = 0) -> Side:
    """How many windows fit along a side of n places: ⌊(n - kernel + 2·padding) / stride⌋ + 1.

    >>> count_windows(128, kernel=5, stride=3), count_windows(10, kernel=3, stride=5)
    (Side(length=42, unused=0), Side(length=2, unused=4))
    """
    if min(n, kernel, stride) < 1 or padding < 0:
        raise PellucidError(
            f"{n} places, a kernel of {kernel}, a stride of {stride} and a padding of {padding} make no layer",
            fix="Choose at least 1, and at least 0 for the padding",
        )
    if kernel > n + 2 * padding:
        raise PellucidError(
            f"a kernel of {kernel} does not fit into {n} places with {padding} more on either end",
            fix=f"Choose at most {n + 2 * padding}, or a padding of {-(-(kernel - n) // 2)}",
        )
    length = (n - kernel + 2 * padding) // stride + 1
    starts = range(-padding, -padding + length * stride, stride)
    # Each window counts up to where the next begins, and the last to its end.
    ends = [*starts[1:], starts[-1] + kernel]
    reached = sum(max(0, min(n, start + kernel, end) - max(0, start)) for start, end in zip(starts, ends, strict=True))
    return Side(length, n - reached)


def grid_of(height: int, width: int, patch: int) -> Grid:
    """How many rows and columns of patches cover a picture.

    >>> grid_of(8, 8, patch=2), grid_of(8, 9, patch=4)
    ((4, 4), (2, 3))
    """
    return -(-height // patch), -(-width // patch)


def parameters_of(layer: Layer, channels: int, size: Pair) -> int:
    """How many numbers a layer learns, biases among them, on a picture of these channels and this size.

    >>> parameters_of(Convolution(8, kernel=(5, 5)), channels=1, size=(32, 32))
    208
    """
    match layer:
        case Convolution(filters, (rows, columns)):
            return filters * (channels * rows * columns + 1)
        case Dense(outputs):
            return outputs * (channels * size[0] * size[1] + 1)
    return 0


def stages(channels: int, size: Pair, layers: Sequence[Layer]) -> tuple[Stage, ...]:
    """What each layer of a chain puts out, from a picture of these channels and this size.

    >>> first, pooled = stages(1, (32, 32), [Convolution(8, kernel=(5, 5)), Pooling(kernel=(4, 4), stride=(4, 4))])
    >>> first.shape, first.parameters, pooled.shape, pooled.field, pooled.jump
    ((8, 28, 28), 208, (8, 7, 7), (8, 8), (4, 4))
    """
    found: list[Stage] = []
    before = Stage(channels, size, 0, (1, 1), (1, 1), (0, 0))
    for layer in layers:
        if isinstance(layer, Dense):
            kernel, stride, padding = before.size, (1, 1), (0, 0)
        else:
            kernel, stride, padding = layer.kernel, layer.stride, layer.padding
        rows, columns = (count_windows(*side) for side in zip(before.size, kernel, stride, padding, strict=True))
        before = Stage(
            channels=_channels(layer, before.channels),
            size=(rows.length, columns.length),
            parameters=parameters_of(layer, before.channels, before.size),
            field=(
                before.field[0] + (kernel[0] - 1) * before.jump[0],
                before.field[1] + (kernel[1] - 1) * before.jump[1],
            ),
            jump=(stride[0] * before.jump[0], stride[1] * before.jump[1]),
            unused=(rows.unused, columns.unused),
        )
        found.append(before)
    return tuple(found)


def _channels(layer: Layer, before: int) -> int:
    match layer:
        case Convolution(filters):
            return filters
        case Dense(outputs):
            return outputs
    return before
