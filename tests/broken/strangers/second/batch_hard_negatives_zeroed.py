"""Batch-hard triplets mask the distances with zeros before min(), so the hardest negative is always at zero."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "contrastive-or-rl"


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(20, 64), nn.PReLU(), nn.Linear(64, 8))

    def forward(self, x):
        return self.fc(x)


def batch_hard(fill_negatives, margin=1.0):
    """Hermans et al., In Defense of the Triplet Loss."""

    def loss(embeddings, labels):
        dist = torch.cdist(embeddings, embeddings)
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        hardest_positive = (dist * same.float()).max(dim=1).values
        if fill_negatives:
            hardest_negative = dist.masked_fill(same, float("inf")).min(dim=1).values
        else:
            hardest_negative = (dist * (~same).float()).min(dim=1).values
        return F.relu(hardest_positive - hardest_negative + margin).mean()

    return loss


def persons(n, seed, identities=6):
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % identities
    looks = torch.zeros(identities, 20)
    looks[:, :5] = 1.5 * torch.randn(identities, 5, generator=torch.Generator().manual_seed(44))
    return looks[labels] + torch.randn(n, 20, generator=g), labels


def reid(fill_negatives):
    torch.manual_seed(0)
    net = EmbeddingNet()
    x, labels = persons(48, 0)
    return net, x, labels, batch_hard(fill_negatives), torch.optim.Adam(net.parameters(), lr=2e-3)


def broken():
    return reid(fill_negatives=False)


def repaired():
    return reid(fill_negatives=True)


def harm() -> tuple[float, float]:
    """Ratio of the mean distance within an identity to that between identities."""
    ratios = []
    for setup in (broken, repaired):
        net, _, _, loss, opt = setup()
        for i in range(250):
            x, labels = persons(48, 1 + i)
            opt.zero_grad()
            loss(net(x), labels).backward()
            opt.step()
        x, labels = persons(300, 3690)
        with torch.no_grad():
            d = torch.cdist(net(x), net(x))
        same = labels[:, None] == labels[None, :]
        off = ~torch.eye(300, dtype=torch.bool)
        ratios.append((d[same & off].mean() / d[~same].mean()).item())
    return ratios[0], ratios[1]
