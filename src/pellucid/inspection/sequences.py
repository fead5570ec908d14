"""Which of a patient's inputs are sequences, and of which the loss asks for what comes next."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.inspection.loss_views import loss_view
from pellucid.inspection.patient import Patient


def sequence_places(patient: Patient) -> list[int]:
    """Which inputs are sequences: whole numbers (batch, time), or numbers (batch, time, width).

    >>> tokens, mask = torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 5, dtype=torch.bool)
    >>> sequence_places(Patient(torch.nn.Embedding(3, 4), (tokens, mask)))
    [0]
    """
    return [
        place
        for place, one in enumerate(patient.inputs)
        if isinstance(one, Tensor)
        and one.dim() == (3 if one.is_floating_point() else 2)
        and one.numel()
        and one.dtype is not torch.bool
    ]


def causal_place(patient: Patient) -> int | None:
    """The input of which no output may see ahead; None where there is none, or it is not known.

    It is the only sequence of a module that is said to be causal, or the one of which the loss asks, at each position,
    for the token after it: of two sequences, as in translation, that is what the decoder reads.
    """
    places = sequence_places(patient)
    if patient.is_causal is False or not places:
        return None
    if patient.is_causal and len(places) == 1:
        return places[0]
    view = loss_view(patient)
    wanted = view.wanted() if view is not None else None
    if wanted is None:
        return None
    asked = [place for place in places if agreement(patient.inputs[place], wanted, by=1) == 1]
    return asked[0] if len(asked) == 1 else None


def agreement(tokens: Tensor, wanted: Tensor, by: int) -> float:
    """The share of positions at which the token so many places further on is asked for, of those that are asked.

    0 where it cannot be told: of another shape, too short, or all the same.

    >>> tokens = torch.tensor([[1, 2, 3, 4]])
    >>> agreement(tokens, torch.tensor([[2, 3, 4, 0]]), by=1)
    1.0
    """
    length = tokens.shape[1] if tokens.dim() == 2 else 0
    if tokens.shape != wanted.shape or tokens.is_floating_point() or length < 3:
        return 0.0
    start, end = max(0, -by), min(length, length - by)
    asked, there = wanted[:, start:end], tokens[:, start + by : end + by]
    counted = asked >= 0
    if not bool(counted.any()) or not bool((there[counted] != there[counted][0]).any()):
        return 0.0
    return float((asked == there)[counted].float().mean())
