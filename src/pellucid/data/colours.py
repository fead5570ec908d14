"""Pixels as words: the colours of an image, row by row, for a record that needs no NumPy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy


def colours_of(pixels: "numpy.ndarray[Any, Any]") -> tuple[tuple[str, ...], ...]:
    """(height, width) or (height, width, 3), 0 to 255 -> rows of colours.

    >>> import numpy
    >>> colours_of(numpy.array([[0, 255]], dtype=numpy.uint8))
    (('#000000', '#ffffff'),)
    """
    levels = pixels if pixels.ndim == 3 else pixels[..., None].repeat(3, -1)
    return tuple(tuple("#" + bytes(pixel).hex() for pixel in row) for row in levels.tolist())
