"""The patients of the rule quantile-order."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

LEVELS = torch.tensor([0.1, 0.5, 0.9])


def _network(sign: int) -> Specimen:
    def pinball(outputs: Tensor, targets: Tensor) -> Tensor:
        error = sign * (targets[:, None] - outputs)
        return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean()

    with fixed_rng():
        return Specimen(nn.Linear(4, 3), (torch.randn(32, 4),), torch.randn(32), pinball)


def sick() -> Specimen:
    return _network(-1)


def well() -> Specimen:
    return _network(1)
