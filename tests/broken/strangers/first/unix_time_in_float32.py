"""Unix timestamps are cast to float32 before the phase is taken: float32 steps by 128 s there, the phase is noise."""

import math

import torch
import torch.nn as nn

KIND = "numerics"
PERIOD = 300.0  # the pump runs in cycles of five minutes


def pump_log(n, seed):
    g = torch.Generator().manual_seed(seed)
    stamp = 1_700_000_000 + torch.randint(0, 86_400 * 30, (n,), generator=g)
    phase = 2 * math.pi * (stamp % int(PERIOD)).double() / PERIOD
    load = torch.sin(phase) + 0.3 * torch.cos(3 * phase)
    return stamp, (load.float() + 0.05 * torch.randn(n, generator=g)).unsqueeze(1)


def time_features(stamp, dtype):
    t = stamp.to(dtype)
    phase = 2 * math.pi * torch.remainder(t, PERIOD) / PERIOD
    return torch.stack([phase.sin(), phase.cos()], dim=1).float()


class PumpModel(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.mlp = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, stamp):
        return self.mlp(time_features(stamp, self.dtype))


def _pump(dtype):
    torch.manual_seed(0)
    model = PumpModel(dtype)
    x, y = pump_log(96, seed=0)
    return model, x, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _pump(torch.float32)


def repaired():
    return _pump(torch.float64)


def _mse(dtype):
    model, _, _, mse, opt = _pump(dtype)
    for step in range(300):
        x, y = pump_log(96, seed=step + 1)
        opt.zero_grad()
        mse(model(x), y).backward()
        opt.step()
    x, y = pump_log(1000, seed=5_555)
    with torch.no_grad():
        return mse(model(x), y).item()


def harm() -> tuple[float, float]:
    return _mse(torch.float32), _mse(torch.float64)
