"""The normalisation of each edge is read at the number of the edge and not at its sender and receiver."""

# Reported as "Bug in GCNConv Layer" (alexOarga/haiku-geometric).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "indexing"


class Sums(nn.Module):
    """Mean of a node's neighbours."""

    def __init__(self, is_by_edge):
        super().__init__()
        self.is_by_edge = is_by_edge
        self.body, self.out = nn.Linear(3, 24), nn.Linear(24, 1)

    def forward(self, x, senders, receivers):
        degree = torch.zeros(len(x)).index_add(0, receivers, torch.ones(len(receivers)))
        scale = 1 / degree.clamp(min=1)
        weight = scale[receivers] if self.is_by_edge else scale[: len(receivers)]
        h = self.body(x)
        spread = torch.zeros_like(h).index_add(0, receivers, h[senders] * weight[:, None])
        return self.out(torch.relu(spread)).squeeze(-1)


def graph(seed, nodes=60, edges=60):
    g = torch.Generator().manual_seed(seed)
    senders = torch.randint(0, nodes, (edges,), generator=g)
    receivers = (nodes * torch.rand(edges, generator=g) ** 3).long()
    x = torch.randn(nodes, 3, generator=g)
    count = torch.zeros(nodes).index_add(0, receivers, torch.ones(edges)).clamp(min=1)
    mean = torch.zeros(nodes, 3).index_add(0, receivers, x[senders]) / count[:, None]
    return (x, senders, receivers), mean[:, 0].abs() + mean[:, 1]


def patient(is_by_edge):
    torch.manual_seed(0)
    net = Sums(is_by_edge)
    return net, *graph(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = graph(10**6)
    return harm_of((broken, repaired), 300, lambda net: (net(*x) - y).square().mean(), graph)
