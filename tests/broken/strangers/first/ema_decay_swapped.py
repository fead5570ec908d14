"""The EMA of the weights mixes with decay and 1 - decay swapped: the 'average' is just the newest, noisy weights."""

import copy

import torch
import torch.nn as nn

KIND = "optimizer-and-loop"
DECAY = 0.99


def noisy_function(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=g) * 2 - 1
    clean = torch.sin(3 * x[:, :1]) * x[:, 1:]
    return x, clean + 1.0 * torch.randn(n, 1, generator=g), clean


class ModelWithEma(nn.Module):
    """The student is trained, the averaged copy is what gets shipped and evaluated."""

    def __init__(self, swapped):
        super().__init__()
        self.student = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.average = copy.deepcopy(self.student).requires_grad_(False)
        self.swapped = swapped

    def forward(self, x):
        return self.student(x) if self.training else self.average(x)

    @torch.no_grad()
    def update(self):
        keep = 1 - DECAY if self.swapped else DECAY
        for avg, new in zip(self.average.parameters(), self.student.parameters(), strict=True):
            avg.mul_(keep).add_(new, alpha=1 - keep)


def _train(swapped):
    torch.manual_seed(0)
    model = ModelWithEma(swapped)
    optimizer = torch.optim.Adam(model.student.parameters(), lr=1e-2)
    mse = nn.MSELoss()
    k = 0

    def step():
        nonlocal k
        k += 1
        x, y, _ = noisy_function(16, seed=k)
        optimizer.zero_grad()
        loss = mse(model(x), y)
        loss.backward()
        optimizer.step()
        model.update()
        return loss.item()

    x, y, _ = noisy_function(16, seed=1)
    return model, x, y, step, optimizer


def broken():
    return _train(swapped=True)


def repaired():
    return _train(swapped=False)


def _shipped_error(make):
    model, _, _, step, _ = make()
    x, _, clean = noisy_function(500, seed=10**6)
    errors = []
    for k in range(800):
        step()
        if k >= 600 and k % 20 == 0:
            model.eval()
            with torch.no_grad():
                errors.append(nn.functional.mse_loss(model(x), clean).item())
            model.train()
    return sum(errors) / len(errors)


def harm() -> tuple[float, float]:
    return _shipped_error(broken), _shipped_error(repaired)
