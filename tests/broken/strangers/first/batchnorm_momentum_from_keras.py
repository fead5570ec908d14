"""BatchNorm's momentum 0.99 was copied from Keras: in PyTorch the running statistics become those of the last batch."""

import torch
import torch.nn as nn

KIND = "normalisation-and-modes"


def telemetry(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    y = torch.stack([x[:, 0] + x[:, 1] ** 2, x[:, 2] * x[:, 3], -x[:, 0] + x[:, 4]], dim=1).argmax(1)
    return 5 + 3 * x, y


class PortedNet(nn.Module):
    """Port of a Keras model: three times Dense - BatchNormalization(momentum=0.99) - ReLU."""

    def __init__(self, momentum, width=48):
        super().__init__()
        layers, size = [], 8
        for _ in range(3):
            layers += [nn.Linear(size, width, bias=False), nn.BatchNorm1d(width, momentum=momentum), nn.ReLU()]
            size = width
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return self.fc(self.body(x))


def _port(momentum):
    torch.manual_seed(0)
    model = PortedNet(momentum)
    x, y = telemetry(16, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-3)


def broken():
    return _port(momentum=0.99)


def repaired():
    return _port(momentum=0.01)


def _val_error(momentum):
    model, _, _, ce, opt = _port(momentum)
    xv, yv = telemetry(512, seed=1)
    errors = []
    for step in range(700):
        model.train()
        x, y = telemetry(16, seed=step + 2)
        opt.zero_grad()
        ce(model(x), y).backward()
        opt.step()
        if step >= 500 and step % 10 == 0:
            model.eval()
            with torch.no_grad():
                errors.append((model(xv).argmax(1) != yv).float().mean().item())
    return sum(errors) / len(errors)


def harm() -> tuple[float, float]:
    return _val_error(0.99), _val_error(0.01)
