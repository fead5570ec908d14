"""The first PixelCNN layer uses mask B instead of mask A, so each pixel is predicted from its own value."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "generative"
SIZE = 8


def stripes(n, seed):
    """Binary textures: every pixel repeats its left or upper neighbour, with a little noise."""
    g = torch.Generator().manual_seed(seed)
    img = (torch.rand(n, 1, SIZE, SIZE, generator=g) < 0.5).float()
    vertical = torch.rand(n, generator=g) < 0.5
    for i in range(n):
        keep = torch.rand(SIZE, SIZE, generator=g) < 0.9
        base = img[i, 0, :1].expand(SIZE, SIZE) if vertical[i] else img[i, 0, :, :1].expand(SIZE, SIZE)
        img[i, 0] = torch.where(keep, base, 1 - base)
    return img


class MaskedConv2d(nn.Conv2d):
    def __init__(self, mask_type, *args, **kwargs):
        super().__init__(*args, **kwargs)
        _, _, kh, kw = self.weight.shape
        mask = torch.ones(1, 1, kh, kw)
        mask[..., kh // 2, kw // 2 + (mask_type == "B") :] = 0
        mask[..., kh // 2 + 1 :, :] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding)


class PixelCNN(nn.Module):
    def __init__(self, first, ch=16):
        super().__init__()
        self.layers = nn.Sequential(
            MaskedConv2d(first, 1, ch, 5, padding=2),
            nn.ReLU(),
            MaskedConv2d("B", ch, ch, 3, padding=1),
            nn.ReLU(),
            MaskedConv2d("B", ch, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.layers(x)


def _pixelcnn(first):
    torch.manual_seed(0)
    model = PixelCNN(first)
    x = stripes(32, seed=0)
    return model, x, x.clone(), nn.BCEWithLogitsLoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _pixelcnn("B")


def repaired():
    return _pixelcnn("A")


def causal_nll(first):
    """Score each test pixel from the pixels before it alone, as sampling does (the pixel itself still empty)."""
    model, _, _, bce, opt = _pixelcnn(first)
    x = stripes(256, seed=1)
    for step in range(150):
        batch = x[32 * (step % 8) :][:32]
        opt.zero_grad()
        bce(model(batch), batch).backward()
        opt.step()
    test, total = stripes(64, seed=2), 0.0
    with torch.no_grad():
        for r in range(SIZE):
            for c in range(SIZE):
                prefix = test.clone()
                prefix[:, :, r, c:] = 0
                prefix[:, :, r + 1 :] = 0
                total += bce(model(prefix)[:, 0, r, c], test[:, 0, r, c]).item()
    return total / SIZE**2


def harm() -> tuple[float, float]:
    return causal_nll("B"), causal_nll("A")
