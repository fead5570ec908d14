"""The WGAN-GP critic takes its gradient penalty without create_graph, so the penalty does not train anything."""

import torch
import torch.nn as nn

KIND = "gradients"


def real_and_fake(n, seed):
    g = torch.Generator().manual_seed(seed)
    angle = torch.rand(n, generator=g) * 6.2832
    real = torch.stack([torch.cos(angle), torch.sin(angle)], 1) * 2 + 0.05 * torch.randn(n, 2, generator=g)
    fake = torch.randn(n, 2, generator=g) * 0.5
    return torch.stack([real, fake], dim=1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2))
        self.score = nn.Linear(64, 1)

    def forward(self, x):
        return self.score(self.net(x)).squeeze(-1)


def penalty(critic, real, fake, create_graph):
    eps = torch.rand(len(real), 1)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(x).sum(), x, create_graph=create_graph)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


def _setup(create_graph, lam=10.0):
    torch.manual_seed(0)
    critic = Critic()
    opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    state = {"i": 0}

    def step():
        state["i"] += 1
        pair = real_and_fake(64, seed=state["i"])
        real, fake = pair[:, 0], pair[:, 1]
        loss = critic(fake).mean() - critic(real).mean() + lam * penalty(critic, real, fake, create_graph)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    pair = real_and_fake(64, seed=1)
    labels = torch.tensor([1.0, -1.0]).expand(64, 2).clone()
    return critic, pair, labels, step, opt


def broken():
    return _setup(create_graph=False)


def repaired():
    return _setup(create_graph=True)


def lipschitz_violation(make):
    critic, _, _, step, _ = make()
    for _ in range(200):
        step()
    pair = real_and_fake(512, seed=10_000)
    torch.manual_seed(1)
    return penalty(critic, pair[:, 0], pair[:, 1], create_graph=False).item()


def harm() -> tuple[float, float]:
    return lipschitz_violation(broken), lipschitz_violation(repaired)
