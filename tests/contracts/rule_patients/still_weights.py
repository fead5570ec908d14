"""The patients of the rule still-weights."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(put_back: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        inputs, targets = torch.randn(32, 8), torch.randint(3, (32,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if put_back:
        kept = model[0].weight.detach().clone()
        optimizer.register_step_post_hook(lambda *_: model[0].weight.data.copy_(kept))
    return Specimen(model, (inputs,), targets, nn.CrossEntropyLoss(), optimizer)


def sick() -> Specimen:
    """After each step something puts the first layer back."""
    return _network(put_back=True)


def well() -> Specimen:
    return _network(put_back=False)
