"""The mixture's router picks the expert by argmax and never multiplies by the gate, so the router gets no gradient."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "gradients"


class Top1MoE(nn.Module):
    """Switch-style layer: one small expert per row."""

    def __init__(self, dim, n_experts, use_gate):
        super().__init__()
        self.router = nn.Linear(dim, n_experts)
        self.w = nn.Parameter(torch.randn(n_experts, dim, 1) * 0.1)
        self.b = nn.Parameter(torch.zeros(n_experts, 1))
        self.use_gate = use_gate

    def forward(self, x):
        probs = F.softmax(self.router(x), dim=-1)
        idx = probs.argmax(dim=-1)
        out = torch.einsum("bd,bdo->bo", x, self.w[idx]) + self.b[idx]
        if self.use_gate:
            gate = probs.gather(1, idx[:, None])
            out = out * gate
        return out.squeeze(1)


def piecewise(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    y = torch.where(x[:, 0] > 0, 2 * x[:, 1] - x[:, 2] + 3, -2 * x[:, 1] + x[:, 3] - 3)
    return x, y


def create(use_gate):
    torch.manual_seed(1)
    model = Top1MoE(6, 2, use_gate)
    x, y = piecewise(128, 0)
    return model, x, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=2e-2)


def broken():
    return create(use_gate=False)


def repaired():
    return create(use_gate=True)


def harm() -> tuple[float, float]:
    final = []
    for setup in (broken, repaired):
        model, _, _, mse, opt = setup()
        for i in range(500):
            x, y = piecewise(128, 1 + i)
            loss = mse(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        x, y = piecewise(1000, 31337)
        with torch.no_grad():
            final.append(mse(model(x), y).item())
    return final[0], final[1]
