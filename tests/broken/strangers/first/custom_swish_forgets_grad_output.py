"""A memory-saving custom Swish returns its local derivative from backward and forgets to multiply by grad_output."""

import torch
from torch import nn

KIND = "gradients"


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s * (1 + x * (1 - s)))


class _SwishBuggy(_Swish):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return s * (1 + x * (1 - s))


class MemoryEfficientSwish(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn.apply(x)


def net(fn):
    return nn.Sequential(
        nn.Linear(10, 48), MemoryEfficientSwish(fn), nn.Linear(48, 48), MemoryEfficientSwish(fn), nn.Linear(48, 1)
    )


def data(n, seed):
    x = torch.randn(n, 10, generator=torch.Generator().manual_seed(seed))
    return x, torch.sin(x[:, :1] * 1.5) + x[:, 1:2] * x[:, 2:3]


def _build(fn):
    torch.manual_seed(0)
    model = net(fn)
    x, y = data(64, seed=0)
    return model, x, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return _build(_SwishBuggy)


def repaired():
    return _build(_Swish)


def held_out_mse(fn):
    model, _, _, loss_fn, opt = _build(fn)
    for i in range(400):
        x, y = data(64, seed=i + 1)
        opt.zero_grad()
        loss_fn(model(x), y).backward()
        opt.step()
    x, y = data(1000, seed=9999)
    with torch.no_grad():
        return loss_fn(model(x), y).item()


def harm() -> tuple[float, float]:
    return held_out_mse(_SwishBuggy), held_out_mse(_Swish)
