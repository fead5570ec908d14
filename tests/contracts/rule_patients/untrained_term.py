"""The patients of the rule untrained-term."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(keeps_graph: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        rows, targets = torch.randn(16, 3), torch.randn(16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        given = rows.clone().requires_grad_()
        outputs = model(given)
        (slope,) = torch.autograd.grad(outputs.sum(), given, create_graph=keeps_graph, retain_graph=True)
        loss = nn.functional.mse_loss(outputs, targets) + 10 * (slope.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Specimen(model, (rows,), targets, None, optimizer, step=step)


def sick() -> Specimen:
    """A penalty on gradients that are taken without their own graph."""
    return _patient(keeps_graph=False)


def well() -> Specimen:
    return _patient(keeps_graph=True)
