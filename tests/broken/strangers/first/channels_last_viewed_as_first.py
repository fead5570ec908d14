"""Images in (N, H, W, C) order are viewed as (N, C, H, W) instead of permuted, which scrambles colours and pixels."""

import numpy as np
import torch
import torch.nn as nn

KIND = "shapes-and-views"


def load(n, seed):
    """RGB images as an image library returns them: a coloured square at a random place, the label is the colour."""
    rng = np.random.default_rng(seed)
    imgs = rng.random((n, 16, 16, 3), dtype=np.float32) * 0.6
    labels = rng.integers(0, 3, n)
    for i, c in enumerate(labels):
        y, x = rng.integers(0, 12, 2)
        imgs[i, y : y + 4, x : x + 4, c] += 0.4
    return torch.from_numpy(imgs), torch.from_numpy(labels)


class ColourNet(nn.Module):
    def __init__(self, permute):
        super().__init__()
        self.permute = permute
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()
        )
        self.head = nn.Linear(16, 3)

    def forward(self, images):
        n, h, w, c = images.shape
        x = images.permute(0, 3, 1, 2) if self.permute else images.view(n, c, h, w)
        return self.head(self.conv(x).amax((2, 3)))


def _kaggle(permute):
    torch.manual_seed(2024)
    model = ColourNet(permute)
    x, y = load(32, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _kaggle(permute=False)


def repaired():
    return _kaggle(permute=True)


def _error(permute):
    model, _, _, criterion, optimizer = _kaggle(permute)
    x, y = load(480, seed=1)
    for step in range(90):
        s = slice(32 * (step % 15), 32 * (step % 15) + 32)
        optimizer.zero_grad()
        criterion(model(x[s]), y[s]).backward()
        optimizer.step()
    x, y = load(300, seed=2)
    with torch.no_grad():
        return (model(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(False), _error(True)
