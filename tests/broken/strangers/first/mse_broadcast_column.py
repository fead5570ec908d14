"""The regressor returns (N, 1) and the target is (N,): MSE broadcasts to (N, N) and the net learns only the mean."""

import torch
import torch.nn as nn

KIND = "loss"


def housing(n, seed):
    g = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 8, generator=g)
    price = 2 * X[:, 0] - X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.1 * torch.randn(n, generator=g)
    return X, price


class Regressor(nn.Module):
    def __init__(self, squeeze):
        super().__init__()
        self.squeeze = squeeze
        self.fc1 = nn.Linear(8, 64)
        self.fc2 = nn.Linear(64, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        x = self.out(x)
        return x.squeeze(-1) if self.squeeze else x


def _experiment(squeeze):
    torch.manual_seed(0)
    X, y = housing(64, seed=0)
    model = Regressor(squeeze)
    return model, X, y, lambda pred, target: ((pred - target) ** 2).mean(), torch.optim.Adam(model.parameters(), 3e-3)


def broken():
    return _experiment(squeeze=False)


def repaired():
    return _experiment(squeeze=True)


def _mse(squeeze):
    model, _, _, loss_fn, optimizer = _experiment(squeeze)
    X, y = housing(1024, seed=1)
    for _ in range(20):
        for i in range(0, 1024, 64):
            optimizer.zero_grad()
            loss_fn(model(X[i : i + 64]), y[i : i + 64]).backward()
            optimizer.step()
    Xt, yt = housing(500, seed=2)
    with torch.no_grad():
        return ((model(Xt).reshape(-1) - yt) ** 2).mean().item()


def harm() -> tuple[float, float]:
    return _mse(False), _mse(True)
