"""What a vision transformer looks at in an image, and what it found out about where patches stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pellucid.data.examples import ImagePreparation
from pellucid.data.readers.pictures import colours_of
from pellucid.errors import PellucidError
from pellucid.layers.rollout import rollout, similarity
from pellucid.models.exam import rows
from pellucid.models.examples.vit import ViT
from pellucid.records import PatchAttention, PatchPositions


@torch.no_grad()
def patch_positions(model: ViT, says: str) -> PatchPositions:
    """How alike the learned positions of the patches are; that of the class token has no place and is left out."""
    grid = model.config.grid
    where = model.where(grid)
    if where is None:
        raise PellucidError("this vit has no positions", fix="Train one with --positions learned")
    cosines = similarity(where[1:].double())
    rows_of, columns_of = torch.meshgrid(*(torch.arange(side) for side in grid), indexing="ij")
    places = torch.stack([rows_of.flatten(), columns_of.flatten()], dim=1)
    steps = (places[:, None] - places).abs().sum(-1)  # rows and columns from one to the other
    is_other = ~torch.eye(len(places), dtype=torch.bool)
    return PatchPositions(
        source=says,
        grid=grid,
        cosines=rows(cosines),
        neighbours=float(cosines[steps == 1].mean()),
        others=float(cosines[(steps > 1) & is_other].mean()) if bool((steps > 1).any()) else float("nan"),
    )


@torch.no_grad()
def patch_attention(
    model: ViT, preparation: ImagePreparation, pixels: np.ndarray[Any, Any], says: str, truth: str
) -> PatchAttention:
    """What the class token takes of each patch of one image, in every head, and through all layers.

    pixels: (height, width) or (height, width, 3), 0 to 255, in the network's own size; truth: "" where it is not known.
    """
    numbers = torch.from_numpy(preparation.read(pixels[None])).to(model.class_token)
    maps = model.attention_maps(numbers)  # (depth, 1, heads, tokens, tokens)
    chances = model(numbers, numbers.new_zeros(1, 0)).softmax(-1)[0]
    best = int(chances.argmax())
    answer = f"It says {preparation.classes[best]} with {100 * float(chances[best]):.1f} %"
    return PatchAttention(
        source=says,
        answer=f"{answer}, and it is {truth}" if truth else answer,
        pixels=colours_of(pixels),
        grid=model.config.grid,
        layers=tuple(rows(layer[0, :, 0]) for layer in maps),
        rollout=rows(rollout(maps)[0, :1])[0],
    )
