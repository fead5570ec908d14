"""The Cox partial likelihood sums over ascending times: its risk set holds the dead instead of the living."""

import torch
from torch import nn

KIND = "loss"


def cohort(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    risk = 1.2 * x[:, 0] - 0.8 * x[:, 1] + 0.7 * x[:, 2] ** 2
    event_time = -torch.log(torch.rand(n, generator=g).clamp_min(1e-6)) * torch.exp(-risk)
    censor_time = -2 * torch.log(torch.rand(n, generator=g).clamp_min(1e-6))
    time = torch.minimum(event_time, censor_time)
    event = (event_time <= censor_time).float()
    return x, torch.stack([time, event], dim=1)


class DeepSurv(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(10, 32), nn.SELU(), nn.Linear(32, 16), nn.SELU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.mlp(x).squeeze(1)


class CoxLoss(nn.Module):
    def __init__(self, descending=True):
        super().__init__()
        self.descending = descending

    def forward(self, log_hazard, target):
        time, event = target[:, 0], target[:, 1]
        order = torch.argsort(time, descending=self.descending)
        log_hazard, event = log_hazard[order], event[order]
        # everybody before me in this order is still at risk
        log_risk = torch.logcumsumexp(log_hazard, dim=0)
        return -((log_hazard - log_risk) * event).sum() / event.sum()


def _run(descending):
    torch.manual_seed(11)
    model = DeepSurv()
    x, y = cohort(96, seed=0)
    return model, x, y, CoxLoss(descending), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return _run(descending=False)


def repaired():
    return _run(descending=True)


def one_minus_c_index(descending):
    model, _, _, loss, opt = _run(descending)
    x, y = cohort(960, seed=1)
    for step in range(300):
        s = slice(96 * (step % 10), 96 * (step % 10) + 96)
        opt.zero_grad()
        loss(model(x[s]), y[s]).backward()
        opt.step()
    x, y = cohort(500, seed=2)
    with torch.no_grad():
        h = model(x)
    comparable = (y[:, 0].unsqueeze(1) < y[:, 0].unsqueeze(0)) & (y[:, 1] == 1).unsqueeze(1)
    concordant = h.unsqueeze(1) > h.unsqueeze(0)
    return 1 - (concordant & comparable).sum().item() / comparable.sum().item()


def harm() -> tuple[float, float]:
    return one_minus_c_index(False), one_minus_c_index(True)
