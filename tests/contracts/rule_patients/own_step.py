"""The patients of the rule own-step."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(clears: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        inputs, targets = torch.randn(32, 8), torch.randint(3, (32,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        if clears:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return Specimen(model, (inputs,), targets, optimizer=optimizer, step=step)


def sick() -> Specimen:
    """A loop without zero_grad."""
    return _network(clears=False)


def well() -> Specimen:
    return _network(clears=True)
