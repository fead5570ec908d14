"""Both VQ terms detach the quantised vector (a copied line), so the codebook never moves from its random start."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "generative"


class VectorQuantizer(nn.Module):
    def __init__(self, num_embeddings, dim):
        super().__init__()
        self.embedding = nn.Embedding(num_embeddings, dim)
        self.embedding.weight.data.uniform_(-0.3, 0.3)

    def forward(self, z_e):
        distances = torch.cdist(z_e, self.embedding.weight)
        codes = distances.argmin(dim=1)
        z_q = self.embedding(codes)
        straight_through = z_e + (z_q - z_e).detach()
        return straight_through, z_q


class VQVAE(nn.Module):
    def __init__(self, d=12, dim=3, k=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, dim))
        self.vq = VectorQuantizer(k, dim)
        self.dec = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, d))

    def forward(self, x):
        z_e = self.enc(x)
        st, z_q = self.vq(z_e)
        return self.dec(st), z_e, z_q


def vq_loss(codebook_moves, beta=0.25):
    def loss(outputs, x):
        recon, z_e, z_q = outputs
        q_latent = F.mse_loss(z_q, z_e.detach()) if codebook_moves else F.mse_loss(z_q.detach(), z_e)
        e_latent = F.mse_loss(z_q.detach(), z_e)
        return F.mse_loss(recon, x) + q_latent + beta * e_latent

    return loss


def prototypes(n, seed):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(8, 12, generator=torch.Generator().manual_seed(50))
    which = torch.randint(0, 8, (n,), generator=g)
    return centres[which] + 0.1 * torch.randn(n, 12, generator=g)


def train_setup(codebook_moves):
    torch.manual_seed(0)
    model = VQVAE()
    x = prototypes(128, 0)
    return model, x, x, vq_loss(codebook_moves), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return train_setup(codebook_moves=False)


def repaired():
    return train_setup(codebook_moves=True)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(400):
            x = prototypes(128, 1 + i)
            opt.zero_grad()
            loss(model(x), x).backward()
            opt.step()
        x = prototypes(500, 8642)
        with torch.no_grad():
            errors.append(F.mse_loss(model(x)[0], x).item())
    return errors[0], errors[1]
