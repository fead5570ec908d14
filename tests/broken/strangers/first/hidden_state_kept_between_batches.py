"""The GRU starts every batch from the detached state of the previous, unrelated batch instead of from zeros."""

import torch
import torch.nn as nn

KIND = "recurrence"


def gestures(n, seed, steps=6):
    """Start at the origin, integrate accelerations: where does the hand end?"""
    g = torch.Generator().manual_seed(seed)
    acc = torch.randn(n, steps, 2, generator=g)
    return acc, acc.cumsum(1)[:, -1]


class GestureNet(nn.Module):
    def __init__(self, stateful):
        super().__init__()
        self.stateful = stateful
        self.gru = nn.GRU(2, 48, batch_first=True)
        self.head = nn.Linear(48, 2)
        self.hidden = None

    def forward(self, x):
        h0 = None
        if self.stateful and self.hidden is not None and self.hidden.size(1) == x.size(0):
            h0 = self.hidden
        out, hidden = self.gru(x, h0)
        self.hidden = hidden.detach()
        return self.head(out[:, -1])


def _prepare(stateful):
    torch.manual_seed(0)
    net = GestureNet(stateful)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    loss_fn = nn.MSELoss()
    x, y = gestures(64, seed=0)
    return net, x, y, loss_fn, optimizer


def broken():
    return _prepare(stateful=True)


def repaired():
    return _prepare(stateful=False)


def _mse(stateful):
    net, _, _, loss_fn, optimizer = _prepare(stateful)
    for it in range(400):
        x, y = gestures(64, seed=it + 1)
        optimizer.zero_grad()
        loss_fn(net(x), y).backward()
        optimizer.step()
    errors = []
    with torch.no_grad():
        for it in range(10):
            x, y = gestures(64, seed=10_000 + it)
            errors.append(loss_fn(net(x), y).item())
    return sum(errors) / len(errors)


def harm() -> tuple[float, float]:
    return _mse(True), _mse(False)
