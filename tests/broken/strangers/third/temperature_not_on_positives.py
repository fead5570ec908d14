"""InfoNCE divides the negatives' similarities by the temperature and leaves the positive ones as they are."""

# Reported in the review of "Implemented NCE loss." (RElbers/info-nce-pytorch).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "contrastive-or-rl"


class TwoViews(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 8))

    def forward(self, one, other):
        return functional.normalize(self.body(one), dim=-1), functional.normalize(self.body(other), dim=-1)


def views(seed, n=48):
    g = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n, 3, generator=g)
    noise = torch.randn(2, n, 9, generator=g)
    return (torch.cat([hidden, noise[0]], 1), torch.cat([hidden, noise[1]], 1)), None


def info_nce(temperature, is_on_all):
    def loss(outputs, _=None):
        one, other = outputs
        scores = one @ other.t() / temperature
        positive = scores.diag() if is_on_all else (one * other).sum(-1)
        negative = scores.masked_fill(torch.eye(len(one), dtype=torch.bool), -torch.inf)
        return (torch.cat([positive[:, None], negative], 1).logsumexp(1) - positive).mean()

    return loss


def patient(is_on_all):
    torch.manual_seed(0)
    net = TwoViews()
    return net, *views(0), info_nce(0.1, is_on_all), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """How often another than its own view is the nearest."""
    (one, other), _ = views(10**6, 100)
    wrong = []
    for setup in (broken, repaired):
        a, b = train(setup(), 300, views)(one, other)
        wrong.append(((a @ b.t()).argmax(1) != torch.arange(100)).float().mean().item())
    return wrong[0], wrong[1]
