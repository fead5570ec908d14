"""The loop never zeroes the gradients, so every step follows the sum of all gradients seen since the start."""

import torch
import torch.nn as nn

KIND = "optimizer-and-loop"


def moons(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=g)
    t = torch.rand(n, generator=g) * 3.1416
    upper = torch.stack([t.cos(), t.sin()], 1)
    lower = torch.stack([1 - t.cos(), 0.5 - t.sin()], 1)
    x = torch.where(y.unsqueeze(1) == 0, upper, lower)
    return x + 0.1 * torch.randn(n, 2, generator=g), y


# model
def build_model():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))


# one function per experiment, as in the notebook
def experiment(zero):
    torch.manual_seed(1)
    model = build_model()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x_train, y_train = moons(640, seed=0)
    i = 0

    def step():
        nonlocal i
        xb, yb = x_train[64 * i : 64 * i + 64], y_train[64 * i : 64 * i + 64]
        i = (i + 1) % 10
        pred = model(xb)
        loss = loss_fn(pred, yb)
        if zero:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, x_train[:64], y_train[:64], step, optimizer


def broken():
    return experiment(zero=False)


def repaired():
    return experiment(zero=True)


def _late_loss(make):
    model, _, _, step, _ = make()
    for _ in range(300):
        step()
    x, y = moons(500, seed=9)
    total = 0.0
    for _ in range(20):
        step()
        with torch.no_grad():
            total += nn.functional.cross_entropy(model(x), y).clamp(max=100.0).item()
    return total / 20


def harm() -> tuple[float, float]:
    return _late_loss(broken), _late_loss(repaired)
