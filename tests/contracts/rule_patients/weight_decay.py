"""The patients of the rule weight-decay."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(is_split: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 3))
        inputs, targets = torch.randn(16, 8), torch.randint(3, (16,))
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2 or not is_split]
    spared = [parameter for parameter in model.parameters() if parameter.dim() < 2 and is_split]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": spared, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=1e-2)
    return Specimen(model, (inputs,), targets, nn.CrossEntropyLoss(), optimizer)


def sick() -> Specimen:
    return _network(is_split=False)


def well() -> Specimen:
    return _network(is_split=True)
