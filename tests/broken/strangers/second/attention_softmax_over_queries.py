"""The attention weights are normalised over the queries, not the keys, so a causal model hears about later tokens."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "attention-and-masks"

T, VOCAB = 16, 12


class Head(nn.Module):
    """one head of self-attention (after the 'let's build GPT' lecture)"""

    def __init__(self, n_embd, head_size, softmax_dim):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(T, T)))
        self.softmax_dim = softmax_dim

    def forward(self, x):
        t = x.shape[1]
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
        wei = F.softmax(wei, dim=self.softmax_dim)
        return wei @ self.value(x)


class TinyGPT(nn.Module):
    def __init__(self, softmax_dim, n_embd=32):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, n_embd)
        self.pos = nn.Embedding(T, n_embd)
        self.heads = nn.ModuleList([Head(n_embd, 8, softmax_dim) for _ in range(4)])
        self.proj = nn.Linear(n_embd, n_embd)
        self.ln = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, VOCAB)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        x = x + self.proj(torch.cat([h(x) for h in self.heads], dim=-1))
        return self.lm_head(self.ln(x))


def lm_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def sequences(n, seed):
    # each token is the sum of the two before it, modulo the vocabulary
    g = torch.Generator().manual_seed(seed)
    seq = torch.randint(0, VOCAB, (n, T + 1), generator=g)
    for t in range(2, T + 1):
        seq[:, t] = (seq[:, t - 1] + seq[:, t - 2]) % VOCAB
    return seq[:, :-1], seq[:, 1:]


def make(softmax_dim):
    torch.manual_seed(1337)
    model = TinyGPT(softmax_dim)
    x, y = sequences(32, 0)
    return model, x, y, lm_loss, torch.optim.AdamW(model.parameters(), lr=3e-3)


def broken():
    return make(-2)


def repaired():
    return make(-1)


def harm() -> tuple[float, float]:
    """How far the earlier outputs move when only the last token is changed."""
    moved = []
    for setup in (broken, repaired):
        model, x, *_ = setup()
        other = x.clone()
        other[:, -1] = (other[:, -1] + 1) % VOCAB
        with torch.no_grad():
            moved.append((model(x) - model(other))[:, :-1].abs().max().item())
    return moved[0], moved[1]
