"""In a hand-written AdamW the decay lacks the learning rate: a tenth of each weight goes at every step."""

# Reported as "Bug in AdamW optimizer" (joennlae/tensorli).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "optimizer-and-loop"


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=3e-3, decay=0.1, is_scaled=True):
        super().__init__(params, {"lr": lr, "decay": decay, "is_scaled": is_scaled})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is None:
                    continue
                state = self.state[one]
                if not state:
                    state.update(t=0, m=torch.zeros_like(one), v=torch.zeros_like(one))
                state["t"] += 1
                state["m"].lerp_(one.grad, 0.1)
                state["v"].lerp_(one.grad.square(), 0.01)
                move = state["m"] / (1 - 0.9 ** state["t"]) / ((state["v"] / (1 - 0.99 ** state["t"])).sqrt() + 1e-8)
                decay = group["decay"] * (group["lr"] if group["is_scaled"] else 1)
                one.sub_(group["lr"] * move + decay * one)


def items(seed, n=64):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :4].argmax(1)


def patient(is_scaled):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    return net, *items(0), nn.CrossEntropyLoss(), AdamW(net.parameters(), is_scaled=is_scaled)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = items(10**6, 500)
    lost = nn.CrossEntropyLoss()
    return harm_of((broken, repaired), 200, lambda net: lost(net(x), y).detach(), items)
