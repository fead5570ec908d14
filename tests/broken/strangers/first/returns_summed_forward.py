"""REINFORCE accumulates the rewards from the start, so an action is credited with the past instead of the future."""

import torch
import torch.nn as nn
from torch.distributions import Categorical

KIND = "contrastive-or-rl"
GAMMA, HORIZON = 0.5, 10


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, obs):
        return self.net(obs)


def observations(episodes, seed):
    """Contextual decisions in a row: the reward depends on the context and the action of the same step."""
    g = torch.Generator().manual_seed(seed)
    context = torch.randint(0, 4, (episodes, HORIZON), generator=g)
    return torch.eye(4)[context], context


def discounted(rewards, backward):
    returns = torch.zeros_like(rewards)
    running = torch.zeros(rewards.size(0))
    steps = range(HORIZON - 1, -1, -1) if backward else range(HORIZON)
    for t in steps:
        running = rewards[:, t] + GAMMA * running
        returns[:, t] = running
    return returns


def _reinforce(backward):
    torch.manual_seed(0)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    k = 0

    def step():
        nonlocal k
        k += 1
        obs, context = observations(32, seed=k)
        dist = Categorical(logits=policy(obs))
        action = dist.sample()
        # the right answer pays in the NEXT step
        correct = (action == (context + 1) % 4).float()
        rewards = torch.cat([torch.zeros(32, 1), correct[:, :-1]], dim=1)
        returns = discounted(rewards, backward)
        advantage = (returns - returns.mean(0)) / (returns.std() + 1e-6)
        loss = -(dist.log_prob(action) * advantage)[:, :-1].mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    obs, context = observations(32, seed=1)
    return policy, obs, context, step, opt


def broken():
    return _reinforce(backward=False)


def repaired():
    return _reinforce(backward=True)


def regret(make):
    policy, _, _, step, _ = make()
    for _ in range(300):
        step()
    obs, context = observations(200, seed=50_000)
    with torch.no_grad():
        p = policy(obs).softmax(-1).gather(-1, ((context + 1) % 4).unsqueeze(-1))
    return 1 - p.mean().item()


def harm() -> tuple[float, float]:
    return regret(broken), regret(repaired)
