"""Learned positions for lengths and resolutions that they were not learned for: read off between those that were."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.errors import PellucidError


def resized_row(positions: Tensor, length: int) -> Tensor:
    """positions: (old length, width) -> (length, width), on the straight lines between neighbours.

    The first stays the first and the last the last.

    >>> resized_row(torch.tensor([[0.0], [3.0]]), length=4).flatten()
    tensor([0., 1., 2., 3.])
    """
    _require_places((length,))
    lines = positions.t()[None]  # (1, width, old length)
    return functional.interpolate(lines, size=length, mode="linear", align_corners=True)[0].t()


def resized_grid(positions: Tensor, old_grid: tuple[int, int], new_grid: tuple[int, int], n_apart: int = 0) -> Tensor:
    """positions: (n_apart + old rows · old columns, width) -> the same for the rows and columns of the new grid.

    n_apart: how many rows stand before the grid and are kept as they are, as that of a class token, which has no place
    in the picture. Between neighbours it is linear in both directions; corners stay corners, as in the vision
    transformer's own code.

    >>> resized_grid(torch.tensor([[9.0], [0.0], [2.0]]), (1, 2), (1, 3), n_apart=1).flatten()
    tensor([9., 0., 1., 2.])
    """
    _require_places(old_grid)
    _require_places(new_grid)
    rows, columns = old_grid
    if len(positions) != n_apart + rows * columns:
        raise PellucidError(
            f"{len(positions)} positions came, and a grid of {rows} × {columns} with {n_apart} apart has "
            f"{n_apart + rows * columns}",
            fix="Give the grid that they were learned for",
        )
    apart, grid = positions[:n_apart], positions[n_apart:]
    picture = grid.t().reshape(1, -1, rows, columns)  # width as channels
    larger = functional.interpolate(picture, size=new_grid, mode="bilinear", align_corners=True)
    return torch.cat([apart, larger[0].flatten(1).t()])


def _require_places(grid: tuple[int, ...]) -> None:
    if min(grid) < 1:
        raise PellucidError(f"there is no place in {' × '.join(map(str, grid))}", fix="Choose at least 1")
