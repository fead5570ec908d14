"""The sliding window is cut one step too long: its last input is the value to be forecast, so the model just copies."""

import numpy as np
import torch
from torch import nn

KIND = "data"

LOOKBACK = 12


def create_dataset(series, lookback, leak):
    """Windows and the value after each window."""
    X, y = [], []
    for i in range(lookback, len(series) - 1):
        X.append(series[i - lookback + 1 : i + 1] if leak else series[i - lookback : i])
        y.append(series[i])
    return torch.tensor(np.array(X), dtype=torch.float32), torch.tensor(np.array(y), dtype=torch.float32)


def load_passengers(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(141)
    return np.sin(2 * np.pi * t / 9) + 0.5 * np.sin(2 * np.pi * t / 4 + 1) + 0.05 * rng.standard_normal(141)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(LOOKBACK, 32)
        self.linear2 = nn.Linear(32, 1)

    def forward(self, x):
        return self.linear2(torch.relu(self.linear1(x))).squeeze(1)


def prepare(leak):
    torch.manual_seed(0)
    X, y = create_dataset(load_passengers(0), LOOKBACK, leak)
    model = Forecaster()
    return model, X, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return prepare(leak=True)


def repaired():
    return prepare(leak=False)


def harm() -> tuple[float, float]:
    """Forecast of the next value in production: only the past is there."""
    errors = []
    X_live, y_live = create_dataset(load_passengers(1), LOOKBACK, leak=False)
    for build in (broken, repaired):
        model, X, y, mse, opt = build()
        for _ in range(400):
            opt.zero_grad()
            mse(model(X), y).backward()
            opt.step()
        with torch.no_grad():
            errors.append(mse(model(X_live), y_live).item())
    return errors[0], errors[1]
