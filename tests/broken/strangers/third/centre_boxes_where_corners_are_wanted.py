"""The overlap takes boxes by their corners and is given centres with sizes, of the model and of the targets alike."""

# Reported as "Box coordinate bug" (stevebottos/owl-vit-object-detection).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "loss"


def overlap(boxes, others):
    """Of boxes by their corners (x0, y0, x1, y1)."""
    low, high = torch.maximum(boxes[:, :2], others[:, :2]), torch.minimum(boxes[:, 2:], others[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(-1) + (others[:, 2:] - others[:, :2]).clamp(min=0).prod(-1)
    return both / (areas - both + 1e-6)


def corners(boxes):
    return torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], -1)


class Boxes(nn.Module):
    """Centres and sizes, in parts of the image."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 4), nn.Sigmoid())

    def forward(self, x):
        return self.body(x)


def as_centres(boxes, wanted):
    return (1 - overlap(boxes, wanted)).mean()


def as_corners(boxes, wanted):
    return (1 - overlap(corners(boxes), corners(wanted))).mean()


MAP = torch.randn(8, 4, generator=torch.Generator().manual_seed(4)) / 3


def images(seed, n=64):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    raw = (x @ MAP).sigmoid()
    return x, torch.cat([0.2 + 0.6 * raw[:, :2], 0.1 + 0.3 * raw[:, 2:]], -1)


def patient(loss):
    torch.manual_seed(0)
    net = Boxes()
    return net, *images(0), loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(as_centres)


def repaired():
    return patient(as_corners)


def harm():
    x, y = images(10**6, 300)
    missed = [
        1 - overlap(corners(train(setup(), 250, images)(x)), corners(y)).mean().item() for setup in (broken, repaired)
    ]
    return missed[0], missed[1]
