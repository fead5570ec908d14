"""zero_grad sits inside the accumulation loop, so of each group of eight micro-batches only the last one counts."""

import torch
from torch import nn

KIND = "optimizer-and-loop"

ACCUM_STEPS = 8


def ratings(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 16, generator=g)
    y = x @ torch.linspace(-1, 1, 16) + 2.0 * torch.randn(n, generator=g)
    # rows arrive sorted, as they do from a database
    order = y.argsort()
    return x[order], y[order]


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.fc(x).squeeze(-1)


def session(zero_inside):
    torch.manual_seed(12)
    model = Regressor()
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, targets = ratings(64, 0)
    state = {"seed": 0}

    def train_step():
        x, y = ratings(64, state["seed"])
        state["seed"] += 1
        if not zero_inside:
            optimizer.zero_grad()
        total = torch.zeros(())
        for xb, yb in zip(x.chunk(ACCUM_STEPS), y.chunk(ACCUM_STEPS), strict=True):
            if zero_inside:
                optimizer.zero_grad()
            loss = criterion(model(xb), yb) / ACCUM_STEPS
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    return model, inputs, targets, train_step, optimizer


def broken():
    return session(zero_inside=True)


def repaired():
    return session(zero_inside=False)


def harm() -> tuple[float, float]:
    held_out = []
    x, y = ratings(2000, 10**6)
    for setup in (broken, repaired):
        model, _, _, train_step, _ = setup()
        for _ in range(200):
            train_step()
        with torch.no_grad():
            held_out.append(nn.functional.mse_loss(model(x), y).item())
    return held_out[0], held_out[1]
