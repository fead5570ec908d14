"""The old log-probabilities are taken from the live policy without detach: the ratio is one and its gradient zero."""

import torch
from torch import nn
from torch.distributions import Categorical

KIND = "contrastive-or-rl"

CLIP, EPOCHS = 0.2, 4


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, obs):
        return self.pi(obs)


def env_batch(n, seed):
    g = torch.Generator().manual_seed(seed)
    obs = torch.randn(n, 5, generator=g)
    return obs, obs[:, :3].argmax(dim=1)


def ppo(stored):
    """stored: log-probs are computed once at the time of acting, without a graph."""
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    obs0, best0 = env_batch(64, 0)
    counter = iter(range(10**9))

    def update():
        obs, best = env_batch(64, next(counter))
        with torch.no_grad():
            behaviour = Categorical(logits=policy(obs))
            actions = behaviour.sample()
            log_probs_at_rollout = behaviour.log_prob(actions)
        reward = (actions == best).float()
        advantage = (reward - reward.mean()) / (reward.std() + 1e-8)
        for _ in range(EPOCHS):
            dist = Categorical(logits=policy(obs))
            new_log_probs = dist.log_prob(actions)
            old_log_probs = log_probs_at_rollout if stored else dist.log_prob(actions)
            ratio = torch.exp(new_log_probs - old_log_probs)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean() - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return policy, obs0, best0, update, optimizer


def broken():
    return ppo(stored=False)


def repaired():
    return ppo(stored=True)


def harm() -> tuple[float, float]:
    """How often the trained policy's first choice is wrong."""
    wrong = []
    obs, best = env_batch(1000, 10**6)
    for setup in (broken, repaired):
        policy, _, _, update, _ = setup()
        for _ in range(60):
            update()
        with torch.no_grad():
            wrong.append((policy(obs).argmax(1) != best).float().mean().item())
    return wrong[0], wrong[1]
