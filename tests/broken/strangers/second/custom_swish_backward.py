"""A memory-saving Swish writes its own backward and drops a term of the product rule, so gradients are wrong."""

import torch
import torch.nn as nn

KIND = "gradients"


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx, grad_output):
        (i,) = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad_output * (s * (1 - s))


class SwishFunctionFull(SwishFunction):
    @staticmethod
    def backward(ctx, grad_output):
        (i,) = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad_output * (s * (1 + i * (1 - s)))


class MemoryEfficientSwish(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function.apply(x)


class SmallEffNet(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), MemoryEfficientSwish(function))
        self.block = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), MemoryEfficientSwish(function))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.block(self.stem(x)).mean(dim=(2, 3)))


def stripes(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    angle = y.float() * 0.785
    u = torch.arange(12).float()
    wave = u[None, :, None] * torch.sin(angle)[:, None, None] + u[None, None, :] * torch.cos(angle)[:, None, None]
    phase = torch.rand(n, 1, 1, generator=g) * 6.28
    x = torch.sin(1.2 * wave + phase).unsqueeze(1)
    return x + 0.2 * torch.randn(x.shape, generator=g), y


def get(function):
    torch.manual_seed(2)
    net = SmallEffNet(function)
    x, y = stripes(64, 0)
    return net, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return get(SwishFunction)


def repaired():
    return get(SwishFunctionFull)


def harm() -> tuple[float, float]:
    """Gap between the analytic gradient and central differences."""
    gaps = []
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    for setup in (broken, repaired):
        swish = setup()[0].stem[1]
        probe = x.clone().requires_grad_()
        (analytic,) = torch.autograd.grad(swish(probe).sum(), probe)
        numeric = (swish(x + 1e-5) - swish(x - 1e-5)) / 2e-5
        gaps.append((analytic - numeric).abs().max().item())
    return gaps[0], gaps[1]
