"""Which of a patient's inputs is a sequence, and whether the loss asks for what comes next."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.inspection.loss_views import loss_view
from pellucid.inspection.patient import Patient


def sequence_place(patient: Patient) -> int | None:
    """Which input is a sequence: whole numbers (batch, time), or numbers (batch, time, width)."""
    for place, one in enumerate(patient.inputs):
        if isinstance(one, Tensor) and one.dim() == (3 if one.is_floating_point() else 2) and one.numel():
            return None if one.dtype is torch.bool else place
    return None


def must_not_see_ahead(patient: Patient) -> bool:
    """Whether it is said to be causal, or its loss asks at every position for the token after it."""
    if patient.is_causal is not None:
        return patient.is_causal
    tokens = patient.tokens
    view = loss_view(patient) if tokens is not None else None
    wanted = view.wanted() if view is not None else None
    if tokens is None or wanted is None or wanted.dim() != 2 or wanted.shape[0] != tokens.shape[0]:
        return False
    if wanted.shape[1] != tokens.shape[1] or tokens.shape[1] < 3:
        return False
    wanted, following = wanted[:, :-1], tokens[:, 1:]
    asked = wanted >= 0
    return (
        bool(asked.any())
        and bool((wanted == following)[asked].all())
        and bool((following[asked] != following[asked][0]).any())
    )
