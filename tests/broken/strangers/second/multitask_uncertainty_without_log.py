"""Learned task weights exp(-s) lack the +s term of Kendall et al., so every weight shrinks and learning stops."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "loss"


class MultiTaskNet(nn.Module):
    """Shared trunk, depth (regression) and segmentation-like (classification) heads."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 48), nn.ReLU())
        self.depth = nn.Linear(48, 1)
        self.semantic = nn.Linear(48, 4)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.trunk(x)
        return self.depth(h).squeeze(1), self.semantic(h), self.log_vars


def multitask_loss(regularised):
    def loss(outputs, targets):
        depth, logits, s = outputs
        depth_true, label = targets
        losses = torch.stack([F.mse_loss(depth, depth_true), F.cross_entropy(logits, label)])
        total = (torch.exp(-s) * losses).sum()
        if regularised:
            total = total + s.sum()
        return total

    return loss


def scenes(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    depth = 3 * torch.sin(x[:, 0]) + x[:, 1] ** 2
    label = (x[:, 2] > 0).long() * 2 + (x[:, 3] * x[:, 4] > 0).long()
    return x, (depth, label)


def get(regularised):
    torch.manual_seed(17)
    model = MultiTaskNet()
    x, y = scenes(64, 0)
    return model, x, y, multitask_loss(regularised), torch.optim.SGD(model.parameters(), lr=0.03)


def broken():
    return get(False)


def repaired():
    return get(True)


def harm() -> tuple[float, float]:
    totals = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(800):
            x, y = scenes(64, 1 + i)
            opt.zero_grad()
            loss(model(x), y).backward()
            opt.step()
        x, (depth, label) = scenes(1000, 50505)
        with torch.no_grad():
            d, logits, _ = model(x)
            totals.append((F.mse_loss(d, depth) + F.cross_entropy(logits, label)).item())
    return totals[0], totals[1]
