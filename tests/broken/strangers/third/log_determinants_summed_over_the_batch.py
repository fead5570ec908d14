"""The log-determinants of a flow, one a row, are summed over the batch again and weigh as often as there are rows."""

# Reported as "Norm. flows bug maybe" (wohlert/semi-supervised-pytorch).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "generative"


class Coupling(nn.Module):
    def __init__(self, is_first):
        super().__init__()
        self.is_first = is_first
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x):
        kept, moved = x.chunk(2, -1) if self.is_first else reversed(x.chunk(2, -1))
        scale, shift = self.net(kept).chunk(2, -1)
        scale = scale.tanh()
        moved = moved * scale.exp() + shift
        return torch.cat([kept, moved] if self.is_first else [moved, kept], -1), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Coupling(i % 2 == 0) for i in range(4))

    def forward(self, x):
        logs = []
        for part in self.parts:
            x, log = part(x)
            logs.append(log)
        return x, sum(logs)


def loss_with(is_by_row):
    def loss(outputs, _=None):
        z, log = outputs
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        return -(log_p + (log if is_by_row else log.sum())).mean()

    return loss


MAP = torch.randn(4, 4, generator=torch.Generator().manual_seed(23)) / 2


def items(seed, n=64):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed)) @ MAP, None


def patient(is_by_row):
    torch.manual_seed(0)
    net = Flow()
    return net, *items(0), loss_with(is_by_row), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, _ = items(10**6, 500)
    lost = [loss_with(True)(train(setup(), 250, items)(x)).item() for setup in (broken, repaired)]
    return lost[0], lost[1]
