"""The assignment's BatchNorm blends the batch deviation (not variance) into running_var: evaluation is mis-scaled."""

import torch
from torch import nn

KIND = "normalisation-and-modes"


class BatchNorm(nn.Module):
    """CS231n, part 2: vanilla batch normalisation as a module."""

    def __init__(self, dim, store_std, momentum=0.9, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.momentum, self.eps, self.store_std = momentum, eps, store_std

    def forward(self, x):
        if not self.training:
            x_hat = (x - self.running_mean) / torch.sqrt(self.running_var + self.eps)
            return self.gamma * x_hat + self.beta
        mu, var = x.mean(dim=0), x.var(dim=0, unbiased=False)
        with torch.no_grad():
            new = var.sqrt() if self.store_std else var
            self.running_mean.mul_(self.momentum).add_(mu, alpha=1 - self.momentum)
            self.running_var.mul_(self.momentum).add_(new, alpha=1 - self.momentum)
        return self.gamma * (x - mu) / torch.sqrt(var + self.eps) + self.beta


class FullyConnectedNet(nn.Module):
    def __init__(self, store_std):
        super().__init__()
        self.bn0 = BatchNorm(6, store_std)
        self.affine1 = nn.Linear(6, 32)
        self.bn1 = BatchNorm(32, store_std)
        self.affine2 = nn.Linear(32, 1)

    def forward(self, x):
        x = self.affine1(self.bn0(x))
        return self.affine2(torch.relu(self.bn1(x))).squeeze(1)


def housing(n, seed):
    g = torch.Generator().manual_seed(seed)
    scale = torch.tensor([0.05, 0.2, 1.0, 5.0, 20.0, 50.0])
    z = torch.randn(n, 6, generator=g)
    return z * scale, z[:, 0] * z[:, 5] + z[:, 1] - z[:, 4]


def solver(store_std):
    torch.manual_seed(231)
    net = FullyConnectedNet(store_std)
    x, y = housing(100, 0)
    return net, x, y, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return solver(True)


def repaired():
    return solver(False)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        net, _, _, mse, opt = setup()
        for i in range(200):
            x, y = housing(100, 1 + i)
            opt.zero_grad()
            mse(net(x), y).backward()
            opt.step()
        net.eval()
        x, y = housing(1000, 8080)
        with torch.no_grad():
            errors.append(mse(net(x), y).item())
    return errors[0], errors[1]
