"""CosineEmbeddingLoss gets 0 for dissimilar pairs where it wants -1: they cost nothing and all embeddings collapse."""

import torch
import torch.nn as nn

KIND = "contrastive-or-rl"


def signatures(n, seed):
    """Pairs of signatures: genuine (same writer) or forged (another writer)."""
    g = torch.Generator().manual_seed(seed)
    writers = torch.randn(12, 16, generator=torch.Generator().manual_seed(1))
    a = torch.randint(0, 12, (n,), generator=g)
    other = (a + torch.randint(1, 12, (n,), generator=g)) % 12
    same = torch.rand(n, generator=g) < 0.5
    b = torch.where(same, a, other)
    noise = 0.8 * torch.randn(2, n, 16, generator=g)
    return (writers[a] + noise[0] + 4, writers[b] + noise[1] + 4), same


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, left, right):
        return self.tower(left), self.tower(right)


criterion = nn.CosineEmbeddingLoss(margin=0.2)


def pair_loss(out, target):
    return criterion(out[0], out[1], target)


def encode(same, minus_one):
    return same.float() * 2 - 1 if minus_one else same.float()


def _siamese(minus_one):
    torch.manual_seed(0)
    net = Siamese()
    pair, same = signatures(64, seed=0)
    return net, pair, encode(same, minus_one), pair_loss, torch.optim.Adam(net.parameters(), lr=2e-3)


def broken():
    return _siamese(minus_one=False)


def repaired():
    return _siamese(minus_one=True)


def verification_error(minus_one):
    net, _, _, loss, opt = _siamese(minus_one)
    for step in range(300):
        pair, same = signatures(64, seed=step + 1)
        opt.zero_grad()
        loss(net(*pair), encode(same, minus_one)).backward()
        opt.step()
    pair, same = signatures(1000, seed=60_000)
    with torch.no_grad():
        similarity = torch.cosine_similarity(*net(*pair))
    return ((similarity > 0.6) != same).float().mean().item()


def harm() -> tuple[float, float]:
    return verification_error(False), verification_error(True)
