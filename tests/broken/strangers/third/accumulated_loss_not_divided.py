"""Gradients of sixteen small batches are summed and the loss is not divided: steps are sixteen times too long."""

# Reported as "accum_grad loss error" (hirofumi0810/neural_sp).
import torch
from torch import nn

KIND = "optimizer-and-loop"

PARTS = 16


def items(seed, n=128):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :1] + (x[:, 1:2] * x[:, 2:3]).tanh()


def patient(divisor):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    numbers = iter(range(1, 10**9))
    x, y = items(0)

    def step():
        x, y = items(next(numbers))
        optimizer.zero_grad()
        total = 0.0
        for part, wanted in zip(x.chunk(PARTS), y.chunk(PARTS), strict=True):
            loss = nn.functional.mse_loss(net(part), wanted) / divisor
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return net, x, y, step, optimizer


def broken():
    return patient(1)


def repaired():
    return patient(PARTS)


def harm():
    x, y = items(10**6, 500)
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(100):
            step()
        error = (net(x) - y).square().mean().item()
        errors.append(error if error == error else 1e9)
    return errors[0], errors[1]
