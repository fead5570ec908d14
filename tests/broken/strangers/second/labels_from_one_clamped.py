"""Labels run from 1 to 5; a clamp silences the index error, so class 5 is merged into 4 and output 0 is never used."""

import torch
from torch import nn

KIND = "data"

N_CLASSES = 5


def mat_file(n, seed):
    """Features and MATLAB-style labels in 1..5."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 9, generator=g)
    projection = torch.randn(9, N_CLASSES, generator=torch.Generator().manual_seed(12))
    return x, (x @ projection).argmax(dim=1) + 1


def encode_clamped(y):
    # IndexError: Target 5 is out of bounds -> fixed
    return y.clamp(0, N_CLASSES - 1)


def encode_shifted(y):
    return y - 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(9, 64)
        self.fc2 = nn.Linear(64, N_CLASSES)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def setup(encode):
    torch.manual_seed(0)
    net = Net()
    x, y = mat_file(100, 0)
    return net, x, encode(y), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return setup(encode_clamped)


def repaired():
    return setup(encode_shifted)


def harm() -> tuple[float, float]:
    """Share of new rows whose class cannot be read back from the prediction."""
    errors = []
    decode = {encode_clamped: lambda p: p, encode_shifted: lambda p: p + 1}
    for make, encode in ((broken, encode_clamped), (repaired, encode_shifted)):
        net, _, _, ce, opt = make()
        for i in range(250):
            x, y = mat_file(100, 1 + i)
            opt.zero_grad()
            ce(net(x), encode(y)).backward()
            opt.step()
        x, y = mat_file(1000, 333)
        with torch.no_grad():
            errors.append((decode[encode](net(x).argmax(1)) != y).float().mean().item())
    return errors[0], errors[1]
