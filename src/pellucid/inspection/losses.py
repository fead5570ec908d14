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
from pellucid.inspection.instrument.specimen import LossFunction, main_tensor


def cross_entropy_loss(outputs: Any, targets: Tensor) -> Tensor:
    """The mean of -log of the targets' probabilities; targets of -100 do not count.

    outputs: (..., classes) for targets of shape (...), or as torch has it (batch, classes, ...).

    >>> import torch
    >>> cross_entropy_loss(torch.zeros(2, 5, 3), torch.zeros(2, 5, dtype=torch.long))  # ln 3
    tensor(1.0986)
    """
    scores = _tensor(outputs)
    if not targets.is_floating_point() and scores.shape[:-1] == targets.shape:
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
    return F.cross_entropy(scores, targets)


def mse_loss(outputs: Any, targets: Tensor) -> Tensor:
    """The mean of squared differences."""
    return F.mse_loss(_tensor(outputs), targets)


def l1_loss(outputs: Any, targets: Tensor) -> Tensor:
    """The mean of differences without their signs."""
    return F.l1_loss(_tensor(outputs), targets)


def bce_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Of scores before the sigmoid; targets are 0 to 1."""
    return F.binary_cross_entropy_with_logits(_tensor(outputs), targets.to(_tensor(outputs).dtype))


def nll_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Of log-probabilities, as a log-softmax gives them."""
    scores = _tensor(outputs)
    if scores.shape[:-1] == targets.shape:
        return F.nll_loss(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
    return F.nll_loss(scores, targets)


def huber_loss(outputs: Any, targets: Tensor) -> Tensor:
    """Squared where the difference is below 1, and straight beyond."""
    return F.huber_loss(_tensor(outputs), targets)


def hinge_loss(outputs: Any, targets: Tensor) -> Tensor:
    """What the true class lacks of a lead of 1 over the others: (batch, classes), (batch,)."""
    return F.multi_margin_loss(_tensor(outputs), targets)


LOSSES: Mapping[str, LossFunction] = MappingProxyType(
    {
        "cross-entropy": cross_entropy_loss,
        "mse": mse_loss,
        "l1": l1_loss,
        "huber": huber_loss,
        "bce": bce_loss,
        "nll": nll_loss,
        "hinge": hinge_loss,
    }
)


def find_loss_function(name: str) -> LossFunction:
    """The loss of that name; an unknown one is answered with the nearest.

    >>> find_loss_function("mse") is mse_loss
    True
    """
    require_one_of("loss", name, LOSSES)
    return LOSSES[name]


def _tensor(outputs: Any) -> Tensor:
    found = main_tensor(outputs)
    if found is None:
        raise TypeError(f"the model puts out a {type(outputs).__name__}, in which no tensor was found")
    return found
