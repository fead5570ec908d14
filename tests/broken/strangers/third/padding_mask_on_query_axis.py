"""The padding mask is unsqueezed on the axis of queries: padded queries are masked, padded keys are attended to."""

# Reported as "fix(model): attention pad mask" (hyunwoongko/transformer).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "attention-and-masks"


class Rating(nn.Module):
    """The mean mark of a review; what stands behind its end is left over from other reviews."""

    def __init__(self, axis, width=32, heads=4):
        super().__init__()
        self.axis, self.heads = axis, heads
        self.embed = nn.Embedding(20, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 1)

    def forward(self, tokens, lengths):
        n, time = tokens.shape
        mask = torch.arange(time) < lengths[:, None]
        h = self.embed(tokens)
        q, k, v = (a.view(n, time, self.heads, -1).transpose(1, 2) for a in self.qkv(h).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask.unsqueeze(1).unsqueeze(self.axis), -10000.0)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, time, -1)
        return self.out(mixed[:, 0]).squeeze(-1)


MARKS = torch.linspace(-1, 1, 20)


def reviews(seed, n=64, time=12):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 20, (n, time), generator=g)
    lengths = torch.randint(2, time, (n,), generator=g)
    real = torch.arange(time) < lengths[:, None]
    return (tokens, lengths), (MARKS[tokens] * real).sum(1) / lengths


def patient(axis):
    torch.manual_seed(3)
    net = Rating(axis)
    return net, *reviews(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(3)


def repaired():
    return patient(2)


def harm():
    x, y = reviews(10**6, 500)
    return harm_of((broken, repaired), 200, lambda net: (net(*x) - y).square().mean(), reviews)
