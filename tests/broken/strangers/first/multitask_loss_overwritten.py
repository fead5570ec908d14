"""The loop over the tasks assigns the loss instead of adding to it, so only the last head is ever trained."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "loss"
TASKS = ("age", "income", "hours")


def census(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    return x, {
        "age": (x[:, 0] + x[:, 1]).tanh(),
        "income": x[:, 2] * x[:, 3],
        "hours": x[:, 4] - 0.5 * x[:, 5],
    }


class MultiTaskNet(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.heads = nn.ModuleDict({t: nn.Linear(dim, 1) for t in TASKS})

    def forward(self, x):
        z = self.backbone(x)
        return {t: head(z).squeeze(1) for t, head in self.heads.items()}


def total_loss(outputs, targets, accumulate=True):
    loss = 0.0
    for task in TASKS:
        task_loss = F.smooth_l1_loss(outputs[task], targets[task])
        loss = loss + task_loss if accumulate else task_loss
    return loss


def last_loss(outputs, targets):
    return total_loss(outputs, targets, accumulate=False)


def _new(loss):
    torch.manual_seed(0)
    net = MultiTaskNet()
    x, y = census(64, seed=0)
    return net, x, y, loss, torch.optim.AdamW(net.parameters(), lr=3e-3)


def broken():
    return _new(last_loss)


def repaired():
    return _new(total_loss)


def _held_out(make):
    net, _, _, loss, opt = make()
    for it in range(300):
        x, y = census(64, seed=1000 + it)
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()
    x, y = census(1000, seed=1)
    with torch.no_grad():
        out = net(x)
        return sum(F.mse_loss(out[t], y[t]).item() for t in TASKS) / len(TASKS)


def harm() -> tuple[float, float]:
    return _held_out(broken), _held_out(repaired)
