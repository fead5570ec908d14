"""The patients of the rule symmetry."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(is_filled: bool) -> Specimen:
    with fixed_rng():
        hidden = nn.Linear(8, 16)
        if is_filled:
            nn.init.constant_(hidden.weight, 0.1)
            nn.init.zeros_(hidden.bias)
        model = nn.Sequential(hidden, nn.Tanh(), nn.Linear(16, 3))
        nn.init.constant_(model[2].weight, 0.1)
        return Specimen(model, (torch.randn(32, 8),), torch.randint(3, (32,)), nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _network(is_filled=True)


def well() -> Specimen:
    """The last layer is filled in here too, and its classes are still taught apart."""
    return _network(is_filled=False)
