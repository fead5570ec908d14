"""Masks, positions and attention that is told what to do, each built from the layers themselves and shown as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from pellucid.layers.given import convolution_attention, identity_attention, permutation_attention
from pellucid.layers.masks import CAUSAL, EVERYTHING, Local, Mask, Padding
from pellucid.models.exam import rows
from pellucid.records import GivenAttention, GivenShown, GivenWeights, MaskShown, MasksShown

TIME = 6  # positions of what is shown
KERNEL = (0.25, 0.5, 0.25)
ORDER = (2, 0, 1, 5, 3, 4)
SCALES = (1.0, 3.0, 10.0)


def masks_study() -> MasksShown:
    """The masks that attention knows, each with what it adds to the scores and what is left of equal ones.

    >>> [mask.name for mask in masks_study().masks]
    ['none', 'causal', 'local', 'padding', 'causal and padding']
    """
    padding = Padding(torch.tensor([TIME - 2]))
    shown: tuple[tuple[str, str, Mask], ...] = (
        ("none", "everyone sees everyone", EVERYTHING),
        ("causal", "nothing later", CAUSAL),
        ("local", "1 before, 1 after", Local(before=1, after=1)),
        ("padding", f"{TIME - 2} of {TIME} are real", padding),
        ("causal and padding", "what both leave", CAUSAL & padding),
    )
    return MasksShown(tuple(_mask(*one) for one in shown))


def _mask(name: str, says: str, mask: Mask) -> MaskShown:
    scores = torch.zeros(1, TIME, TIME, dtype=torch.float64)  # of one example, as padding needs it
    seen = mask.seen(scores.shape, scores.device).expand_as(scores)[0]
    added = mask.added(scores.shape, scores).expand_as(scores)[0]
    return MaskShown(
        name, says, tuple(tuple(row) for row in seen.tolist()), rows(added), rows((scores[0] + added).softmax(-1))
    )


def given_study() -> GivenShown:
    """The identity, a permutation and a convolution, by attention whose positions and scale are given.

    >>> [[round(each.farthest, 4) for each in one.tried] for one in given_study().attentions]
    [[0.6478, 0.1993, 0.0002], [0.6478, 0.1993, 0.0002], [0.4416, 0.1399, 0.0002]]
    """
    positions = torch.eye(TIME, dtype=torch.float64)
    order = " ".join(str(place + 1) for place in ORDER)
    return GivenShown(
        source=f"{TIME} positions, the rows of the identity matrix",
        attentions=(
            _given("identity", "each asks for itself", positions, partial(identity_attention, positions)),
            _given(
                "permutation",
                f"they ask for {order}",
                positions[list(ORDER)],
                partial(permutation_attention, positions, ORDER),
            ),
            _given(
                "convolution",
                f"neighbours by {' '.join(f'{share:g}' for share in KERNEL)}",
                _banded(positions),
                partial(convolution_attention, positions, KERNEL),
            ),
        ),
    )


def _given(name: str, says: str, wanted: Tensor, attention: Callable[[float], Tensor]) -> GivenAttention:
    tried = []
    for scale in SCALES:
        weights = attention(scale)
        tried.append(GivenWeights(scale, rows(weights), float((wanted - weights).abs().max())))
    return GivenAttention(name, says, rows(wanted), tuple(tried))


def _banded(like: Tensor) -> Tensor:
    """The kernel around each position; at the ends what would fall outside is shared among the rest."""
    reach = len(KERNEL) // 2
    band = torch.zeros_like(like)
    for offset, share in enumerate(KERNEL, start=-reach):
        band += share * torch.diag(torch.ones(len(like) - abs(offset), dtype=like.dtype), offset)
    return band / band.sum(-1, keepdim=True)
