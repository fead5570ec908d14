"""A contrastive loss is exp(nll_loss(softmax)) where log_softmax was needed: bounded, and flat for what is far off."""

# Reported as "About the computation of feature contrasive loss" (somijeong/MGUIT).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn
from torch.nn import functional

KIND = "loss"

KEYS = torch.randn(40, 12, generator=torch.Generator().manual_seed(11))


class Query(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 12))

    def forward(self, x):
        return functional.normalize(self.body(x), dim=-1) @ functional.normalize(KEYS, dim=-1).t() / 0.1


def items(seed, n=64):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 40, (n,), generator=g)
    return KEYS[y].flip(-1) + 0.5 * torch.randn(n, 12, generator=g), y


def on_probabilities(logits, y):
    return torch.exp(functional.nll_loss(logits.softmax(-1), y))


def on_logs(logits, y):
    return functional.nll_loss(logits.log_softmax(-1), y)


def patient(loss):
    torch.manual_seed(0)
    net = Query()
    return net, *items(0), loss, torch.optim.SGD(net.parameters(), lr=0.1)


def broken():
    return patient(on_probabilities)


def repaired():
    return patient(on_logs)


def harm():
    x, y = items(10**6, 500)
    return harm_of((broken, repaired), 100, lambda net: (net(x).argmax(1) != y).float().mean(), items)
