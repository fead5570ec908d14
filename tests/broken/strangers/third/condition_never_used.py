"""The masked convolution takes the condition as an argument and never adds it: samples of every class are alike."""

# Reported as "Reporting bugs/errors in `lecture3_flow_models_demos.ipynb`" (rll/deepul).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "generative"


class Masked(nn.Conv1d):
    def __init__(self, before, after, classes, is_used):
        super().__init__(before, after, 5, padding=2)
        self.is_used = is_used
        mask = torch.ones_like(self.weight)
        mask[..., 2:] = 0
        self.register_buffer("mask", mask)
        self.condition = nn.Linear(classes, after)

    def forward(self, x, condition):
        out = nn.functional.conv1d(x, self.weight * self.mask, self.bias, padding=2)
        return out + self.condition(condition)[..., None] if self.is_used else out


class Pixels(nn.Module):
    def __init__(self, is_used):
        super().__init__()
        self.conv = Masked(1, 24, 4, is_used)
        self.out = nn.Conv1d(24, 1, 1)

    def forward(self, x, condition):
        return self.out(torch.relu(self.conv(x, condition)))


def rows(seed, n=48, time=16):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 4, (n,), generator=g)
    x = (torch.rand(n, 1, time, generator=g) < (kind[:, None, None] + 0.5) / 4).float()
    return (x, nn.functional.one_hot(kind, 4).float()), x


def patient(is_used):
    torch.manual_seed(0)
    net = Pixels(is_used)
    return net, *rows(0), nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = rows(10**6, 400)
    lost = [nn.BCEWithLogitsLoss()(train(setup(), 250, rows)(*x), y).item() for setup in (broken, repaired)]
    return lost[0], lost[1]
