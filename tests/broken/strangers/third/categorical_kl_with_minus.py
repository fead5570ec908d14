"""The KL term of a categorical autoencoder has a minus too many: the code is driven away from the prior."""

# Reported as "Loss calculation error?" (dev4488/VAE_gumble_softmax).
import math

import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "generative"

CLASSES = 8


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        self.decoder = nn.Sequential(nn.Linear(CLASSES, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        logits = self.encoder(x)
        code = functional.gumbel_softmax(logits, tau=0.7) if self.training else logits.softmax(-1)
        return self.decoder(code), logits


def loss_with(sign):
    def loss(outputs, x):
        decoded, logits = outputs
        log_q = logits.log_softmax(-1)
        kl = (log_q.exp() * (log_q + math.log(CLASSES))).sum(-1).mean()
        return functional.mse_loss(decoded, x, reduction="sum") / len(x) + sign * 4 * kl

    return loss


PATTERNS = torch.randn(CLASSES, 16, generator=torch.Generator().manual_seed(17))


def patterns(seed, n=64):
    g = torch.Generator().manual_seed(seed)
    x = PATTERNS[torch.randint(0, CLASSES, (n,), generator=g)] + 0.5 * torch.randn(n, 16, generator=g)
    return x, x


def patient(sign):
    torch.manual_seed(0)
    net = Codes()
    return net, *patterns(0), loss_with(sign), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(-1)


def repaired():
    return patient(1)


def harm():
    """The bound on −log p(x) that it is trained for, of new data."""
    x, _ = patterns(10**6, 400)
    bounds = [loss_with(1)(train(setup(), 200, patterns)(x), x).item() for setup in (broken, repaired)]
    return bounds[0], bounds[1]
