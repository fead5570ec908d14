"""The target grid is written at [x, y] where the feature map is [row, column], so objects land across the diagonal."""

import torch
from torch import nn

KIND = "indexing"

S = 6  # grid cells per side


def draw(n, seed):
    """24x24 images holding one square; returns the centre (x to the right, y down) in [0, 1]."""
    g = torch.Generator().manual_seed(seed)
    centre = torch.rand(n, 2, generator=g) * 0.8 + 0.1
    axis = (torch.arange(24) + 0.5) / 24
    in_x = (axis[None, None, :] - centre[:, 0, None, None]).abs() < 0.08
    in_y = (axis[None, :, None] - centre[:, 1, None, None]).abs() < 0.08
    image = (in_x & in_y).float().unsqueeze(1)
    return image + 0.1 * torch.randn(n, 1, 24, 24, generator=g), centre


def encode(centre, row_first):
    """Objectness of each cell."""
    n = len(centre)
    grid = torch.zeros(n, S, S)
    gx, gy = (centre * S).long().clamp(max=S - 1).unbind(1)
    if row_first:
        grid[torch.arange(n), gy, gx] = 1.0
    else:
        grid[torch.arange(n), gx, gy] = 1.0
    return grid


class GridDetector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU()
        )
        self.head = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, image):
        return self.head(self.backbone(image)).squeeze(1)


def config(row_first):
    torch.manual_seed(0)
    net = GridDetector()
    image, centre = draw(64, 0)
    target = encode(centre, row_first)
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(5.0))
    return net, image, target, loss, torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return config(row_first=False)


def repaired():
    return config(row_first=True)


def harm() -> tuple[float, float]:
    """Distance between the best cell's centre and the object."""
    distance = []
    for setup, row_first in ((broken, False), (repaired, True)):
        net, _, _, loss, opt = setup()
        for i in range(120):
            image, centre = draw(64, 1 + i)
            opt.zero_grad()
            loss(net(image), encode(centre, row_first)).backward()
            opt.step()
        image, centre = draw(300, 2468)
        with torch.no_grad():
            best = net(image).flatten(1).argmax(1)
        found = torch.stack([best % S + 0.5, best // S + 0.5], dim=1) / S
        distance.append((found - centre).norm(dim=1).mean().item())
    return distance[0], distance[1]
