"""The permutation loss of the separator rebuilds its best losses with torch.tensor, which cuts them off the graph."""

from itertools import permutations

import torch
import torch.nn as nn

KIND = "gradients"


def mixtures(n, seed, length=40):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 6.28, length)
    low = torch.sin(2 * t + 6.28 * torch.rand(n, 1, generator=g))
    high = torch.sin(7 * t + 6.28 * torch.rand(n, 1, generator=g))
    sources = torch.stack([low, high], dim=1)
    return sources.sum(1), sources


class Separator(nn.Module):
    def __init__(self, length=40, hidden=96):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(length, hidden), nn.ReLU())
        self.masks = nn.Linear(hidden, 2 * length)
        self.gain = nn.Parameter(torch.ones(2, 1))

    def forward(self, mix):
        return self.masks(self.encoder(mix)).view(len(mix), 2, -1) * self.gain


def pit_mse(estimate, reference, rewrap=False):
    """Each utterance is scored under its best assignment of outputs to speakers."""
    per_perm = torch.stack(
        [(estimate[:, list(p)] - reference).pow(2).mean((1, 2)) for p in permutations(range(2))], dim=1
    )
    best = per_perm.argmin(1).tolist()
    losses = [per_perm[i, b] for i, b in enumerate(best)]
    separation = torch.tensor([v.item() for v in losses]) if rewrap else torch.stack(losses)
    energy = (estimate.pow(2).mean() - reference.pow(2).mean()).abs()
    return separation.mean() + 0.1 * energy


def pit_mse_rewrapped(estimate, reference):
    return pit_mse(estimate, reference, rewrap=True)


def _make(loss):
    torch.manual_seed(0)
    net = Separator()
    mix, sources = mixtures(32, seed=0)
    return net, mix, sources, loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return _make(pit_mse_rewrapped)


def repaired():
    return _make(pit_mse)


def _separation_error(loss):
    net, _, _, criterion, opt = _make(loss)
    for step in range(200):
        mix, sources = mixtures(32, seed=step + 1)
        opt.zero_grad()
        criterion(net(mix), sources).backward()
        opt.step()
    mix, sources = mixtures(256, seed=5000)
    with torch.no_grad():
        return pit_mse(net(mix), sources).item()


def harm() -> tuple[float, float]:
    return _separation_error(pit_mse_rewrapped), _separation_error(pit_mse)
