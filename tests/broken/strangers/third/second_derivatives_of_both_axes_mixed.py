"""The Laplacian differentiates the sum of both first derivatives, and so holds the mixed derivative on both axes."""

# Reported as "Helmholtz pytorch predicted problem" (prateekbhustali/Physics-Informed-Neural-Networks).
import math

import torch
from torch import nn

KIND = "gradients"


def slope(values, x):
    return torch.autograd.grad(values, x, torch.ones_like(values), create_graph=True)[0]


def laplacian(net, x, is_by_axis):
    first = slope(net(x), x)
    if is_by_axis:
        return slope(first[:, [0]], x)[:, [0]] + slope(first[:, [1]], x)[:, [1]]
    return slope(first, x).sum(1, keepdim=True)


def truth(x):
    return (math.pi * x[:, :1]).sin() * (x[:, 1:] + x[:, :1] * x[:, 1:])


def source(x):
    return (
        -(math.pi**2) * (math.pi * x[:, :1]).sin() * (x[:, 1:] + x[:, :1] * x[:, 1:])
        + 2 * math.pi * (math.pi * x[:, :1]).cos() * x[:, 1:]
    )


def patient(is_by_axis):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    g = torch.Generator().manual_seed(1)
    inside = torch.rand(128, 2, generator=g)
    edge = torch.rand(128, 2, generator=g)
    edge[torch.arange(128), torch.randint(0, 2, (128,), generator=g)] = torch.randint(0, 2, (128,), generator=g).float()

    def step():
        x = inside.clone().requires_grad_()
        value = (laplacian(net, x, is_by_axis) - source(inside)).square().mean() / 10
        value = value + 10 * (net(edge) - truth(edge)).square().mean()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return net, inside, truth(inside), step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x = torch.rand(500, 2, generator=torch.Generator().manual_seed(2))
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(400):
            step()
        errors.append((net(x) - truth(x)).square().mean().item())
    return errors[0], errors[1]
