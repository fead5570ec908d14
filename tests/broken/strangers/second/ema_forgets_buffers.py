"""The EMA copy averages parameters only; its BatchNorm buffers stay as at the start, so it evaluates badly."""

import copy

import torch
from torch import nn

KIND = "normalisation-and-modes"


class ModelEMA:
    def __init__(self, model, decay, copy_buffers):
        self.module = copy.deepcopy(model).eval()
        self.decay, self.copy_buffers = decay, copy_buffers

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters(), strict=True):
            e.mul_(self.decay).add_(p, alpha=1 - self.decay)
        if self.copy_buffers:
            for e, b in zip(self.module.buffers(), model.buffers(), strict=True):
                e.copy_(b)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(2, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.body = nn.Sequential(nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean(-1))


def ecg(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    t = torch.linspace(0, 6.28, 32)
    beat = torch.sin((2 * y[:, None] + 2) * t + 6.28 * torch.rand(n, 1, generator=g))
    x = torch.stack([beat, beat.roll(3, dims=1)], dim=1)
    return 1.5 * x + 1 + 0.4 * torch.randn(x.shape, generator=g), y


def run(copy_buffers):
    torch.manual_seed(0)
    net = ConvNet()
    ema = ModelEMA(net, 0.9, copy_buffers)
    net.ema = [ema]  # kept in a list: not a submodule
    x, y = ecg(64, 0)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    counter = iter(range(10**9))

    def step():
        xb, yb = ecg(64, next(counter))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
        ema.update(net)
        return loss

    return net, x, y, step, opt


def broken():
    return run(copy_buffers=False)


def repaired():
    return run(copy_buffers=True)


def harm() -> tuple[float, float]:
    """Held-out loss of the averaged model, the one that is shipped."""
    losses = []
    x, y = ecg(500, 10**7)
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(120):
            step()
        with torch.no_grad():
            losses.append(nn.functional.cross_entropy(net.ema[0].module(x), y).item())
    return losses[0], losses[1]
