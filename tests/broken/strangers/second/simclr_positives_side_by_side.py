"""The views are stacked as two blocks, but NT-Xent takes rows 2k and 2k+1 for a pair: strangers are pulled together."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "contrastive-or-rl"


class SimCLR(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
        self.g = nn.Linear(64, 16)

    def forward(self, view1, view2):
        z = self.g(self.f(torch.cat([view1, view2], dim=0)))
        z = F.normalize(z, dim=1)
        n = len(view1)
        return z[:n], z[n:]


def nt_xent(blocks, temperature=0.1):
    def loss(outputs, index):
        z = torch.cat(outputs, dim=0)
        n = len(index)
        sim = z @ z.t() / temperature
        sim = sim.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        positives = torch.cat([index + n, index]) if blocks else torch.arange(2 * n) ^ 1
        return F.cross_entropy(sim, positives)

    return loss


def two_views(n, seed):
    """The first 6 coordinates are the content, the rest is style that augmentation redraws."""
    g = torch.Generator().manual_seed(seed)
    content = torch.randn(n, 6, generator=g)
    views = [
        torch.cat([content + 0.3 * torch.randn(n, 6, generator=g), 2 * torch.randn(n, 10, generator=g)], dim=1)
        for _ in range(2)
    ]
    return tuple(views), torch.arange(n)


def pretext(blocks):
    torch.manual_seed(0)
    model = SimCLR()
    views, index = two_views(64, 0)
    return model, views, index, nt_xent(blocks), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return pretext(blocks=False)


def repaired():
    return pretext(blocks=True)


def harm() -> tuple[float, float]:
    """Share of new samples whose nearest second view is not their own, after a short pretraining."""
    misses = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(150):
            views, index = two_views(64, 1 + i)
            opt.zero_grad()
            loss(model(*views), index).backward()
            opt.step()
        views, index = two_views(200, 7531)
        with torch.no_grad():
            a, b = model(*views)
        misses.append(((a @ b.t()).argmax(1) != index).float().mean().item())
    return misses[0], misses[1]
