"""What a network for images may be made for, and what it may be given."""

from __future__ import annotations

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.models.examples.shapes import require_shapes


def require_image(numbers: tuple[int, ...], categories: tuple[int, ...], outputs: int) -> None:
    """Refuse inputs that are no picture of channels, height and width.

    >>> require_image((64,), (), 10)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: an example has the shape 64, which is no image. Give (channels, height, width).
    """
    require_shapes(numbers, categories, outputs)
    if len(numbers) != 3:
        raise PellucidError(
            f"an example has the shape {_shape(numbers)}, which is no image", fix="Give (channels, height, width)"
        )
    if categories:
        raise PellucidError(f"an image came with {len(categories)} columns of categories", fix="Leave them out")


def require_size(pictures: Tensor, made_for: tuple[int, ...], *, or_larger: bool) -> None:
    """Refuse pictures, (batch, channels, height, width), that a network made for one shape cannot read.

    >>> import torch
    >>> require_size(torch.zeros(2, 1, 9, 8), (1, 8, 8), or_larger=False)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: an image of 1 × 9 × 8 came, and the network is made for 1 × 8 × 8. Resize it.
    """
    shape = tuple(pictures.shape[1:])
    if shape == made_for:
        return
    fits = len(shape) == 3 and shape[0] == made_for[0] and shape[1] >= made_for[1] and shape[2] >= made_for[2]
    if not (or_larger and fits):
        raise PellucidError(
            f"an image of {_shape(shape)} came, and the network is made for {_shape(made_for)}",
            fix="Resize it, but not to less" if or_larger else "Resize it",
        )


def _shape(numbers: tuple[int, ...]) -> str:
    return " × ".join(map(str, numbers)) or "nothing"
