"""A flow on the posterior is paid by the prior of z₀, before the flow, and not by that of z_K, which is decoded."""

# Reported as "Fixes problem with Normalizing Flows" (casperkaae/parmesan).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "generative"


class FlowVAE(nn.Module):
    def __init__(self, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2 * latent))
        self.scale, self.shift = nn.Parameter(torch.zeros(latent)), nn.Parameter(torch.zeros(latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        mean, log_sd = self.encoder(x).chunk(2, -1)
        first = mean + torch.randn_like(mean) * log_sd.exp()
        last = first * self.scale.exp() + self.shift
        log_q = torch.distributions.Normal(mean, log_sd.exp()).log_prob(first).sum(-1) - self.scale.sum()
        return self.decoder(last), first, last, log_q


def loss_with(which):
    def loss(outputs, x):
        decoded, first, last, log_q = outputs
        z = last if which == "last" else first
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        return (2 * (decoded - x).square().sum(-1) + log_q - log_p).mean()

    return loss


MAP = torch.randn(2, 6, generator=torch.Generator().manual_seed(19))


def items(seed, n=64):
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed)) @ MAP
    return x, x


def patient(which):
    torch.manual_seed(0)
    net = FlowVAE()
    return net, *items(0), loss_with(which), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient("first")


def repaired():
    return patient("last")


def harm():
    """The true bound on −log p(x) of new data."""
    x, _ = items(10**6, 500)
    bounds = []
    for setup in (broken, repaired):
        net = train(setup(), 400, items)
        torch.manual_seed(0)
        bounds.append(loss_with("last")(net(x), x).item())
    return bounds[0], bounds[1]
