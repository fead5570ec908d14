"""The TD target adds gamma * max Q of the next state even when the episode has ended, so values grow without reason."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

KIND = "contrastive-or-rl"

N, GAMMA = 8, 0.95


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, state):
        return self.net(state)


def replay(n, seed):
    """Corridor of N cells, action 1 goes right, 0 left. Both ends end the episode, the right one pays 1."""
    g = torch.Generator().manual_seed(seed)
    cell = torch.randint(0, N, (n,), generator=g)
    action = torch.randint(0, 2, (n,), generator=g)
    landing = cell + 2 * action - 1
    done = ((landing < 0) | (landing >= N)).float()
    reward = (landing >= N).float()
    landing = landing.clamp(0, N - 1)
    return F.one_hot(cell, N).float(), action, reward, F.one_hot(landing, N).float(), done


def dqn(mask_terminal):
    torch.manual_seed(0)
    policy_net = QNetwork()
    target_net = copy.deepcopy(policy_net)
    optimizer = torch.optim.Adam(policy_net.parameters(), lr=5e-3)
    state0, action0, *_ = replay(64, 0)
    count = {"n": 0}

    def optimize_model():
        state, action, reward, next_state, done = replay(64, count["n"])
        q = policy_net(state).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            next_q = target_net(next_state).max(1).values
            if mask_terminal:
                next_q = next_q * (1 - done)
            expected = reward + GAMMA * next_q
        loss = F.smooth_l1_loss(q, expected)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count["n"] += 1
        if count["n"] % 10 == 0:
            target_net.load_state_dict(policy_net.state_dict())
        return loss.detach()

    return policy_net, state0, action0, optimize_model, optimizer


def broken():
    return dqn(mask_terminal=False)


def repaired():
    return dqn(mask_terminal=True)


def harm() -> tuple[float, float]:
    """Error of max Q against the true value gamma^(steps to the right end)."""
    truth = GAMMA ** torch.arange(N - 1, -1, -1).float()
    errors = []
    for setup in (broken, repaired):
        net, _, _, optimize_model, _ = setup()
        for _ in range(400):
            optimize_model()
        with torch.no_grad():
            errors.append((net(torch.eye(N)).max(1).values - truth).abs().mean().item())
    return errors[0], errors[1]
