"""The class weights are the class counts instead of their inverse, so the rare fault class is ignored even more."""

import torch
from torch import nn

KIND = "loss"


def machine_logs(n, seed, balanced=False):
    g = torch.Generator().manual_seed(seed)
    p = torch.ones(3) if balanced else torch.tensor([0.8, 0.14, 0.06])
    y = torch.multinomial(p, n, replacement=True, generator=g)
    centres = torch.tensor([[0.0, 0, 0, 0], [1.4, 1.0, 0, 0], [0, -1.2, 1.4, 0]])
    return centres[y] + torch.randn(n, 4, generator=g), y


def class_weights(y, inverse):
    counts = torch.bincount(y, minlength=3).float()
    w = 1.0 / counts if inverse else counts
    return w / w.sum() * len(counts)


class FaultClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(4, 32)
        self.drop = nn.Dropout(0.1)
        self.lin2 = nn.Linear(32, 3)

    def forward(self, x):
        return self.lin2(self.drop(torch.relu(self.lin1(x))))


def _pipeline(inverse):
    torch.manual_seed(2)
    _, y_all = machine_logs(2000, seed=0)
    criterion = nn.CrossEntropyLoss(weight=class_weights(y_all, inverse))
    model = FaultClassifier()
    x, y = machine_logs(100, seed=1)
    return model, x, y, criterion, torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _pipeline(inverse=False)


def repaired():
    return _pipeline(inverse=True)


def balanced_error(inverse):
    model, _, _, criterion, optimizer = _pipeline(inverse)
    x, y = machine_logs(2000, seed=0)
    for step in range(300):
        s = slice(100 * (step % 20), 100 * (step % 20) + 100)
        optimizer.zero_grad()
        criterion(model(x[s]), y[s]).backward()
        optimizer.step()
    model.eval()
    xt, yt = machine_logs(1500, seed=5, balanced=True)
    with torch.no_grad():
        return (model(xt).argmax(1) != yt).float().mean().item()


def harm() -> tuple[float, float]:
    return balanced_error(False), balanced_error(True)
