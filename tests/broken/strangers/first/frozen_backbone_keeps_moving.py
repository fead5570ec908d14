"""The frozen backbone stays in train mode: its BatchNorm statistics drift to the new data and ruin the old head."""

import torch
import torch.nn as nn

KIND = "normalisation-and-modes"


def camera(n, seed, night=False):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=g)
    x = torch.randn(n, 3, 10, 10, generator=g)
    x[:, 0] += (2.0 * y - 1).view(-1, 1, 1) * 0.5
    return (x - 3.0, y) if night else (x, y)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.day_head = nn.Linear(8, 2)
        self.night_head = nn.Linear(8, 2)
        self.freeze_statistics = False

    def train(self, mode=True):
        super().train(mode)
        if self.freeze_statistics:
            self.backbone.eval()
        return self

    def forward(self, x, head="night"):
        feats = self.backbone(x).mean((2, 3))
        return self.night_head(feats) if head == "night" else self.day_head(feats)


def pretrained():
    torch.manual_seed(0)
    net = Detector()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(80):
        x, y = camera(64, seed=step)
        opt.zero_grad()
        nn.functional.cross_entropy(net(x, head="day"), y).backward()
        opt.step()
    return net


def _finetune(freeze_statistics):
    """Add a night head to the shipped day detector without touching its backbone."""
    net = pretrained()
    for p in net.backbone.parameters():
        p.requires_grad = False
    net.freeze_statistics = freeze_statistics
    net.train()
    x, y = camera(64, seed=500, night=True)
    opt = torch.optim.Adam(net.night_head.parameters(), lr=1e-2)
    return net, x, y, nn.CrossEntropyLoss(), opt


def broken():
    return _finetune(freeze_statistics=False)


def repaired():
    return _finetune(freeze_statistics=True)


def day_error(make):
    net, _, _, loss, opt = make()
    for step in range(60):
        x, y = camera(64, seed=1000 + step, night=True)
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()
    net.eval()
    x, y = camera(500, seed=2000)
    with torch.no_grad():
        return (net(x, head="day").argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return day_error(broken), day_error(repaired)
