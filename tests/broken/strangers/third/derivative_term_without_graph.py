"""The network's derivative is taken without create_graph, and the loss of the derivative teaches nothing."""

# Reported as "Question about how to predict the derivation of the output?" (pytorch/pytorch).
import torch
from torch import nn

KIND = "gradients"


def patient(keeps_graph):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    x = torch.linspace(-2, 2, 9)[:, None]
    y, dy = (3 * x).sin(), 3 * (3 * x).cos()

    def step():
        at = x.clone().requires_grad_()
        out = net(at)
        (slope,) = torch.autograd.grad(out.sum(), at, retain_graph=True, create_graph=keeps_graph)
        value = nn.functional.mse_loss(out, y) + nn.functional.mse_loss(slope, dy)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value.detach()

    return net, x, y, step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x = torch.linspace(-2, 2, 200)[:, None]
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(400):
            step()
        errors.append((net(x) - (3 * x).sin()).square().mean().item())
    return errors[0], errors[1]
