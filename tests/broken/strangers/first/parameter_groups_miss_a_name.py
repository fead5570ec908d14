"""Parameter groups are picked by 'weight' and 'bias' in the name: the learned tables have neither and never train."""

import torch
import torch.nn as nn

KIND = "optimizer-and-loop"


class LearnedTables(nn.Module):
    """Per-user and per-item factors kept as bare parameters."""

    def __init__(self, users, items, dim):
        super().__init__()
        self.user_factors = nn.Parameter(torch.randn(users, dim) * 0.3)
        self.item_factors = nn.Parameter(torch.randn(items, dim) * 0.3)

    def forward(self, pairs):
        return self.user_factors[pairs[:, 0]], self.item_factors[pairs[:, 1]]


class Recommender(nn.Module):
    def __init__(self, users=40, items=50, dim=12):
        super().__init__()
        self.tables = LearnedTables(users, items, dim)
        self.norm = nn.LayerNorm(2 * dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, pairs):
        u, v = self.tables(pairs)
        return self.mlp(self.norm(torch.cat([u, v], dim=1))).squeeze(1) + (u * v).sum(1)


def ratings(n, seed):
    taste = torch.Generator().manual_seed(7)
    u, v = torch.randn(40, 3, generator=taste), torch.randn(50, 3, generator=taste)
    g = torch.Generator().manual_seed(seed)
    pairs = torch.stack([torch.randint(0, 40, (n,), generator=g), torch.randint(0, 50, (n,), generator=g)], 1)
    return pairs, (u[pairs[:, 0]] * v[pairs[:, 1]]).sum(1) + 0.1 * torch.randn(n, generator=g)


def parameter_groups(model, everything):
    decay = [p for n, p in model.named_parameters() if "weight" in n and "norm" not in n]
    no_decay = [p for n, p in model.named_parameters() if "bias" in n or "norm" in n]
    groups = [{"params": decay, "weight_decay": 1e-2}, {"params": no_decay, "weight_decay": 0.0}]
    if everything:
        groups.append({"params": list(model.tables.parameters()), "weight_decay": 0.0})
    return groups


def _training(everything):
    torch.manual_seed(0)
    model = Recommender()
    pairs, y = ratings(128, seed=0)
    return model, pairs, y, nn.MSELoss(), torch.optim.AdamW(parameter_groups(model, everything), lr=1e-2)


def broken():
    return _training(everything=False)


def repaired():
    return _training(everything=True)


def _mse(everything):
    model, _, _, mse, opt = _training(everything)
    for step in range(300):
        pairs, y = ratings(128, seed=step + 1)
        model.zero_grad()
        mse(model(pairs), y).backward()
        opt.step()
    pairs, y = ratings(1000, seed=19_191)
    with torch.no_grad():
        return mse(model(pairs), y).item()


def harm() -> tuple[float, float]:
    return _mse(False), _mse(True)
