"""The model ends in a softmax and is trained with CrossEntropyLoss, which applies another one: learning crawls."""

from collections import OrderedDict

import torch
import torch.nn as nn

KIND = "loss"


def spectra(n, seed, classes=20):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 30, generator=torch.Generator().manual_seed(9))
    y = torch.randint(0, classes, (n,), generator=g)
    return centres[y] + 1.0 * torch.randn(n, 30, generator=g), y


def make_mlp(final_softmax):
    layers = OrderedDict(
        fc1=nn.Linear(30, 64),
        act1=nn.ReLU(),
        fc2=nn.Linear(64, 64),
        act2=nn.ReLU(),
        fc3=nn.Linear(64, 20),
    )
    if final_softmax:
        layers["probs"] = nn.Softmax(dim=1)
    return nn.Sequential(layers)


def _assemble(final_softmax):
    torch.manual_seed(123)
    model = make_mlp(final_softmax)
    x, y = spectra(100, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def broken():
    return _assemble(True)


def repaired():
    return _assemble(False)


def train_eval(final_softmax):
    model, _, _, criterion, optimizer = _assemble(final_softmax)
    x, y = spectra(1000, seed=1)
    model.train()
    for _ in range(25):
        for k in range(10):
            xb, yb = x[k * 100 : (k + 1) * 100], y[k * 100 : (k + 1) * 100]
            optimizer.zero_grad()
            criterion(model(xb), yb).backward()
            optimizer.step()
    model.eval()
    xt, yt = spectra(1000, seed=2)
    with torch.no_grad():
        return (model(xt).argmax(1) != yt).float().mean().item()


def harm() -> tuple[float, float]:
    return train_eval(True), train_eval(False)
