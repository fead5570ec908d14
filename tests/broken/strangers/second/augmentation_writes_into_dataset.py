"""Noise is added in place to a slice of the stored data, so each epoch piles new noise upon the training set itself."""

import torch
from torch import nn

KIND = "data"


class ArrayDataset(torch.utils.data.Dataset):
    def __init__(self, x, y, in_place):
        self.x, self.y, self.in_place = x, y, in_place

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        sample = self.x[i]
        noise = 0.3 * torch.randn(sample.shape)
        if self.in_place:
            sample += noise
        else:
            sample = sample + noise
        return sample, self.y[i]


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x):
        return self.net(x)


def blobs(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    centres = 1.3 * torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    return centres[y] + torch.randn(n, 8, generator=g), y


def session(in_place):
    torch.manual_seed(0)
    x, y = blobs(64, 0)
    data = ArrayDataset(x.clone(), y, in_place)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    model = MLP()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def train_step():
        xb, yb = next(iter(loader))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        return loss

    return model, x, y, train_step, optimizer


def broken():
    return session(True)


def repaired():
    return session(False)


def harm() -> tuple[float, float]:
    losses = []
    x_val, y_val = blobs(1000, 1)
    for start in (broken, repaired):
        model, _, _, train_step, _ = start()
        for _ in range(400):
            train_step()
        with torch.no_grad():
            losses.append(nn.functional.cross_entropy(model(x_val), y_val).item())
    return losses[0], losses[1]
