"""The class scores of a graph network pass a softmax before the cross-entropy, which takes logits."""

# Reported as "Fix bug softmax" (mlelarge/graph_neural_net).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "loss"


class Assignment(nn.Module):
    """Scores of which node of the second graph is which of the first."""

    def __init__(self, ends_in_softmax):
        super().__init__()
        self.ends_in_softmax = ends_in_softmax
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, one, other):
        scores = self.body(one) @ self.body(other).transpose(1, 2)
        return scores.softmax(-1) if self.ends_in_softmax else scores


def loss(scores, wanted):
    return nn.functional.cross_entropy(scores.transpose(1, 2), wanted)


def graphs(seed, n=16, nodes=12):
    g = torch.Generator().manual_seed(seed)
    one = torch.randn(n, nodes, 4, generator=g)
    order = torch.rand(n, nodes, generator=g).argsort(1)
    other = torch.empty_like(one).scatter_(1, order[..., None].expand(-1, -1, 4), one)
    return (one, other + 0.3 * torch.randn(n, nodes, 4, generator=g)), order


def patient(ends_in_softmax):
    torch.manual_seed(0)
    net = Assignment(ends_in_softmax)
    return net, *graphs(0), loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(True)


def repaired():
    return patient(False)


def harm():
    x, y = graphs(10**6, 100)
    lost = [loss(train(setup(), 150, graphs)(*x), y).item() for setup in (broken, repaired)]
    return lost[0], lost[1]
