"""The VAE draws its latent with sample() instead of rsample(): the decoder's gradient never reaches the encoder."""

import torch
import torch.nn as nn
from torch.distributions import Normal, kl_divergence

KIND = "generative"


def sprites(n, seed):
    g = torch.Generator().manual_seed(seed)
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * 8 + 2
    yy, xx = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    return torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 6).flatten(1)


class VAE(nn.Module):
    def __init__(self, reparameterised, latent=4):
        super().__init__()
        self.reparameterised = reparameterised
        self.encoder = nn.Sequential(nn.Linear(144, 96), nn.ReLU(), nn.Linear(96, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 96), nn.ReLU(), nn.Linear(96, 144))

    def forward(self, x):
        mu, log_sigma = self.encoder(x).chunk(2, dim=1)
        q = Normal(mu, log_sigma.exp())
        z = q.rsample() if self.reparameterised else q.sample()
        kl = kl_divergence(q, Normal(0.0, 1.0)).sum(1)
        return torch.sigmoid(self.decoder(z)), kl


def elbo(outputs, x):
    recon, kl = outputs
    rec = nn.functional.binary_cross_entropy(recon, x, reduction="none").sum(1)
    return (rec + kl).mean()


def _vae(reparameterised):
    torch.manual_seed(0)
    vae = VAE(reparameterised)
    x = sprites(64, seed=0)
    return vae, x, x.clone(), elbo, torch.optim.Adam(vae.parameters(), lr=3e-3)


def broken():
    return _vae(reparameterised=False)


def repaired():
    return _vae(reparameterised=True)


def _reconstruction(reparameterised):
    vae, _, _, loss, opt = _vae(reparameterised)
    for step in range(400):
        x = sprites(64, seed=step + 1)
        opt.zero_grad()
        loss(vae(x), x).backward()
        opt.step()
    x = sprites(300, seed=33_333)
    with torch.no_grad():
        return (vae(x)[0] - x).pow(2).sum(1).mean().item()


def harm() -> tuple[float, float]:
    return _reconstruction(False), _reconstruction(True)
