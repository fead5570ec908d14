"""The loop validates after each step with model.eval() and never returns to train(): dropout and BatchNorm idle."""

import torch
from torch import nn

KIND = "normalisation-and-modes"


def genes(n, seed):
    """Expression levels on their raw scale, far from zero mean and unit variance."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    y = (x[:, 0] + x[:, 1] - x[:, 2] + 0.3 * torch.randn(n, generator=g) > 0).long()
    return 40 + 12 * x, y


class GeneNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn0 = nn.BatchNorm1d(20)
        self.fc1 = nn.Linear(20, 64)
        self.bn1 = nn.BatchNorm1d(64)
        self.drop = nn.Dropout(0.5)
        self.fc2 = nn.Linear(64, 2)

    def forward(self, x):
        x = self.drop(torch.relu(self.bn1(self.fc1(self.bn0(x)))))
        return self.fc2(x)


def validate(model, criterion, x, y):
    model.eval()
    with torch.no_grad():
        return criterion(model(x), y).item()


def _session(train_inside_loop):
    torch.manual_seed(0)
    model = GeneNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    x, y = genes(128, seed=0)
    x_all, y_all = genes(1280, seed=3)
    x_val, y_val = genes(64, seed=1)
    model.train()
    history = []

    def step():
        if train_inside_loop:
            model.train()
        i = torch.randint(0, 1280, (128,))
        optimizer.zero_grad()
        loss = criterion(model(x_all[i]), y_all[i])
        loss.backward()
        optimizer.step()
        history.append(validate(model, criterion, x_val, y_val))
        return loss.item()

    return model, x, y, step, optimizer


def broken():
    return _session(train_inside_loop=False)


def repaired():
    return _session(train_inside_loop=True)


def _error(make):
    model, _, _, step, _ = make()
    for _ in range(200):
        step()
    x, y = genes(1000, seed=2)
    model.eval()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x), y).item()


def harm() -> tuple[float, float]:
    return _error(broken), _error(repaired)
