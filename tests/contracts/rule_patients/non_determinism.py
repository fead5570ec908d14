"""The patients of the rule non-determinism."""

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Noisy(nn.Module):
    """Adds noise to its answer from a generator that nobody seeds, or from torch's."""

    def __init__(self, is_seeded: bool) -> None:
        super().__init__()
        self.is_seeded = is_seeded
        self.linear = nn.Linear(4, 3)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.linear(rows)
        if self.is_seeded:
            return scores + 0.1 * torch.randn_like(scores)
        return scores + 0.1 * torch.from_numpy(np.random.default_rng().standard_normal(scores.shape)).to(scores)


def _patient(is_seeded: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Noisy(is_seeded), (torch.randn(6, 4),))


def sick() -> Specimen:
    return _patient(is_seeded=False)


def well() -> Specimen:
    return _patient(is_seeded=True)
