"""StepLR was set up in epochs but is stepped after each batch, so the rate is gone within the first epoch."""

import torch
import torch.nn as nn
from torch.optim import lr_scheduler

KIND = "optimizer-and-loop"

BATCHES_PER_EPOCH = 20


def ants_and_bees(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, 6, 6, generator=g)
    energy = (x[:, 0] * x[:, 1]).sum(dim=(1, 2))
    return x, (energy > 0).long()


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 1)
        self.fc = nn.Linear(24, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean(dim=(2, 3)))


def train_model(per_batch):
    torch.manual_seed(0)
    model = SmallNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    # decay LR by a factor of 0.1 every 7 epochs
    exp_lr_scheduler = lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    inputs, labels = ants_and_bees(64, 0)
    count = {"batch": 0}

    def step():
        x, y = ants_and_bees(64, count["batch"])
        count["batch"] += 1
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if per_batch or count["batch"] % BATCHES_PER_EPOCH == 0:
            exp_lr_scheduler.step()
        return loss.detach()

    return model, inputs, labels, step, optimizer


def broken():
    return train_model(per_batch=True)


def repaired():
    return train_model(per_batch=False)


def harm() -> tuple[float, float]:
    errors = []
    x, y = ants_and_bees(1000, 10**6)
    for setup in (broken, repaired):
        model, _, _, step, _ = setup()
        for _ in range(12 * BATCHES_PER_EPOCH):
            step()
        with torch.no_grad():
            errors.append((model(x).argmax(1) != y).float().mean().item())
    return errors[0], errors[1]
