"""The corners of the second box are made with the first one's width and height, so that sizes hardly count."""

# Reported as "Incorrect bounding box coordinates?" (eriklindernoren/PyTorch-YOLOv3).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "loss"


def overlap(boxes, others, is_own):
    """Of boxes (x, y, width, height); is_own: each is made of its own sizes."""
    size = others[:, 2:] if is_own else boxes[:, 2:]
    low = torch.maximum(boxes[:, :2] - boxes[:, 2:] / 2, others[:, :2] - size / 2)
    high = torch.minimum(boxes[:, :2] + boxes[:, 2:] / 2, others[:, :2] + size / 2)
    both = (high - low).clamp(min=0).prod(-1)
    return both / (boxes[:, 2:].prod(-1) + size.prod(-1) - both + 1e-6)


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, x):
        place, size = self.body(x).chunk(2, -1)
        return torch.cat([place, nn.functional.softplus(size + 1)], -1)


def loss_with(is_own):
    def loss(boxes, wanted):
        return (1 - overlap(boxes, wanted, is_own)).mean() + 0.1 * (boxes[:, :2] - wanted[:, :2]).abs().mean()

    return loss


MAP = torch.randn(8, 4, generator=torch.Generator().manual_seed(3)) / 4


def images(seed, n=64):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    raw = x @ MAP
    return x, torch.cat([raw[:, :2], 0.3 + raw[:, 2:].exp()], -1)


def patient(is_own):
    torch.manual_seed(0)
    net = Boxes()
    return net, *images(0), loss_with(is_own), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = images(10**6, 300)
    missed = [1 - overlap(train(setup(), 200, images)(x), y, True).mean().item() for setup in (broken, repaired)]
    return missed[0], missed[1]
