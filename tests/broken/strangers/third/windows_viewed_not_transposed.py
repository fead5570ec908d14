"""Windows of a series (examples, steps) are made (steps, examples, 1) by a view where a transpose was needed."""

# Reported as "X_train and X_test incorrectly reshaped in lstm-baseline.py" (jessicayung/blog-code-snippets).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "data"


class Forecast(nn.Module):
    """Time first, as nn.LSTM takes it."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0][-1]).squeeze(-1)


def windows(seed, is_transposed, n=48, steps=10):
    g = torch.Generator().manual_seed(seed)
    phase, speed = 6.28 * torch.rand(n, 1, generator=g), 0.3 + 0.5 * torch.rand(n, 1, generator=g)
    waves = torch.sin(phase + speed * torch.arange(steps + 1))
    x = waves[:, :-1]
    x = x.t().reshape(steps, n, 1) if is_transposed else x.reshape(steps, n, 1)
    return x, waves[:, -1]


def patient(is_transposed):
    torch.manual_seed(0)
    net = Forecast()
    return net, *windows(0, is_transposed), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    results = []
    for setup, is_transposed in ((broken, False), (repaired, True)):
        x, y = windows(10**6, is_transposed, 300)
        error, _ = harm_of(
            (setup, setup),
            150,
            lambda net, x=x, y=y: (net(x) - y).square().mean(),
            lambda i, t=is_transposed: windows(i, t),
        )
        results.append(error)
    return results[0], results[1]
