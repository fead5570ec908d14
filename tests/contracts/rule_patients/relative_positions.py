"""The patients of the rule relative-positions."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Rotary(nn.Module):
    """One layer of attention whose questions and keys are turned by their positions, in pairs that fit or do not."""

    def __init__(self, fits: bool) -> None:
        super().__init__()
        self.fits = fits
        self.embedding, self.qkv, self.head = nn.Embedding(11, 16), nn.Linear(16, 48), nn.Linear(16, 11)

    def rotate(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * 10.0 ** -torch.arange(0, 2, 0.25)  # (time, 8)
        # Numbers i and i + 8 are a pair, and have one angle; laid out for neighbours, they have two.
        angles = torch.cat([angles, angles], -1) if self.fits else angles.repeat_interleave(2, -1)
        first, second = x.chunk(2, -1)
        return x * angles.cos().to(x) + torch.cat([-second, first], -1) * angles.sin().to(x)

    def forward(self, tokens: Tensor) -> Tensor:
        q, k, v = self.qkv(self.embedding(tokens)).chunk(3, -1)
        scores: Tensor = self.head(
            functional.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        )
        return scores


def _patient(fits: bool) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 11, (4, 9))
        return Specimen(_Rotary(fits), (tokens[:, :-1],), tokens[:, 1:], is_causal=True)


def sick() -> Specimen:
    return _patient(fits=False)


def well() -> Specimen:
    return _patient(fits=True)
