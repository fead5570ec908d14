"""Graphs are put into one big batch without adding the node offset to the edges: all messages go to the first graph."""

import torch
from torch import nn

KIND = "indexing"

NODES, EDGES = 8, 20


class GINLayer(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(din, dout), nn.ReLU(), nn.Linear(dout, dout))
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, h, edge_index):
        src, dst = edge_index
        agg = torch.zeros_like(h).index_add(0, dst, h[src])
        return self.mlp((1 + self.eps) * h + agg)


class GraphRegressor(nn.Module):
    """x: (graphs, nodes, features), edges: (graphs, 2, edges)."""

    def __init__(self, add_offset):
        super().__init__()
        self.add_offset = add_offset
        self.conv1 = GINLayer(4, 32)
        self.conv2 = GINLayer(32, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, x, edges):
        b, n, f = x.shape
        if self.add_offset:
            edges = edges + n * torch.arange(b).view(b, 1, 1)
        edge_index = edges.transpose(0, 1).reshape(2, -1)
        h = self.conv1(x.reshape(b * n, f), edge_index).relu()
        h = self.conv2(h, edge_index)
        return self.out(h.view(b, n, -1).mean(1)).squeeze(-1)


def molecules(n, seed):
    """Target: do neighbours agree in their first feature?"""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, NODES, 4, generator=g)
    edges = torch.randint(0, NODES, (n, 2, EDGES), generator=g)
    rows = torch.arange(n)[:, None]
    agreement = (x[rows, edges[:, 0], 0] * x[rows, edges[:, 1], 0]).mean(1)
    return (x, edges), agreement


def build(add_offset):
    torch.manual_seed(7)
    model = GraphRegressor(add_offset)
    inputs, y = molecules(64, 0)
    return model, inputs, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return build(add_offset=False)


def repaired():
    return build(add_offset=True)


def harm() -> tuple[float, float]:
    """Change of the first graph's output when all the other graphs are replaced."""
    change = []
    for setup in (broken, repaired):
        model, (x, edges), *_ = setup()
        (x2, edges2), _ = molecules(64, 1)
        x2[0], edges2[0] = x[0], edges[0]
        with torch.no_grad():
            change.append((model(x, edges)[0] - model(x2, edges2)[0]).abs().item())
    return change[0], change[1]
