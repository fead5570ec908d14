"""The patients of the rule post-norm-depth."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules.post_norm_depth import DEEP


class _Block(nn.Module):
    def __init__(self, width: int, is_first: bool) -> None:
        super().__init__()
        self.norm, self.branch, self.is_first = nn.LayerNorm(width), nn.Linear(width, width), is_first

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            return x + self.branch(self.norm(x)).relu()
        return self.norm(x + self.branch(x).relu())


def _stack(is_first: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(*(_Block(16, is_first) for _ in range(2 * DEEP + 2)), nn.Linear(16, 3))
        inputs, targets = torch.randn(8, 16), torch.randint(3, (8,))
        return Specimen(model, (inputs,), targets, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters()))


def sick() -> Specimen:
    return _stack(is_first=False)


def well() -> Specimen:
    return _stack(is_first=True)
