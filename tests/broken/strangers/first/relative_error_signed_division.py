"""The dimension-aware loss divides by the signed prediction: a negative size makes the loss negative and runs away."""

import torch
from torch import nn

KIND = "loss"


def boxes(n, seed):
    """3D boxes: appearance features -> (h, w, l) in metres."""
    g = torch.Generator().manual_seed(seed)
    f = torch.randn(n, 16, generator=g)
    w = torch.randn(16, 3, generator=torch.Generator().manual_seed(3)) / 8
    return f, torch.tensor([1.5, 1.8, 4.0]) * torch.exp(f @ w)


class SizeHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.1), nn.Linear(64, 3))

    def forward(self, feats):
        return self.fc(feats)


class DimAwareL1(nn.Module):
    """|pred - target| / size, as in monocular 3D detection; the scale is kept by a compensation weight."""

    def __init__(self, use_abs):
        super().__init__()
        self.use_abs = use_abs

    def forward(self, pred, target):
        size = pred.detach()
        size = size.abs() if self.use_abs else size
        loss = (pred - target).abs()
        plain = loss.detach().mean()
        loss = loss / (size + 1e-2)
        weight = plain / loss.detach().abs().mean()
        return (loss * weight).mean()


def _setup(use_abs):
    torch.manual_seed(0)
    head = SizeHead()
    x, y = boxes(64, seed=0)
    return head, x, y, DimAwareL1(use_abs), torch.optim.Adam(head.parameters(), lr=2e-3)


def broken():
    return _setup(use_abs=False)


def repaired():
    return _setup(use_abs=True)


def _mae(use_abs):
    head, _, _, loss, opt = _setup(use_abs)
    for step in range(400):
        x, y = boxes(64, seed=10 + step)
        opt.zero_grad()
        loss(head(x), y).backward()
        opt.step()
    x, y = boxes(500, seed=1)
    with torch.no_grad():
        return (head(x) - y).abs().mean().item()


def harm() -> tuple[float, float]:
    return _mae(False), _mae(True)
