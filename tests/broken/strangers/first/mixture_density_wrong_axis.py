"""The mixture density loss takes its logsumexp over the batch axis, not over the mixture components."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "loss"
K = 5


def inverse_problem(n, seed):
    """Bishop's toy problem turned round: several y for one x."""
    g = torch.Generator().manual_seed(seed)
    y = torch.rand(n, 1, generator=g)
    x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.03 * torch.randn(n, 1, generator=g)
    return x, y


class MDN(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, K)
        self.mu = nn.Linear(hidden, K)
        self.log_sigma = nn.Linear(hidden, K)
        nn.init.uniform_(self.mu.bias, 0.0, 1.0)

    def forward(self, x):
        h = self.hidden(x)
        return torch.cat([self.pi(h), self.mu(h), self.log_sigma(h).clamp(-4, 2)], dim=1)


def component_log_probs(out, y):
    pi, mu, log_sigma = out.chunk(3, dim=1)
    z = (y - mu) / log_sigma.exp()
    return F.log_softmax(pi, dim=1) - log_sigma - 0.5 * z**2 - 0.5 * math.log(2 * math.pi)


def nll(out, y):
    return -torch.logsumexp(component_log_probs(out, y), dim=1).mean()


def nll_axis0(out, y):
    return -torch.logsumexp(component_log_probs(out, y), dim=0).mean()


def _setup(loss):
    torch.manual_seed(0)
    model = MDN()
    x, y = inverse_problem(128, seed=0)
    return model, x, y, loss, torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _setup(nll_axis0)


def repaired():
    return _setup(nll)


def _held_out(make):
    model, _, _, loss, opt = make()
    for step in range(400):
        x, y = inverse_problem(128, seed=100 + step)
        opt.zero_grad()
        loss(model(x), y).backward()
        opt.step()
    x, y = inverse_problem(2000, seed=1)
    with torch.no_grad():
        return nll(model(x), y).item()


def harm() -> tuple[float, float]:
    return _held_out(broken), _held_out(repaired)
