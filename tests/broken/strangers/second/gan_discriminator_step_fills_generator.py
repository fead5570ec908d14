"""D's step neither detaches the fakes nor are G's gradients cleared after it, so G is pulled both ways at once."""

import torch
import torch.nn as nn

KIND = "generative"

nz = 4


class DCGAN(nn.Module):
    """Generator and discriminator under one roof, for checkpoints."""

    def __init__(self):
        super().__init__()
        self.netG = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(), nn.Linear(32, 2))
        self.netD = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, noise):
        return self.netD(self.netG(noise)).view(-1)


def real_points(n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.tensor([2.5, -1.5]) + 0.5 * torch.randn(n, 2, generator=g)


def train_gan(leak):
    torch.manual_seed(999)
    gan = DCGAN()
    optimizerD = torch.optim.Adam(gan.netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(gan.netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(64), torch.zeros(64)
    generator = torch.Generator().manual_seed(1)
    count = iter(range(10**9))

    def step():
        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        optimizerD.zero_grad()
        optimizerG.zero_grad()
        fake = gan.netG(torch.randn(64, nz, generator=generator))
        shown = fake if leak else fake.detach()
        errD_real = criterion(gan.netD(real_points(64, next(count))).view(-1), ones)
        errD_fake = criterion(gan.netD(shown).view(-1), zeros)
        (errD_real + errD_fake).backward(retain_graph=True)
        optimizerD.step()
        # (2) Update G network: maximize log(D(G(z)))
        errG = criterion(gan.netD(fake).view(-1), ones)
        errG.backward()
        optimizerG.step()
        return errG.detach()

    noise = torch.randn(64, nz, generator=torch.Generator().manual_seed(2))
    return gan, noise, ones, step, optimizerG


def broken():
    return train_gan(leak=True)


def repaired():
    return train_gan(leak=False)


def harm() -> tuple[float, float]:
    """Distance of the mean of generated points from the mean of real ones."""
    distance = []
    for setup in (broken, repaired):
        gan, _, _, step, _ = setup()
        for _ in range(500):
            step()
        with torch.no_grad():
            made = gan.netG(torch.randn(1000, nz, generator=torch.Generator().manual_seed(3)))
        distance.append((made.mean(0) - torch.tensor([2.5, -1.5])).norm().item())
    return distance[0], distance[1]
