"""The patients of the rule constant-targets."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(is_constant: bool) -> Specimen:
    with fixed_rng():
        model, x = nn.Linear(6, 3), torch.randn(16, 6)
        labels = torch.randint(3, (16,))
    return Specimen(model, (x,), labels[:1].expand(16).clone() if is_constant else labels, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _network(is_constant=True)


def well() -> Specimen:
    return _network(is_constant=False)
