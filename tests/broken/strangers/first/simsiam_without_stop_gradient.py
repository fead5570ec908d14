"""The self-supervised loss lets gradients into both branches (no stop-gradient), and the representation collapses."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "contrastive-or-rl"


def crops(n, seed):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(10, 24, generator=torch.Generator().manual_seed(8))
    y = torch.randint(0, 10, (n,), generator=g)
    base = centres[y] + 0.3 * torch.randn(n, 24, generator=g)
    a = base + 0.3 * torch.randn(n, 24, generator=g)
    b = base + 0.3 * torch.randn(n, 24, generator=g)
    return (a, b), y


class SimSiam(nn.Module):
    def __init__(self, stop_gradient, dim=32):
        super().__init__()
        self.stop_gradient = stop_gradient
        self.encoder = nn.Sequential(nn.Linear(24, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, dim))
        self.predictor = nn.Sequential(nn.Linear(dim, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, dim))

    def forward(self, a, b):
        z1, z2 = self.encoder(a), self.encoder(b)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        if self.stop_gradient:
            z1, z2 = z1.detach(), z2.detach()
        return p1, p2, z1, z2


def negative_cosine(out, _):
    p1, p2, z1, z2 = out
    return -0.5 * (F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean())


def _simsiam(stop_gradient):
    torch.manual_seed(0)
    model = SimSiam(stop_gradient)
    pair, y = crops(128, seed=0)
    return model, pair, y, negative_cosine, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def broken():
    return _simsiam(stop_gradient=False)


def repaired():
    return _simsiam(stop_gradient=True)


def collapse(stop_gradient):
    """Mean cosine between the representations of different objects: 1 means that all are the same point."""
    model, _, _, loss, opt = _simsiam(stop_gradient)
    for step in range(200):
        pair, y = crops(128, seed=step + 1)
        opt.zero_grad()
        loss(model(*pair), y).backward()
        opt.step()
    model.eval()
    (a, _), y = crops(300, seed=12_121)
    with torch.no_grad():
        z = F.normalize(model.encoder(a), dim=1)
    different = y.unsqueeze(0) != y.unsqueeze(1)
    return (z @ z.t())[different].mean().item()


def harm() -> tuple[float, float]:
    return collapse(False), collapse(True)
