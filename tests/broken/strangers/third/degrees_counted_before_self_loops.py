"""Degrees for the normalisation are counted before the self-loops are added: nodes without neighbours are lost."""

# Reported as "GCNProp forward operations" (pyg-team/pytorch_geometric).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "numerics"


class GCN(nn.Module):
    def __init__(self, loops_first):
        super().__init__()
        self.loops_first = loops_first
        self.one, self.two = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, x, adjacency):
        loops = torch.eye(adjacency.shape[-1])
        degree = (adjacency + loops if self.loops_first else adjacency).sum(-1)
        scale = degree.clamp(min=1e-12).rsqrt() * (degree > 0)
        spread = scale[..., None] * (adjacency + loops) * scale[..., None, :]
        return (spread @ self.two(torch.relu(spread @ self.one(x)))).squeeze(-1)


def graphs(seed, n=16, nodes=10):
    g = torch.Generator().manual_seed(seed)
    upper = (torch.rand(n, nodes, nodes, generator=g) < 0.08).float().triu(1)
    x = torch.randn(n, nodes, 4, generator=g)
    return (x, upper + upper.transpose(1, 2)), x[..., 0] + x[..., 1].abs()


def patient(loops_first):
    torch.manual_seed(0)
    net = GCN(loops_first)
    return net, *graphs(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = graphs(10**6, 100)
    return harm_of((broken, repaired), 200, lambda net: (net(*x) - y).square().mean(), graphs)
