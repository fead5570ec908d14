"""The critic gives (N, 1), the returns are (N,): the squared error broadcasts to N x N and V learns the mean return."""

import torch
from torch import nn
from torch.distributions import Categorical

KIND = "shapes-and-views"


class ActorCritic(nn.Module):
    def __init__(self, squeeze, obs_dim=4, n_actions=2):
        super().__init__()
        self.squeeze = squeeze
        self.actor = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, n_actions))
        self.critic = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, obs):
        value = self.critic(obs)
        return self.actor(obs), value.squeeze(-1) if self.squeeze else value


def a2c_loss(outputs, rollout):
    logits, value = outputs
    actions, advantages, returns = rollout
    dist = Categorical(logits=logits)
    policy_loss = -(dist.log_prob(actions) * advantages).mean()
    value_loss = (returns - value).pow(2).mean()
    return policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()


def collect(n, seed):
    """One-step bandit with context: the reward depends on the observation and a little on the action."""
    g = torch.Generator().manual_seed(seed)
    obs = torch.randn(n, 4, generator=g)
    actions = torch.randint(0, 2, (n,), generator=g)
    state_value = 2 * obs[:, 0] - obs[:, 1]
    bonus = torch.where(actions == (obs[:, 2] > 0).long(), 1.0, -1.0)
    returns = state_value + bonus + 0.1 * torch.randn(n, generator=g)
    advantages = (bonus - bonus.mean()) / (bonus.std() + 1e-8)
    return obs, (actions, advantages, returns)


def agent(squeeze):
    torch.manual_seed(1)
    net = ActorCritic(squeeze)
    obs, rollout = collect(64, 0)
    return net, obs, rollout, a2c_loss, torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return agent(squeeze=False)


def repaired():
    return agent(squeeze=True)


def harm() -> tuple[float, float]:
    """Error of the value function on new states."""
    errors = []
    for setup in (broken, repaired):
        net, _, _, loss, opt = setup()
        for i in range(300):
            obs, rollout = collect(64, 1 + i)
            opt.zero_grad()
            loss(net(obs), rollout).backward()
            opt.step()
        obs, (_, _, returns) = collect(1000, 99999)
        with torch.no_grad():
            errors.append((net(obs)[1].flatten() - returns).pow(2).mean().item())
    return errors[0], errors[1]
