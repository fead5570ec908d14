"""The gradient penalty is computed without create_graph, so it is a constant: shown in the loss, felt by no weight."""

import torch
from torch import autograd, nn

KIND = "generative"

LAMBDA = 10.0


class Critic(nn.Module):
    def __init__(self, dim=2, hidden=48):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(dim, hidden),
            nn.LeakyReLU(0.2),
            nn.Linear(hidden, hidden),
            nn.LeakyReLU(0.2),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def calc_gradient_penalty(critic, real, fake, create_graph):
    alpha = torch.rand(real.size(0), 1)
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    out = critic(interpolates)
    gradients = autograd.grad(out.sum(), interpolates, create_graph=create_graph)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def swiss(n, seed):
    """Real points on a ring, fake points from a generator still in its infancy."""
    g = torch.Generator().manual_seed(seed)
    angle = torch.rand(n, generator=g) * 6.28
    real = torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.05 * torch.randn(n, 2, generator=g)
    return real, torch.randn(n, 2, generator=g) * 0.5


def critic_training(create_graph):
    torch.manual_seed(0)
    critic = Critic()
    opt = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    real, fake = swiss(64, 0)
    score = torch.cat([torch.ones(64), torch.zeros(64)])
    counter = iter(range(10**9))

    def step():
        real_b, fake_b = swiss(64, next(counter))
        opt.zero_grad()
        wasserstein = critic(fake_b).mean() - critic(real_b).mean()
        loss = wasserstein + LAMBDA * calc_gradient_penalty(critic, real_b, fake_b, create_graph)
        loss.backward()
        opt.step()
        return loss.detach()

    return critic, torch.cat([real, fake]), score, step, opt


def broken():
    return critic_training(create_graph=False)


def repaired():
    return critic_training(create_graph=True)


def harm() -> tuple[float, float]:
    """Mean distance of the critic's gradient norm from one, between real and fake points."""
    gaps = []
    for setup in (broken, repaired):
        critic, _, _, step, _ = setup()
        for _ in range(250):
            step()
        real, fake = swiss(500, 10**6)
        x = (0.5 * real + 0.5 * fake).requires_grad_()
        grad = autograd.grad(critic(x).sum(), x)[0]
        gaps.append((grad.norm(dim=1) - 1).abs().mean().item())
    return gaps[0], gaps[1]
