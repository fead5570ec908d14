"""StepLR, meant for epochs, is stepped after every batch, so the learning rate is gone within the first epochs."""

import torch
import torch.nn as nn

KIND = "optimizer-and-loop"
BATCHES_PER_EPOCH = 20


def flowers(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 4, generator=g) * 4 - 2
    return x, ((x[:, 0] ** 2 + x[:, 1] ** 2 > 2).long() + (x[:, 2] * x[:, 3] > 0).long())


class IrisNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden1 = nn.Linear(4, 64)
        self.hidden2 = nn.Linear(64, 64)
        self.output = nn.Linear(64, 3)

    def forward(self, x):
        return self.output(torch.relu(self.hidden2(torch.relu(self.hidden1(x)))))


def make_training(per_batch):
    torch.manual_seed(0)
    model = IrisNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.3)  # every 5 epochs
    count = 0

    def train_step():
        nonlocal count
        count += 1
        x, y = flowers(50, seed=count)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if per_batch or count % BATCHES_PER_EPOCH == 0:
            scheduler.step()
        return loss.item()

    x, y = flowers(50, seed=1)
    return model, x, y, train_step, optimizer


def broken():
    return make_training(per_batch=True)


def repaired():
    return make_training(per_batch=False)


def _error(make):
    model, _, _, train_step, _ = make()
    for _ in range(15 * BATCHES_PER_EPOCH):
        train_step()
    x, y = flowers(1000, seed=100_000)
    with torch.no_grad():
        return (model(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(broken), _error(repaired)
