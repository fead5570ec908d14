"""User vectors are spread over their candidates with repeat instead of repeat_interleave: users score others' items."""

import torch
import torch.nn as nn

KIND = "shapes-and-views"
N_USERS, N_ITEMS, CANDIDATES = 60, 80, 8


def sessions(n, seed):
    taste = torch.Generator().manual_seed(0)
    users = torch.randn(N_USERS, 6, generator=taste)
    items = torch.randn(N_ITEMS, 6, generator=taste)
    g = torch.Generator().manual_seed(seed)
    u = torch.randint(0, N_USERS, (n,), generator=g)
    c = torch.randint(0, N_ITEMS, (n, CANDIDATES), generator=g)
    return (u, c), (users[u].unsqueeze(1) * items[c]).sum(-1).argmax(1)


class Ranker(nn.Module):
    """Scores every (user, candidate) pair with one MLP over the concatenated embeddings."""

    def __init__(self, interleave, dim=16):
        super().__init__()
        self.interleave = interleave
        self.user_emb = nn.Embedding(N_USERS, dim)
        self.item_emb = nn.Embedding(N_ITEMS, dim)
        self.scorer = nn.Sequential(nn.Linear(3 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, candidates):
        b, k = candidates.shape
        u = self.user_emb(user)
        u = u.repeat_interleave(k, dim=0) if self.interleave else u.repeat(k, 1)
        i = self.item_emb(candidates).flatten(0, 1)
        return self.scorer(torch.cat([u, i, u * i], dim=1)).view(b, k)


def _ranker(interleave):
    torch.manual_seed(0)
    model = Ranker(interleave)
    inputs, clicked = sessions(64, seed=1)
    return model, inputs, clicked, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _ranker(interleave=False)


def repaired():
    return _ranker(interleave=True)


def _miss_rate(interleave):
    model, _, _, loss, opt = _ranker(interleave)
    for step in range(400):
        inputs, clicked = sessions(64, seed=step + 2)
        opt.zero_grad()
        loss(model(*inputs), clicked).backward()
        opt.step()
    inputs, clicked = sessions(512, seed=90_000)
    with torch.no_grad():
        return (model(*inputs).argmax(1) != clicked).float().mean().item()


def harm() -> tuple[float, float]:
    return _miss_rate(False), _miss_rate(True)
