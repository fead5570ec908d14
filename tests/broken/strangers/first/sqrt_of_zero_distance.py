"""The pairwise distances take sqrt of a diagonal that is exactly zero and mask it afterwards: every gradient is NaN."""

import torch
import torch.nn as nn

KIND = "numerics"


def faces(n, seed):
    g = torch.Generator().manual_seed(seed)
    person = torch.randint(0, 8, (n,), generator=g)
    base = torch.randn(8, 20, generator=torch.Generator().manual_seed(5))
    return base[person] + 0.9 * torch.randn(n, 20, generator=g), person


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, x):
        return self.net(x)


class BatchHardTriplet(nn.Module):
    def __init__(self, eps, margin=0.5):
        super().__init__()
        self.eps, self.margin = eps, margin

    def pairwise(self, z):
        sq = (z.unsqueeze(0) - z.unsqueeze(1)).pow(2).sum(-1)
        return (sq + self.eps).sqrt()

    def forward(self, z, person):
        dist = self.pairwise(z)
        same = person.unsqueeze(0) == person.unsqueeze(1)
        eye = torch.eye(len(z), dtype=torch.bool)
        hardest_pos = torch.where(same & ~eye, dist, torch.zeros_like(dist)).max(1).values
        hardest_neg = torch.where(same, torch.full_like(dist, 1e4), dist).min(1).values
        return torch.relu(hardest_pos - hardest_neg + self.margin).mean()


def _setup(eps):
    torch.manual_seed(0)
    model = Embedder()
    x, person = faces(64, seed=0)
    return model, x, person, BatchHardTriplet(eps), torch.optim.Adam(model.parameters(), lr=1e-3)


def broken():
    return _setup(eps=0.0)


def repaired():
    return _setup(eps=1e-12)


def retrieval_error(eps):
    model, _, _, loss, opt = _setup(eps)
    for step in range(150):
        x, person = faces(64, seed=step + 1)
        opt.zero_grad()
        loss(model(x), person).backward()
        opt.step()
    gallery, who = faces(200, seed=1111)
    probe, truth = faces(200, seed=2222)
    with torch.no_grad():
        d = torch.cdist(model(probe), model(gallery)).nan_to_num(0.0)
    return (who[d.argmin(1)] != truth).float().mean().item()


def harm() -> tuple[float, float]:
    return retrieval_error(0.0), retrieval_error(1e-12)
