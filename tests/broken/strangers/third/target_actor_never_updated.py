"""The soft update moves the target critic and forgets the target actor, which goes on acting as at the start."""

# Reported as "Missing to update target_actor of DDPG" (kakaoenterprise/JORLDY).
import copy

import torch
from torch import nn

KIND = "contrastive-or-rl"


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, state):
        action = self.actor(state)
        return action, self.critic(torch.cat([state, action], -1))


def patient(moves_actor):
    torch.manual_seed(0)
    net = Agent()
    targets = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    numbers = iter(range(10**9))

    def step():
        g = torch.Generator().manual_seed(next(numbers))
        state = 2 * torch.rand(64, 2, generator=g) - 1
        action = 2 * torch.rand(64, 1, generator=g) - 1
        after = (state + 0.5 * torch.cat([action, -action], -1)).clamp(-1, 1)
        reward = -state.square().sum(-1, keepdim=True)
        wanted = reward + 0.9 * targets(after)[1]
        critic_loss = (net.critic(torch.cat([state, action], -1)) - wanted).square().mean()
        for one in net.critic.parameters():
            one.requires_grad_(False)
        actor_loss = -net(state)[1].mean()
        for one in net.critic.parameters():
            one.requires_grad_(True)
        optimizer.zero_grad()
        (critic_loss + actor_loss).backward()
        optimizer.step()
        with torch.no_grad():
            for name, target in targets.named_parameters():
                if moves_actor or name.startswith("critic"):
                    target.lerp_(net.get_parameter(name), 0.05)
        return critic_loss.detach()

    state = 2 * torch.rand(64, 2, generator=torch.Generator().manual_seed(0)) - 1
    return net, state, torch.zeros(64, 1), step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """How far its values are off what its own actor earns, played out."""
    start = 2 * torch.rand(500, 2, generator=torch.Generator().manual_seed(9)) - 1
    errors = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(600):
            step()
        with torch.no_grad():
            earned, state = 0, start
            for t in range(60):
                action = net.actor(state)
                earned = earned - 0.9**t * state.square().sum(-1, keepdim=True)
                state = (state + 0.5 * torch.cat([action, -action], -1)).clamp(-1, 1)
            errors.append((net(start)[1] - earned).square().mean().item())
    return errors[0], errors[1]
