"""Of the decoder's inputs the target's column still holds the true value of the very step that is to be forecast."""

# Reported as "Is there leakage?" (sktime/pytorch-forecasting).
import torch
from torch import nn

KIND = "data"


class DeepAR(nn.Module):
    """Inputs at each step: the value before it, and the hour."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).squeeze(-1)


def series(seed, n=48, steps=16):
    g = torch.Generator().manual_seed(seed)
    hour = torch.arange(steps + 1) % 8 / 8
    level = torch.randn(n, 1, generator=g)
    values = level + torch.sin(6.28 * hour) + 0.1 * torch.randn(n, steps + 1, generator=g)
    return values, hour.expand(n, -1)


def patient(is_lagged):
    torch.manual_seed(0)
    net = DeepAR()
    values, hour = series(0)
    fed = values[:, :-1] if is_lagged else values[:, 1:]
    x = torch.stack([fed, hour[:, 1:]], -1)
    return net, x, values[:, 1:], nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """The error of a forecast step by step, where the true value is not known."""
    values, hour = series(10**6, 200)
    errors = []
    for setup, is_lagged in ((broken, False), (repaired, True)):
        net, _, _, loss, optimizer = setup()
        for i in range(200):
            seen, at = series(1 + i)
            x = torch.stack([seen[:, :-1] if is_lagged else seen[:, 1:], at[:, 1:]], -1)
            optimizer.zero_grad()
            loss(net(x), seen[:, 1:]).backward()
            optimizer.step()
        with torch.no_grad():
            x = torch.stack([values[:, :-1], hour[:, 1:]], -1)
            errors.append(loss(net(x)[:, 4:], values[:, 5:]).item())
    return errors[0], errors[1]
