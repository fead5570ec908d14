"""What a network for images may be made for, and what it may be given."""

from __future__ import annotations

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.models.examples.configs import shape_text


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
            f"an image of {shape_text(shape)} came, and the network is made for {shape_text(made_for)}",
            fix="Resize it, but not to less" if or_larger else "Resize it",
        )
