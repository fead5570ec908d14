"""q_sample draws its own noise and the loss compares with another draw, so there is nothing for the net to predict."""

import torch
import torch.nn as nn

KIND = "generative"

T = 40
betas = torch.linspace(1e-3, 0.2, T)
alphas = 1 - betas
alphas_bar = torch.cumprod(alphas, dim=0)


class NoisePredictor(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.time = nn.Embedding(T, hidden)
        self.inp = nn.Linear(2, hidden)
        self.net = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2))

    def forward(self, x_t, t):
        return self.net(self.inp(x_t) + self.time(t))


def two_moons(n, g):
    side = torch.randint(0, 2, (n, 1), generator=g).float() * 2 - 1
    return side * torch.tensor([1.5, 0.5]) + 0.15 * torch.randn(n, 2, generator=g)


def q_sample(x0, t, g, noise=None):
    if noise is None:
        noise = torch.randn(x0.shape, generator=g)
    a = alphas_bar[t].unsqueeze(1)
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


def p_losses_batch(n, seed, hand_over):
    g = torch.Generator().manual_seed(seed)
    x0 = two_moons(n, g)
    t = torch.randint(0, T, (n,), generator=g)
    noise = torch.randn(n, 2, generator=g)
    x_t = q_sample(x0, t, g, noise) if hand_over else q_sample(x0, t, g)
    return (x_t, t), noise


@torch.no_grad()
def p_sample_loop(model, n):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=g)
    for i in reversed(range(T)):
        eps = model(x, torch.full((n,), i))
        x = (x - betas[i] / (1 - alphas_bar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn(n, 2, generator=g)
    return x


def diffusion(hand_over):
    torch.manual_seed(0)
    model = NoisePredictor()
    inputs, noise = p_losses_batch(128, 0, hand_over)
    return model, inputs, noise, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return diffusion(hand_over=False)


def repaired():
    return diffusion(hand_over=True)


def harm() -> tuple[float, float]:
    """Mean distance of generated points from the nearer of the two modes."""
    distances = []
    modes = torch.tensor([[1.5, 0.5], [-1.5, -0.5]])
    for setup, hand_over in ((broken, False), (repaired, True)):
        model, _, _, mse, opt = setup()
        for i in range(400):
            inputs, noise = p_losses_batch(128, 1 + i, hand_over)
            opt.zero_grad()
            mse(model(*inputs), noise).backward()
            opt.step()
        distances.append(torch.cdist(p_sample_loop(model, 500), modes).min(1).values.mean().item())
    return distances[0], distances[1]
