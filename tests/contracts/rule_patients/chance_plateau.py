"""The patients of the rule chance-plateau."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """Divides its inputs by 256, as numbers or as whole numbers, of which nothing is left."""

    def __init__(self, is_whole: bool) -> None:
        super().__init__()
        self.is_whole = is_whole
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, pixels: Tensor) -> Tensor:
        rows = (pixels // 256).float() if self.is_whole else pixels.float() / 256
        scores: Tensor = self.layers(rows)
        return scores


def trained_reader(is_whole: bool, steps: int = 60) -> Specimen:
    """A specimen that was trained for a while on pixels whose brightest corner is the label."""
    with fixed_rng(0), torch.enable_grad():
        pixels = torch.randint(0, 256, (48, 4))
        labels = pixels[:, :3].argmax(1)
        model, loss = _Reader(is_whole), nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(pixels), labels).backward()
            optimizer.step()
        return Specimen(model, (pixels,), labels, loss, optimizer)


def sick() -> Specimen:
    return trained_reader(is_whole=True)


def well() -> Specimen:
    return trained_reader(is_whole=False)
