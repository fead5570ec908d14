"""reparameterize takes exp(logvar) as the deviation, the KL as the variance: they speak of different posteriors."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "generative"


class VAE(nn.Module):
    def __init__(self, half, d=16, z=3):
        super().__init__()
        self.half = half
        self.fc1 = nn.Linear(d, 48)
        self.fc21 = nn.Linear(48, z)
        self.fc22 = nn.Linear(48, z)
        self.fc3 = nn.Linear(z, 48)
        self.fc4 = nn.Linear(48, d)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar) if self.half else torch.exp(logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return self.fc4(F.relu(self.fc3(z)))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def elbo(outputs, x):
    recon, mu, logvar = outputs
    rec = F.mse_loss(recon, x, reduction="sum") / (2 * 0.3**2)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (rec + kld) / len(x)


def digits(n, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(2, 16, generator=torch.Generator().manual_seed(1))
    return torch.sin(torch.randn(n, 2, generator=g) @ w) + 0.1 * torch.randn(n, 16, generator=g)


def make(half):
    torch.manual_seed(1)
    model = VAE(half)
    x = digits(128, 0)
    return model, x, x, elbo, torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return make(half=False)


def repaired():
    return make(half=True)


def harm() -> tuple[float, float]:
    """Mean |log ratio| of the spread of the codes drawn to the spread that the KL term is told of."""
    gaps = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(200):
            x = digits(128, 1 + i)
            opt.zero_grad()
            loss(model(x), x).backward()
            opt.step()
        with torch.no_grad():
            mu, logvar = model.encode(digits(100, 5))
            drawn = torch.stack([model.reparameterize(mu, logvar) for _ in range(300)]).std(0)
            gaps.append((drawn / torch.exp(0.5 * logvar)).log().abs().mean().item())
    return gaps[0], gaps[1]
