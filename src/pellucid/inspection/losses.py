"""Losses that can be asked for by name, for a command line, where no function can be given.

They are torch's own, as strict and as lenient as torch is: a silent broadcast stays silent, or no rule could see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from pellucid.errors import require_one_of
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.specimen import LossFunction


def cross_entropy_loss(outputs: Any, targets: Tensor) -> Tensor:
    """The mean of -log of the targets' probabilities; targets of -100 do not count.

    outputs: (..., classes) for targets of shape (...), or as torch has it (batch, classes, ...).

    >>> import torch
    >>> cross_entropy_loss(torch.zeros(2, 5, 3), torch.zeros(2, 5, dtype=torch.long))  # ln 3
    tensor(1.0986)
    """
    return F.cross_entropy(*_by_class(outputs, targets))


# As torch's functions of these names have it. train's hinge is another loss than multi-margin: it takes the best rival
# alone, where this one adds up what the true class lacks of a lead of 1 over each, and divides by all classes.
LOSSES: Mapping[str, LossFunction] = MappingProxyType(
    {
        "cross-entropy": cross_entropy_loss,
        "mse": lambda outputs, targets: F.mse_loss(_tensor(outputs), targets),
        "l1": lambda outputs, targets: F.l1_loss(_tensor(outputs), targets),
        "huber": lambda outputs, targets: F.huber_loss(_tensor(outputs), targets),
        "bce": lambda outputs, targets: F.binary_cross_entropy_with_logits(
            _tensor(outputs), targets.to(_tensor(outputs).dtype)
        ),
        "nll": lambda outputs, targets: F.nll_loss(*_by_class(outputs, targets)),
        "multi-margin": lambda outputs, targets: F.multi_margin_loss(_tensor(outputs), targets),
    }
)


def find_loss_function(name: str) -> LossFunction:
    """The loss of that name; an unknown one is answered with the nearest.

    >>> import torch
    >>> find_loss_function("mse")(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(4.)
    """
    require_one_of("loss", name, LOSSES)
    return LOSSES[name]


def _by_class(outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and targets as torch takes them, where classes stand last as (rows, classes) and (rows,)."""
    scores = _tensor(outputs)
    if targets.is_floating_point() or scores.shape[:-1] != targets.shape:
        return scores, targets
    return scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)


def _tensor(outputs: Any) -> Tensor:
    found = main_tensor(outputs)
    if found is None:
        raise TypeError(f"the model puts out a {type(outputs).__name__}, in which no tensor was found")
    return found
