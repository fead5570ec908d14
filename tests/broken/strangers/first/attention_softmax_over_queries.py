"""The hand-written cross-attention normalises its scores over the queries, so a query's weights do not sum to one."""

import torch
import torch.nn as nn

KIND = "attention-and-masks"


def lookup(n, seed, slots=8, dim=8):
    """Associative recall: find the slot whose key matches the question and read its value."""
    g = torch.Generator().manual_seed(seed)
    keys = torch.nn.functional.normalize(torch.randn(n, slots, dim, generator=g), dim=-1)
    values = torch.randn(n, slots, 4, generator=g)
    which = torch.randint(0, slots, (n, 3), generator=g)
    rows = torch.arange(n).unsqueeze(1)
    questions = keys[rows, which] + 0.05 * torch.randn(n, 3, dim, generator=g)
    return (questions, torch.cat([keys, values], dim=-1)), values[rows, which]


class CrossAttention(nn.Module):
    def __init__(self, softmax_dim=-1, q_dim=8, m_dim=12, dim=32):
        super().__init__()
        self.softmax_dim = softmax_dim
        self.to_q = nn.Linear(q_dim, dim, bias=False)
        self.to_k = nn.Linear(m_dim, dim, bias=False)
        self.to_v = nn.Linear(m_dim, dim, bias=False)
        self.scale = dim**-0.5

    def forward(self, question, memory):
        q, k, v = self.to_q(question), self.to_k(memory), self.to_v(memory)
        scores = torch.einsum("bqd,bkd->bqk", q, k) * self.scale
        return torch.softmax(scores, dim=self.softmax_dim) @ v


class Reader(nn.Module):
    def __init__(self, softmax_dim):
        super().__init__()
        self.attention = CrossAttention(softmax_dim)
        self.out = nn.Linear(32, 4)

    def forward(self, question, memory):
        return self.out(self.attention(question, memory))


def _reader(softmax_dim):
    torch.manual_seed(0)
    reader = Reader(softmax_dim)
    inputs, y = lookup(64, seed=0)
    return reader, inputs, y, nn.MSELoss(), torch.optim.Adam(reader.parameters(), lr=1e-2)


def broken():
    return _reader(softmax_dim=1)


def repaired():
    return _reader(softmax_dim=-1)


def _mse(softmax_dim):
    reader, _, _, loss, opt = _reader(softmax_dim)
    for step in range(400):
        inputs, y = lookup(64, seed=step + 1)
        opt.zero_grad()
        loss(reader(*inputs), y).backward()
        opt.step()
    inputs, y = lookup(500, seed=9000)
    with torch.no_grad():
        return loss(reader(*inputs), y).item()


def harm() -> tuple[float, float]:
    return _mse(1), _mse(-1)
