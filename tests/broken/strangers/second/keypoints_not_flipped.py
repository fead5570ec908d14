"""The horizontal flip turns the image but not the keypoint, so half of the targets point to the mirror side."""

import torch
from torch import nn

KIND = "data"

SIZE = 12


def dots(n, seed):
    """A bright dot somewhere in the image; the target is its (x, y) in [0, 1]."""
    g = torch.Generator().manual_seed(seed)
    xy = torch.rand(n, 2, generator=g)
    grid = torch.linspace(0, 1, SIZE)
    dx = (grid[None, None, :] - xy[:, :1, None]) ** 2
    dy = (grid[None, :, None] - xy[:, 1:, None]) ** 2
    image = torch.exp(-(dx + dy) / 0.01).unsqueeze(1)
    return image + 0.05 * torch.randn(image.shape, generator=g), xy


class RandomFlip:
    def __init__(self, flip_target, seed=0):
        self.flip_target = flip_target
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, image, xy):
        flip = torch.rand(len(image), generator=self.generator) < 0.5
        image = torch.where(flip[:, None, None, None], image.flip(-1), image)
        if self.flip_target:
            x = torch.where(flip, 1 - xy[:, 0], xy[:, 0])
            xy = torch.stack([x, xy[:, 1]], dim=1)
        return image, xy


class KeypointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.regress = nn.Sequential(nn.Flatten(), nn.Linear(8 * 36, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, image):
        return self.regress(self.features(image))


def pipeline(flip_target):
    torch.manual_seed(5)
    model = KeypointNet()
    image, xy = RandomFlip(flip_target)(*dots(64, 0))
    return model, image, xy, nn.SmoothL1Loss(beta=0.1), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return pipeline(flip_target=False)


def repaired():
    return pipeline(flip_target=True)


def harm() -> tuple[float, float]:
    distances = []
    for setup, flip_target in ((broken, False), (repaired, True)):
        model, _, _, loss, opt = setup()
        augment = RandomFlip(flip_target, seed=1)
        for i in range(150):
            image, xy = augment(*dots(64, 1 + i))
            opt.zero_grad()
            loss(model(image), xy).backward()
            opt.step()
        image, xy = dots(300, 4321)
        with torch.no_grad():
            distances.append((model(image) - xy).norm(dim=1).mean().item())
    return distances[0], distances[1]
