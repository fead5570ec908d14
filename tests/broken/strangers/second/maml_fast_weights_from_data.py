"""MAML's fast weights are built from p.data, so the outer loss is cut off from the meta-parameters it should train."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "gradients"


class Learner(nn.Module):
    """x_spt, y_spt, x_qry -> predictions for the query set after one inner step."""

    def __init__(self, detached, inner_lr=0.05):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(40, 1) * 0.5)
        self.b1 = nn.Parameter(torch.randn(40) * 0.5)
        self.w2 = nn.Parameter(torch.randn(1, 40) * 0.2)
        self.b2 = nn.Parameter(torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(1))
        self.detached, self.inner_lr = detached, inner_lr

    @staticmethod
    def net(x, w1, b1, w2, b2):
        return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)

    def forward(self, x_spt, y_spt, x_qry):
        preds = []
        for xs, ys, xq in zip(x_spt, y_spt, x_qry, strict=True):
            weights = [self.w1, self.b1, self.w2, self.b2]
            grads = torch.autograd.grad(F.mse_loss(self.net(xs, *weights), ys), weights, create_graph=True)
            if self.detached:
                fast = [w.data - self.inner_lr * g.data for w, g in zip(weights, grads, strict=True)]
            else:
                fast = [w - self.inner_lr * g for w, g in zip(weights, grads, strict=True)]
            preds.append(self.scale * self.net(xq, *fast))
        return torch.stack(preds)


def tasks(n, seed, k=10):
    """Finn et al.: sinusoids of random amplitude and phase."""
    g = torch.Generator().manual_seed(seed)
    amp = torch.rand(n, 1, 1, generator=g) * 2 + 0.5
    phase = torch.rand(n, 1, 1, generator=g) * 1.5
    x = torch.rand(n, 2 * k, 1, generator=g) * 6 - 3
    y = amp * torch.sin(x + phase)
    return (x[:, :k], y[:, :k], x[:, k:]), y[:, k:]


def setup(detached):
    torch.manual_seed(0)
    learner = Learner(detached)
    inputs, y_qry = tasks(16, 0)
    return learner, inputs, y_qry, F.mse_loss, torch.optim.Adam(learner.parameters(), lr=5e-3)


def broken():
    return setup(True)


def repaired():
    return setup(False)


def harm() -> tuple[float, float]:
    res = []
    for fn in (broken, repaired):
        learner, _, _, mse, meta_opt = fn()
        for i in range(150):
            inputs, y_qry = tasks(16, 1 + i)
            meta_opt.zero_grad()
            mse(learner(*inputs), y_qry).backward()
            meta_opt.step()
        inputs, y_qry = tasks(50, 800)
        res.append(mse(learner(*inputs), y_qry).item())
    return res[0], res[1]
