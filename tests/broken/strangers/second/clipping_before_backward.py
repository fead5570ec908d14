"""clip_grad_norm_ runs between zero_grad and backward, with nothing to clip: a bad batch throws the net off."""

import torch
from torch import nn

KIND = "optimizer-and-loop"


def sensor_batch(n, seed):
    """A few rows in a hundred are broken readings."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    y = x[:, 0] - 2 * x[:, 1] + torch.relu(x[:, 2])
    bad = torch.rand(n, generator=g) < 0.02
    y = torch.where(bad, y + 300 * torch.randn(n, generator=g), y)
    return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))[:, 0]


def trainer(clip_first):
    torch.manual_seed(77)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    x, y = sensor_batch(64, 0)
    batches = iter(range(10**9))

    def training_step():
        xb, yb = sensor_batch(64, next(batches))
        opt.zero_grad(set_to_none=False)
        if clip_first:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        if not clip_first:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach()

    return model, x, y, training_step, opt


def broken():
    return trainer(clip_first=True)


def repaired():
    return trainer(clip_first=False)


def harm() -> tuple[float, float]:
    """Median absolute error on clean rows (NaN counts as a thousand)."""
    g = torch.Generator().manual_seed(31)
    x = torch.randn(1000, 8, generator=g)
    y = x[:, 0] - 2 * x[:, 1] + torch.relu(x[:, 2])
    errors = []
    for setup in (broken, repaired):
        model, _, _, training_step, _ = setup()
        for _ in range(300):
            training_step()
        with torch.no_grad():
            errors.append((model(x) - y).abs().nan_to_num(1e3, 1e3).median().item())
    return errors[0], errors[1]
