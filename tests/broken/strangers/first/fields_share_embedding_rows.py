"""All categorical fields index one embedding table without offsets, so city 3 and weekday 3 share a vector."""

import torch
import torch.nn as nn

KIND = "indexing"
FIELDS = (7, 12, 10, 9)  # weekday, month, city, device


def clicks(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.stack([torch.randint(0, size, (n,), generator=g) for size in FIELDS], dim=1)
    effect = torch.Generator().manual_seed(2)
    score = torch.zeros(n)
    for f, size in enumerate(FIELDS):
        score += torch.randn(size, generator=effect)[x[:, f]]
    return x, (score > 0).float()


class FactorizationMachine(nn.Module):
    def __init__(self, use_offsets, dim=8):
        super().__init__()
        total = sum(FIELDS)
        self.linear = nn.Embedding(total, 1)
        self.embedding = nn.Embedding(total, dim)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.normal_(self.embedding.weight, std=0.05)
        starts = torch.tensor([0, *FIELDS[:-1]]).cumsum(0)
        self.register_buffer("offsets", starts if use_offsets else torch.zeros_like(starts))

    def forward(self, x):
        x = x + self.offsets
        v = self.embedding(x)
        interaction = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1)
        return self.linear(x).sum((1, 2)) + interaction + self.bias


def _ctr(use_offsets):
    torch.manual_seed(0)
    model = FactorizationMachine(use_offsets)
    x, y = clicks(128, seed=0)
    return model, x, y, nn.BCEWithLogitsLoss(), torch.optim.Adam(model.parameters(), lr=2e-2)


def broken():
    return _ctr(use_offsets=False)


def repaired():
    return _ctr(use_offsets=True)


def _error(use_offsets):
    model, _, _, bce, opt = _ctr(use_offsets)
    for step in range(300):
        x, y = clicks(128, seed=step + 1)
        opt.zero_grad()
        bce(model(x), y).backward()
        opt.step()
    x, y = clicks(2000, seed=14_141)
    with torch.no_grad():
        return ((model(x) > 0).float() != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(False), _error(True)
