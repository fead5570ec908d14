"""The generator step scores its samples against the 'fake' label, so the generator learns to help the discriminator."""

import torch
import torch.nn as nn

KIND = "generative"
LATENT = 4


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.G = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
        self.D = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2))
        self.D_out = nn.Linear(64, 1)

    def discriminate(self, x):
        return self.D_out(self.D(x))

    def forward(self, z):
        return self.discriminate(self.G(z))


def real_batch(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=g)
    return torch.stack([2 + 0.5 * x[:, 0], -1 + 0.3 * x[:, 0] + 0.2 * x[:, 1]], 1)


def _gan(generator_label):
    torch.manual_seed(0)
    gan = GAN()
    bce = nn.BCEWithLogitsLoss()
    opt_d = torch.optim.Adam([*gan.D.parameters(), *gan.D_out.parameters()], lr=1e-3, betas=(0.5, 0.999))
    opt_g = torch.optim.Adam(gan.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
    real_label, fake_label = torch.ones(64, 1), torch.zeros(64, 1)
    it = [0]

    def step():
        it[0] += 1
        real = real_batch(64, seed=it[0])
        # (1) discriminator
        fake = gan.G(torch.randn(64, LATENT))
        loss_d = bce(gan.discriminate(real), real_label) + bce(gan.discriminate(fake.detach()), fake_label)
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        # (2) generator
        loss_g = bce(gan.discriminate(fake), torch.full((64, 1), generator_label))
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        return (loss_d + loss_g).item()

    return gan, torch.randn(64, LATENT), torch.full((64, 1), generator_label), step, opt_g


def broken():
    return _gan(generator_label=0.0)


def repaired():
    return _gan(generator_label=1.0)


def sample_error(make):
    """Distance of the mean of the generated points from the mean of the real ones."""
    gan, _, _, step, _ = make()
    for _ in range(600):
        step()
    z = torch.randn(1000, LATENT, generator=torch.Generator().manual_seed(20_202))
    with torch.no_grad():
        return (gan.G(z).mean(0) - torch.tensor([2.0, -1.0])).norm().item()


def harm() -> tuple[float, float]:
    return sample_error(broken), sample_error(repaired)
