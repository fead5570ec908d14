"""SimSiam's target branch is not detached, so the representation collapses to a point while the loss reaches -1."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "contrastive-or-rl"


class SimSiam(nn.Module):
    def __init__(self, stop_gradient, dim=16):
        super().__init__()
        self.stop_gradient = stop_gradient
        self.encoder = nn.Sequential(
            nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, dim), nn.BatchNorm1d(dim, affine=True)
        )
        self.predictor = nn.Sequential(nn.Linear(dim, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, dim))

    def forward(self, x1, x2):
        z1, z2 = self.encoder(x1), self.encoder(x2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        if self.stop_gradient:
            z1, z2 = z1.detach(), z2.detach()
        return p1, p2, z1, z2


def negative_cosine(outputs, _):
    p1, p2, z1, z2 = outputs
    return -0.5 * (F.cosine_similarity(p1, z2).mean() + F.cosine_similarity(p2, z1).mean())


def augmented(n, seed):
    g = torch.Generator().manual_seed(seed)
    content = torch.randn(n, 20, generator=g)
    a = content + 0.3 * torch.randn(n, 20, generator=g)
    b = content + 0.3 * torch.randn(n, 20, generator=g)
    return (a, b), torch.arange(n)


def create_model(stop_gradient):
    torch.manual_seed(0)
    model = SimSiam(stop_gradient)
    views, index = augmented(64, 0)
    return model, views, index, negative_cosine, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def broken():
    return create_model(stop_gradient=False)


def repaired():
    return create_model(stop_gradient=True)


def harm() -> tuple[float, float]:
    """Mean cosine between the embeddings of different samples: 1 is collapse."""
    cosines = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(250):
            views, index = augmented(64, 1 + i)
            opt.zero_grad()
            loss(model(*views), index).backward()
            opt.step()
        with torch.no_grad():
            z = F.normalize(model.encoder(augmented(128, 9999)[0][0]), dim=1)
        off = ~torch.eye(128, dtype=torch.bool)
        cosines.append((z @ z.t())[off].abs().mean().item())
    return cosines[0], cosines[1]
