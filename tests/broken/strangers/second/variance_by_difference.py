"""Variance is computed as E[x^2] - E[x]^2 in float32 on readings near 3e4: cancellation leaves only noise."""

import torch
from torch import nn

KIND = "numerics"


class InstanceScale(nn.Module):
    def __init__(self, two_pass, eps=1e-5):
        super().__init__()
        self.two_pass, self.eps = two_pass, eps

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        if self.two_pass:
            var = (x - mean).pow(2).mean(dim=-1, keepdim=True)
        else:
            var = (x.pow(2).mean(dim=-1, keepdim=True) - mean.pow(2)).clamp(min=0)
        return (x - mean) / torch.sqrt(var + self.eps)


class PressureNet(nn.Module):
    """Barometer traces (raw counts around 30 000) -> kind of weather."""

    def __init__(self, two_pass):
        super().__init__()
        self.scale = InstanceScale(two_pass)
        self.conv = nn.Conv1d(1, 16, 5, padding=2)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.conv(self.scale(x).unsqueeze(1)))
        return self.fc(h.mean(-1))


def traces(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    t = torch.linspace(0, 6.28, 40)
    shape = torch.sin((1 + 2 * y[:, None]) * t + 6.28 * torch.rand(n, 1, generator=g))
    amplitude = 0.5 + 4 * torch.rand(n, 1, generator=g)
    offset = 30000 + 500 * torch.randn(n, 1, generator=g)
    return offset + amplitude * (shape + 0.2 * torch.randn(n, 40, generator=g)), y


def setup(two_pass):
    torch.manual_seed(6)
    net = PressureNet(two_pass)
    x, y = traces(64, 0)
    return net, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return setup(two_pass=False)


def repaired():
    return setup(two_pass=True)


def harm() -> tuple[float, float]:
    losses = []
    for make in (broken, repaired):
        net, _, _, ce, opt = make()
        for i in range(150):
            x, y = traces(64, 1 + i)
            opt.zero_grad()
            ce(net(x), y).backward()
            opt.step()
        x, y = traces(500, 24680)
        with torch.no_grad():
            losses.append(ce(net(x), y).item())
    return losses[0], losses[1]
