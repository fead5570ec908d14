"""Position indices are made in bfloat16, which cannot tell 257 from 258: far neighbours get the same time code."""

import math

import torch
from torch import nn

KIND = "numerics"


class FourierTime(nn.Module):
    def __init__(self, dim, dtype):
        super().__init__()
        self.dtype = dtype
        freq = torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2)) * 1.5
        self.register_buffer("freq", freq)

    def forward(self, start, length):
        position = (start[:, None] + torch.arange(length)).to(self.dtype)
        angle = position.float().unsqueeze(-1) * self.freq
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class EventModel(nn.Module):
    """Which phase of a 7-step schedule is on, for a window that starts late in the recording?"""

    def __init__(self, dtype, length=10):
        super().__init__()
        self.time = FourierTime(32, dtype)
        self.length = length
        self.mlp = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, signal, start):
        h = torch.cat([signal.unsqueeze(-1), self.time(start, self.length)], dim=-1)
        return self.mlp(h).transpose(1, 2)


def recording(n, seed, length=10):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(500, 1500, (n,), generator=g)
    t = start[:, None] + torch.arange(length)
    signal = torch.randn(n, length, generator=g)
    return (signal, start), (torch.cos(1.5 * t.float()) > 0).long()


def build(dtype):
    torch.manual_seed(3)
    model = EventModel(dtype)
    inputs, phase = recording(64, 0)
    return model, inputs, phase, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return build(torch.bfloat16)


def repaired():
    return build(torch.float32)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        model, _, _, ce, opt = setup()
        for i in range(150):
            inputs, phase = recording(64, 1 + i)
            opt.zero_grad()
            ce(model(*inputs), phase).backward()
            opt.step()
        inputs, phase = recording(300, 4711)
        with torch.no_grad():
            errors.append((model(*inputs).argmax(1) != phase).float().mean().item())
    return errors[0], errors[1]
