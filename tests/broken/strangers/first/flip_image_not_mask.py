"""The random horizontal flip augments the image but not its segmentation mask, so half of the masks are mirrored."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "data"


def make_scans(n, seed, size=20):
    g = torch.Generator().manual_seed(seed)
    cy = torch.rand(n, 1, 1, generator=g) * 10 + 5
    cx = torch.rand(n, 1, 1, generator=g) * 10 + 5
    r = torch.rand(n, 1, 1, generator=g) * 2 + 2.5
    yy, xx = torch.arange(size).view(1, -1, 1), torch.arange(size).view(1, 1, -1)
    mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < r**2).float().unsqueeze(1)
    image = mask + 0.4 * torch.randn(n, 1, size, size, generator=g)
    return image, mask


def augment(image, mask, flip_mask=True):
    coin = torch.rand(len(image), 1, 1, 1) < 0.5
    image = torch.where(coin, image.flip(-1), image)
    if flip_mask:
        mask = torch.where(coin, mask.flip(-1), mask)
    return image, mask


class TinyUNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, ch, 3, padding=1), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(ch, 2 * ch, 3, padding=1), nn.ReLU())
        self.dec = nn.Sequential(nn.Conv2d(3 * ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 1, 1))

    def forward(self, x):
        skip = self.enc(x)
        deep = self.mid(F.max_pool2d(skip, 2))
        deep = F.interpolate(deep, scale_factor=2, mode="nearest")
        return self.dec(torch.cat([skip, deep], dim=1))


def get(flip_mask):
    torch.manual_seed(3)
    image, mask = augment(*make_scans(32, seed=5), flip_mask=flip_mask)
    net = TinyUNet()
    return net, image, mask, nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return get(flip_mask=False)


def repaired():
    return get(flip_mask=True)


def dice_error(flip_mask):
    net, _, _, criterion, opt = get(flip_mask)
    images, masks = make_scans(256, seed=6)
    for it in range(80):
        sl = slice(32 * (it % 8), 32 * (it % 8) + 32)
        x, y = augment(images[sl], masks[sl], flip_mask)
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()
    x, y = make_scans(128, seed=8)
    with torch.no_grad():
        pred = (net(x) > 0).float()
    return 1 - (2 * (pred * y).sum() / (pred.sum() + y.sum())).item()


def harm() -> tuple[float, float]:
    return dice_error(False), dice_error(True)
