"""The patients of the rule accumulation."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(n_backward: int) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        specimen = Specimen(model, (torch.randn(32, 8),), torch.randint(3, (32,)), nn.CrossEntropyLoss())
    for _ in range(n_backward):
        specimen.loss_of(specimen.outputs()).backward()
    return specimen


def sick() -> Specimen:
    """As it stands in a loop that never clears its gradients."""
    return _network(n_backward=4)


def well() -> Specimen:
    return _network(n_backward=1)
