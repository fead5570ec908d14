"""The DQN target has no (1 - done) factor: a finished episode is bootstrapped from the state after the reset."""

import copy

import torch
import torch.nn as nn

KIND = "contrastive-or-rl"
CELLS, GAMMA = 8, 0.9


def replay(n, seed):
    """A corridor: going right from the last cell pays 1 and ends; falling out on the left pays 0.2 and ends."""
    g = torch.Generator().manual_seed(seed)
    pos = torch.randint(0, CELLS, (n,), generator=g)
    action = torch.randint(0, 2, (n,), generator=g)
    nxt = pos + 2 * action - 1
    done = (nxt < 0) | (nxt >= CELLS)
    reward = (nxt >= CELLS).float() + 0.2 * (nxt < 0).float()
    nxt = torch.where(done, torch.full_like(nxt, CELLS // 2), nxt)  # the env was reset
    eye = torch.eye(CELLS)
    return eye[pos], action, reward, eye[nxt], done.float()


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(CELLS, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, s):
        return self.fc(s)


def true_q():
    v = [0.0] * CELLS
    for _ in range(200):
        right = [GAMMA * v[i + 1] if i + 1 < CELLS else 1.0 for i in range(CELLS)]
        left = [GAMMA * v[i - 1] if i > 0 else 0.2 for i in range(CELLS)]
        v = [max(a, b) for a, b in zip(left, right, strict=True)]
    return torch.tensor([left, right]).t()


def _agent(respect_done):
    torch.manual_seed(0)
    q = QNet()
    target = copy.deepcopy(q)
    opt = torch.optim.Adam(q.parameters(), lr=5e-3)
    n = [0]

    def step():
        n[0] += 1
        s, a, r, s2, done = replay(64, seed=n[0])
        with torch.no_grad():
            alive = 1 - done if respect_done else 1.0
            y = r + GAMMA * alive * target(s2).max(1).values
        loss = nn.functional.smooth_l1_loss(q(s).gather(1, a.unsqueeze(1)).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if n[0] % 20 == 0:
            target.load_state_dict(q.state_dict())
        return loss.item()

    s, _, r, _, _ = replay(64, seed=1)
    return q, s, r, step, opt


def broken():
    return _agent(respect_done=False)


def repaired():
    return _agent(respect_done=True)


def value_error(make):
    q, _, _, step, _ = make()
    for _ in range(800):
        step()
    with torch.no_grad():
        return (q(torch.eye(CELLS)) - true_q()).abs().mean().item()


def harm() -> tuple[float, float]:
    return value_error(broken), value_error(repaired)
