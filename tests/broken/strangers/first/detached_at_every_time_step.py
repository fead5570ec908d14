"""The RNN loop detaches its hidden state at every time step, so nothing that happened earlier gets any credit."""

import torch
import torch.nn as nn

KIND = "recurrence"
CLASSES, DELAY = 6, 8


def delayed_recall(n, seed):
    """A symbol is shown first, then DELAY distractors; the model must say which symbol it was."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    first = nn.functional.one_hot(y, CLASSES).float().unsqueeze(1)
    rest = 0.3 * torch.randn(n, DELAY, CLASSES, generator=g)
    return torch.cat([first, rest], dim=1), y


class Recaller(nn.Module):
    def __init__(self, truncate, hidden=24):
        super().__init__()
        self.truncate = truncate
        self.cell = nn.GRUCell(CLASSES, hidden)
        self.readout = nn.Linear(hidden, CLASSES)
        self.h0 = nn.Parameter(torch.zeros(hidden))

    def forward(self, seq):
        h = self.h0.expand(seq.size(0), -1)
        for x_t in seq.unbind(1):
            if self.truncate:
                h = h.detach()  # otherwise: "backward through the graph a second time"
            h = self.cell(x_t, h)
        return self.readout(h)


def _make(truncate):
    torch.manual_seed(0)
    net = Recaller(truncate)
    x, y = delayed_recall(64, seed=0)
    return net, x, y, nn.CrossEntropyLoss(), torch.optim.RMSprop(net.parameters(), lr=3e-3)


def broken():
    return _make(truncate=True)


def repaired():
    return _make(truncate=False)


def _error(truncate):
    net, _, _, ce, opt = _make(truncate)
    for step in range(300):
        x, y = delayed_recall(64, seed=step + 1)
        opt.zero_grad()
        ce(net(x), y).backward()
        opt.step()
    x, y = delayed_recall(1000, seed=8888)
    with torch.no_grad():
        return (net(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(True), _error(False)
