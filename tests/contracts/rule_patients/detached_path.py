"""The patients of the rule detached-path."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Attention(nn.Module):
    """One head that mixes values by the softmax of its scores, or takes the one with the highest."""

    def __init__(self, is_hard: bool) -> None:
        super().__init__()
        self.is_hard = is_hard
        self.queries, self.keys, self.values = (nn.Linear(6, 6, bias=False) for _ in range(3))
        self.head = nn.Linear(6, 3)

    def forward(self, rows: Tensor) -> Tensor:
        scores = self.queries(rows) @ self.keys(rows).transpose(1, 2)
        values = self.values(rows)
        if self.is_hard:
            best = scores.argmax(-1, keepdim=True).expand(-1, -1, values.shape[-1])
            mixed = values.gather(1, best)
        else:
            mixed = scores.softmax(-1) @ values
        answer: Tensor = self.head(mixed.mean(1))
        return answer


def _patient(is_hard: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Attention(is_hard), (torch.randn(9, 5, 6),), torch.arange(9) % 3, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_hard=True)


def well() -> Specimen:
    return _patient(is_hard=False)
