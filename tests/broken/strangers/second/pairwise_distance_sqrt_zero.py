"""Pairwise distances take sqrt of an exact zero on the diagonal; its infinite slope turns all gradients into NaN."""

import torch
from torch import nn

KIND = "numerics"


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.net(x)


def distance_matrix(z, guard):
    diff = z.unsqueeze(0) - z.unsqueeze(1)
    squared = diff.pow(2).sum(dim=-1)
    if guard:
        return torch.sqrt(squared + 1e-8)
    return torch.sqrt(squared)


def stress_loss(guard):
    """Metric multidimensional scaling: embedded distances should match the given ones."""

    def loss(z, target_distance):
        mask = ~torch.eye(len(z), dtype=torch.bool)
        error = (distance_matrix(z, guard) - target_distance).pow(2) * mask
        return error.sum() / mask.sum()

    return loss


def cities(n, seed):
    g = torch.Generator().manual_seed(seed)
    place = torch.randn(n, 2, generator=g)
    lift = torch.randn(2, 12, generator=torch.Generator().manual_seed(100))
    return torch.tanh(place @ lift), torch.cdist(place, place)


def embed(guard):
    torch.manual_seed(0)
    model = Embedder()
    x, d = cities(32, 0)
    return model, x, d, stress_loss(guard), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return embed(guard=False)


def repaired():
    return embed(guard=True)


def harm() -> tuple[float, float]:
    """Stress on new points; a model of NaN counts as 1000."""
    values = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(100):
            x, d = cities(32, 1 + i)
            opt.zero_grad()
            loss(model(x), d).backward()
            opt.step()
        x, d = cities(100, 4444)
        with torch.no_grad():
            values.append(stress_loss(True)(model(x), d).nan_to_num(1000.0).item())
    return values[0], values[1]
