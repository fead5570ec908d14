"""The patients of the rule inert-inputs."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Pooled(nn.Module):
    """The mean of a text's tokens, of all or of those that the mask keeps."""

    def __init__(self, uses_mask: bool) -> None:
        super().__init__()
        self.uses_mask = uses_mask
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        kept = mask[..., None].float() if self.uses_mask else torch.ones(*tokens.shape, 1)
        x = self.embedding(tokens).tanh()
        scores: Tensor = self.head((x * kept).sum(1) / kept.sum(1).clamp(min=1))
        return scores


def _patient(uses_mask: bool) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 11, (6, 9))
        mask = torch.arange(9) < torch.randint(3, 10, (6, 1))
        return Specimen(_Pooled(uses_mask), (tokens, mask), torch.arange(6) % 3, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(uses_mask=False)


def well() -> Specimen:
    return _patient(uses_mask=True)
