"""The Cox partial likelihood cumulates over rows sorted by rising time, so the risk set is those who already left."""

import torch
from torch import nn

KIND = "loss"


class DeepSurv(nn.Module):
    def __init__(self, n_features=6):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, 24), nn.SELU(), nn.Linear(24, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


class NegativePartialLikelihood:
    """Breslow form, no ties."""

    def __init__(self, descending):
        self.descending = descending

    def __call__(self, risk, target):
        time, event = target
        order = torch.argsort(time, descending=self.descending)
        risk, event = risk[order], event[order]
        log_cum_risk = torch.logcumsumexp(risk, dim=0)
        return -((risk - log_cum_risk) * event).sum() / event.sum()


def cohort(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    hazard = torch.exp(1.2 * x[:, 0] - x[:, 1] + 0.5 * x[:, 2])
    time = -torch.log(torch.rand(n, generator=g)) / hazard
    censor = -torch.log(torch.rand(n, generator=g)) * 2.0
    return x, (torch.minimum(time, censor), (time <= censor).float())


def concordance_error(risk, time, event):
    """1 - C index: share of comparable pairs ordered the wrong way."""
    comparable = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    return ((risk[:, None] <= risk[None, :]) & comparable).sum().item() / comparable.sum().item()


def fit_setup(descending):
    torch.manual_seed(3)
    model = DeepSurv()
    x, target = cohort(128, 0)
    return model, x, target, NegativePartialLikelihood(descending), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return fit_setup(descending=False)


def repaired():
    return fit_setup(descending=True)


def harm() -> tuple[float, float]:
    result = []
    for setup in (broken, repaired):
        model, _, _, npl, opt = setup()
        for i in range(200):
            x, target = cohort(128, 1 + i)
            opt.zero_grad()
            npl(model(x), target).backward()
            opt.step()
        x, (time, event) = cohort(500, 10101)
        with torch.no_grad():
            result.append(concordance_error(model(x), time, event))
    return result[0], result[1]
