"""The hidden state of one shuffled batch is kept on the module and starts the next one, row by row, at random."""

import torch
from torch import nn

KIND = "recurrence"


class GRUForecaster(nn.Module):
    """Forecast of the next value of independent short series."""

    def __init__(self, stateful, hidden=24):
        super().__init__()
        self.stateful = stateful
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 1)
        self.hidden = None

    def forward(self, x):
        h0 = self.hidden if self.stateful else None
        out, h = self.gru(x, h0)
        self.hidden = h.detach()
        return self.fc(out[:, -1]).squeeze(-1)


def series(n, seed):
    # level and slope differ between the rows, windows are short
    g = torch.Generator().manual_seed(seed)
    level = torch.randn(n, 1, generator=g)
    slope = torch.randn(n, 1, generator=g)
    t = torch.arange(5).float() / 4
    s = level + slope * t
    return s[:, :4].unsqueeze(-1), s[:, 4]


def model_and_data(stateful):
    torch.manual_seed(21)
    net = GRUForecaster(stateful)
    x, y = series(32, 0)
    return net, x, y, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return model_and_data(True)


def repaired():
    return model_and_data(False)


def harm() -> tuple[float, float]:
    """Same input, asked twice, after another batch in between: the answers must agree."""
    differences = []
    for setup in (broken, repaired):
        net, x, _, mse, opt = setup()
        for step in range(60):
            xb, yb = series(32, 1 + step)
            opt.zero_grad()
            mse(net(xb), yb).backward()
            opt.step()
        with torch.no_grad():
            first = net(x)
            net(series(32, 500)[0])
            differences.append((net(x) - first).abs().mean().item())
    return differences[0], differences[1]
