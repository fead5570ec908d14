"""The diffusion loss draws fresh noise for its target instead of the noise it added: there is nothing to learn."""

import torch
import torch.nn as nn

KIND = "generative"
STEPS = 50
BETAS = torch.linspace(1e-3, 0.2, STEPS)
ALPHA_BAR = torch.cumprod(1 - BETAS, dim=0)


def rings(n, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.rand(n, generator=g) * 6.2832
    return torch.stack([a.cos(), a.sin()], 1) + 0.05 * torch.randn(n, 2, generator=g)


class Denoiser(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.t_emb = nn.Embedding(STEPS, 16)
        self.net = nn.Sequential(
            nn.Linear(2 + 16, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2)
        )

    def forward(self, x_t, t):
        return self.net(torch.cat([x_t, self.t_emb(t)], dim=1))


def diffuse(x0, redraw, g):
    t = torch.randint(0, STEPS, (len(x0),), generator=g)
    noise = torch.randn(x0.shape, generator=g)
    ab = ALPHA_BAR[t].unsqueeze(1)
    x_t = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
    target = torch.randn(x0.shape, generator=g) if redraw else noise
    return (x_t, t), target


def _ddpm(redraw):
    torch.manual_seed(0)
    model = Denoiser()
    inputs, target = diffuse(rings(128, seed=0), redraw, torch.Generator().manual_seed(0))
    return model, inputs, target, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return _ddpm(redraw=True)


def repaired():
    return _ddpm(redraw=False)


def sample_distance(redraw):
    """Train, sample with the DDPM chain and see how far the samples lie from the unit ring."""
    model, _, _, loss, opt = _ddpm(redraw)
    g = torch.Generator().manual_seed(1)
    for step in range(500):
        inputs, target = diffuse(rings(128, seed=step + 1), redraw, g)
        opt.zero_grad()
        loss(model(*inputs), target).backward()
        opt.step()
    x = torch.randn(300, 2, generator=g)
    with torch.no_grad():
        for i in reversed(range(STEPS)):
            eps = model(x, torch.full((300,), i))
            x = (x - BETAS[i] / (1 - ALPHA_BAR[i]).sqrt() * eps) / (1 - BETAS[i]).sqrt()
            if i > 0:
                x = x + BETAS[i].sqrt() * torch.randn(x.shape, generator=g)
    return (x.norm(dim=1) - 1).abs().mean().item()


def harm() -> tuple[float, float]:
    return sample_distance(True), sample_distance(False)
