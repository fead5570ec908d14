"""Volume rendering multiplies each alpha by a transmittance that includes the sample itself: solid surfaces go dark."""

import torch
from torch import nn

KIND = "indexing"

SAMPLES = 24


class TinyNeRF(nn.Module):
    """Density and colour along a ray; one-dimensional world with a coloured wall."""

    def __init__(self, shifted, hidden=48):
        super().__init__()
        self.shifted = shifted
        self.mlp = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.sigma = nn.Linear(hidden, 1)
        self.rgb = nn.Linear(hidden, 3)

    def composite(self, sigma, rgb, delta):
        alpha = 1.0 - torch.exp(-torch.relu(sigma) * delta)
        survive = torch.cumprod(1.0 - alpha + 1e-10, dim=-1)
        if self.shifted:
            survive = torch.cat([torch.ones_like(survive[:, :1]), survive[:, :-1]], dim=-1)
        weights = alpha * survive
        return (weights.unsqueeze(-1) * rgb).sum(dim=1), weights

    def render(self, rays):
        z = torch.linspace(0, 1, SAMPLES)
        points = torch.cat([rays[:, None, :].expand(-1, SAMPLES, -1), z.expand(len(rays), -1).unsqueeze(-1)], -1)
        h = self.mlp(points)
        sigma = self.sigma(h).squeeze(-1) + 1.0
        return self.composite(sigma * 10, torch.sigmoid(self.rgb(h)), 1.0 / SAMPLES)

    def forward(self, rays):
        return self.render(rays)[0]


def camera_rays(n, seed):
    """Directions and the pixel colours of a bright wall."""
    g = torch.Generator().manual_seed(seed)
    rays = torch.rand(n, 2, generator=g) * 2 - 1
    pixels = torch.stack([0.9 - 0.1 * rays[:, 0] ** 2, 0.8 + 0.1 * rays[:, 1], torch.full((n,), 0.95)], dim=1)
    return rays, pixels


def scene(shifted):
    torch.manual_seed(9458)
    model = TinyNeRF(shifted)
    rays, pixels = camera_rays(64, 0)
    return model, rays, pixels, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return scene(shifted=False)


def repaired():
    return scene(shifted=True)


def harm() -> tuple[float, float]:
    """Light lost at an opaque wall: the weights of a ray that meets dense matter should sum to one."""
    lost = []
    for setup in (broken, repaired):
        model, *_ = setup()
        sigma = torch.zeros(16, SAMPLES)
        sigma[:, 10:] = 400.0
        rgb = torch.ones(16, SAMPLES, 3)
        colour, _ = model.composite(sigma, rgb, 1.0 / SAMPLES)
        lost.append((1 - colour).abs().mean().item())
    return lost[0], lost[1]
