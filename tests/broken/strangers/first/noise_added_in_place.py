"""The noise augmentation adds in place to a view of the dataset, so the noise piles up epoch after epoch."""

import torch
import torch.nn as nn

KIND = "data"


def sensors(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 5, generator=torch.Generator().manual_seed(42))
    return x, (x @ w).argmax(1)


class Trainer:
    def __init__(self, in_place, n=128, batch=32):
        torch.manual_seed(0)
        self.x, self.y = sensors(n, seed=1)
        self.batch = batch
        self.in_place = in_place
        self.i = 0
        self.model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)

    def augment(self, xb, sigma=0.3):
        if self.in_place:
            xb += sigma * torch.randn_like(xb)
            return xb
        return xb + sigma * torch.randn_like(xb)

    def next_batch(self):
        a = (self.i * self.batch) % len(self.x)
        self.i += 1
        return self.x[a : a + self.batch], self.y[a : a + self.batch]

    def step(self):
        xb, yb = self.next_batch()
        xb = self.augment(xb)
        loss = self.criterion(self.model(xb), yb)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def _pack(trainer):
    x, y = trainer.x[:32].clone(), trainer.y[:32]
    return trainer.model, x, y, trainer.step, trainer.optimizer


def broken():
    return _pack(Trainer(in_place=True))


def repaired():
    return _pack(Trainer(in_place=False))


def _test_error(in_place):
    trainer = Trainer(in_place, n=256)
    for _ in range(800):
        trainer.step()
    x, y = sensors(1000, seed=2)
    with torch.no_grad():
        return (trainer.model(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _test_error(True), _test_error(False)
