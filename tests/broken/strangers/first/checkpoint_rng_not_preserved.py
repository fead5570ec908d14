"""Checkpointed dropout blocks are recomputed with preserve_rng_state=False: the gradient belongs to another mask."""

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

KIND = "gradients"


class Block(nn.Module):
    def __init__(self, dim, p):
        super().__init__()
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(p), nn.Linear(2 * dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return x + self.ff(self.norm(x))


class CheckpointedMLP(nn.Module):
    def __init__(self, preserve, dim=32, depth=4, p=0.5):
        super().__init__()
        self.preserve = preserve  # False is "a bit faster" according to the docs
        self.stem = nn.Linear(12, dim)
        self.blocks = nn.ModuleList(Block(dim, p) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=self.preserve)
        return self.head(x)


def batch(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    return x, (x[:, :3] + 0.5 * x[:, 3:6] ** 2).argmax(1)


def _run(preserve):
    torch.manual_seed(0)
    model = CheckpointedMLP(preserve)
    x, y = batch(64, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.AdamW(model.parameters(), lr=1e-3)


def broken():
    return _run(preserve=False)


def repaired():
    return _run(preserve=True)


def gradient_error(preserve):
    """Relative distance to the gradient of the same loss, same masks, without checkpointing."""
    model, x, y, criterion, _ = _run(preserve)
    torch.manual_seed(1)
    criterion(model(x), y).backward()
    got = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    torch.manual_seed(1)
    h = model.stem(x)
    for block in model.blocks:
        h = block(h)
    criterion(model.head(h), y).backward()
    want = torch.cat([p.grad.flatten() for p in model.parameters()])
    return ((got - want).norm() / want.norm()).item()


def harm() -> tuple[float, float]:
    return gradient_error(False), gradient_error(True)
