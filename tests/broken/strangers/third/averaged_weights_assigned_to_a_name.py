"""At the end of a round `param = ema_param` binds a name and copies nothing: the student never gets the average."""

# Reported as "fix parameter assignment bug" (YU1ut/MixMatch-pytorch).
import copy

import torch
from torch import nn

KIND = "optimizer-and-loop"


def items(seed, n=16):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    return x, x[:, :1] + 2 * torch.randn(n, 1, generator=g)


def patient(is_copied):
    """Ten noisy steps a round; then the average is to take the student's place."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    numbers = iter(range(1, 10**9))
    x, y = items(0)

    def step():
        for _ in range(10):
            a, b = items(next(numbers))
            loss = nn.functional.mse_loss(net(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for mean, now in zip(average.parameters(), net.parameters(), strict=True):
                    mean.lerp_(now, 0.02)
        with torch.no_grad():
            for param, ema_param in zip(net.parameters(), average.parameters(), strict=True):
                if is_copied:
                    param.copy_(ema_param)
                else:
                    param = ema_param
        return loss.detach()

    return net, x, y, step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """Of the student after each round: the mean error of the last twenty."""
    x = torch.randn(500, 8, generator=torch.Generator().manual_seed(10**6))
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        seen = []
        for _ in range(60):
            step()
            seen.append((net(x) - x[:, :1]).square().mean().item())
        errors.append(sum(seen[-20:]) / 20)
    return errors[0], errors[1]
