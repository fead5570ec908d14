"""The patients of the rule eval-unlike-training."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(momentum: float) -> Specimen:
    with fixed_rng():
        norm = nn.BatchNorm1d(16, momentum=momentum)
        model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3))
        inputs, targets = 5 + 3 * torch.randn(32, 8), torch.randint(3, (32,))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Specimen(model, (inputs,), targets, nn.CrossEntropyLoss(), optimizer)


def sick() -> Specimen:
    """Statistics that never move: eval norms by 0 and 1."""
    return _network(momentum=0.0)


def well() -> Specimen:
    return _network(momentum=0.1)
