"""The uint8 pixels are centred before they are cast to float, so dark pixels wrap around to bright ones."""

import torch
from torch import nn

KIND = "data"


def load_images(n, seed):
    """Fake 8-bit camera frames: a blob left or right, up or down, on a mid-grey background."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (n,), generator=g)
    img = 118 + 20 * torch.rand(n, 1, 16, 16, generator=g)
    for i, lab in enumerate(labels.tolist()):
        r, c = 4 + 7 * (lab // 2), 4 + 7 * (lab % 2)
        dr, dc = torch.randint(-2, 3, (2,), generator=g).tolist()
        # the object is a faint bright patch next to a faint dark one
        img[i, 0, r + dr - 2 : r + dr + 2, c + dc - 2 : c + dc] += 9
        img[i, 0, r + dr - 2 : r + dr + 2, c + dc : c + dc + 2] -= 9
    return img.clamp(0, 255).to(torch.uint8), labels


def preprocess(img, cast_first):
    if cast_first:
        return (img.float() - 128) / 128
    return (img - 128).float() / 128


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(16 * 4 * 4, 4)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def _program(cast_first):
    torch.manual_seed(0)
    img, labels = load_images(64, seed=1)
    model = SmallCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return model, preprocess(img, cast_first), labels, nn.CrossEntropyLoss(), optimizer


def broken():
    return _program(cast_first=False)


def repaired():
    return _program(cast_first=True)


def _error(cast_first):
    model, _, _, criterion, optimizer = _program(cast_first)
    img, labels = load_images(512, seed=2)
    x = preprocess(img, cast_first)
    for step in range(200):
        i = torch.arange(step * 32, step * 32 + 32) % 512
        optimizer.zero_grad()
        criterion(model(x[i]), labels[i]).backward()
        optimizer.step()
    test_img, test_labels = load_images(512, seed=3)
    with torch.no_grad():
        return (model(preprocess(test_img, cast_first)).argmax(1) != test_labels).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(False), _error(True)
