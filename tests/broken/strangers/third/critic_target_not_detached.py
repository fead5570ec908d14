"""The critic is trained on squared advantages whose bootstrapped part still has its gradient: targets run to it."""

# Reported as "[Bug Report] Incorrect A2C implementation" (Farama-Foundation/Gymnasium).
import torch
from torch import nn

KIND = "contrastive-or-rl"

DISCOUNT = 0.97


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 1))

    def forward(self, states):
        return self.body(states).squeeze(-1)


def walks(seed, n=32, steps=12):
    """A walk to the right on ten places that pays at its end, with slips back."""
    g = torch.Generator().manual_seed(seed)
    at = torch.randint(0, 9, (n,), generator=g)
    places = [at]
    for _ in range(steps):
        at = (at + torch.where(torch.rand(n, generator=g) < 0.6, 1, -1)).clamp(0, 9)
        places.append(at)
    places = torch.stack(places)
    done = (places[:-1] == 9).float()
    return nn.functional.one_hot(places, 10).float(), done


def patient(is_detached):
    torch.manual_seed(0)
    net = Critic()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-2)
    numbers = iter(range(10**9))
    x, done = walks(0)

    def step():
        states, done = walks(next(numbers))
        values = net(states)
        follows = values[1:].detach() if is_detached else values[1:]
        error = done + DISCOUNT * follows * (1 - done) - values[:-1]
        loss = error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return net, x, done, step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """The error of its values, beside those of many sweeps of the Bellman equation."""
    value = torch.zeros(10)
    for _ in range(2000):
        right, left = value.roll(-1), value.roll(1)
        right[9], left[0] = value[9], value[0]
        value = DISCOUNT * (0.6 * right + 0.4 * left)
        value[9] = 1
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(600):
            step()
        errors.append((net(torch.eye(10)) - value).square().mean().item())
    return errors[0], errors[1]
