"""The KL term is summed to one number before it meets the mask: each event pays for all others."""

# Reported as "Coding error in GNTPP/models/prob_decoders/vae_modules/vae.py" (EDAPINENUT/GNTPP).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "generative"


class EventVAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, -1)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + noise * (log_var / 2).exp()), mean, log_var


def loss_with(dim):
    def loss(outputs, wanted):
        x, mask = wanted
        decoded, mean, log_var = outputs
        inside = 1 + log_var - mean.square() - log_var.exp()
        kl = -0.5 * (inside.sum() if dim is None else inside.sum(dim)) * mask
        reconstruction = 10 * (decoded - x).square().sum(-1) * mask
        return (reconstruction + kl).sum() / mask.sum()

    return loss


MAP = torch.randn(3, 6, generator=torch.Generator().manual_seed(13))


def events(seed, n=16, time=10):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, time, 3, generator=g) @ MAP
    mask = (torch.arange(time) < torch.randint(3, time + 1, (n, 1), generator=g)).float()
    return x, (x, mask)


def patient(dim):
    torch.manual_seed(0)
    net = EventVAE()
    return net, *events(0), loss_with(dim), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(None)


def repaired():
    return patient(-1)


def harm():
    x, _ = events(10**6, 50)
    errors = [(train(setup(), 200, events)(x)[0] - x).square().mean().item() for setup in (broken, repaired)]
    return errors[0], errors[1]
