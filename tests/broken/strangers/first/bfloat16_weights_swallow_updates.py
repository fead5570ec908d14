"""The whole model is cast to bfloat16 and trained in it: small updates are rounded away and the weights stop moving."""

import torch
import torch.nn as nn

KIND = "numerics"


def calibration(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 16, generator=g)
    w = torch.linspace(-1, 1, 16)
    return x, (torch.tanh(x @ w) + 0.5 * x[:, 0] * x[:, 1]).unsqueeze(1)


class SensorNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.l1 = nn.Linear(16, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, 1)

    def forward(self, x):
        x = x.to(self.l1.weight.dtype)
        x = torch.relu(self.l1(x))
        x = torch.relu(self.l2(x))
        return self.l3(x).float()


def _script(dtype):
    torch.manual_seed(0)
    model = SensorNet().to(dtype)
    x, y = calibration(64, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
    return model, x, y, nn.MSELoss(), optimizer


def broken():
    return _script(torch.bfloat16)  # "fits twice as much on the card"


def repaired():
    return _script(torch.float32)


def _mse(dtype):
    model, _, _, mse, opt = _script(dtype)
    for step in range(800):
        x, y = calibration(64, seed=step + 1)
        opt.zero_grad()
        mse(model(x), y).backward()
        opt.step()
    x, y = calibration(1000, seed=22_222)
    with torch.no_grad():
        return mse(model(x), y).item()


def harm() -> tuple[float, float]:
    return _mse(torch.bfloat16), _mse(torch.float32)
