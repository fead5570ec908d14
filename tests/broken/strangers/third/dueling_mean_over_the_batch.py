"""The dueling head subtracts the mean advantage of the whole batch and not that of each state."""

# Reported as "Advantage computation fix - Chapter 8 models.py" (PacktPublishing/Deep-Reinforcement-Learning-Hands-On).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "contrastive-or-rl"


class Dueling(nn.Module):
    def __init__(self, is_by_state):
        super().__init__()
        self.is_by_state = is_by_state
        self.body = nn.Sequential(nn.Linear(4, 48), nn.ReLU())
        self.value, self.advantage = nn.Linear(48, 1), nn.Linear(48, 3)

    def forward(self, state):
        h = self.body(state)
        advantage = self.advantage(h)
        mean = advantage.mean(1, keepdim=True) if self.is_by_state else advantage.mean()
        return self.value(h) + advantage - mean


def states(seed, n=64):
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return x, torch.stack([x[:, 0], x[:, 1] * x[:, 2], x[:, 3].abs()], 1) + 3 * x.sum(1, keepdim=True)


def patient(is_by_state):
    torch.manual_seed(0)
    net = Dueling(is_by_state)
    return net, *states(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """Of each state alone, as an agent asks: how far its values are off those of a batch of others."""
    x, y = states(10**6, 200)
    errors = []
    for setup in (broken, repaired):
        net = train(setup(), 300, states)
        alone = torch.cat([net(one[None]) for one in x])
        errors.append((alone - y).square().mean().item())
    return errors[0], errors[1]
