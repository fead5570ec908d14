"""Item ids are looked up in the user table (both have 60 rows, so nothing fails): user 7 and item 7 share a vector."""

import torch
from torch import nn

KIND = "indexing"

N = 60  # users, and items


class MatrixFactorization(nn.Module):
    def __init__(self, own_table, factors=6):
        super().__init__()
        self.own_table = own_table
        self.user_factors = nn.Embedding(N, factors)
        self.item_factors = nn.Embedding(N, factors)
        self.user_bias = nn.Embedding(N, 1)
        self.item_bias = nn.Embedding(N, 1)
        nn.init.normal_(self.user_factors.weight, std=0.3)
        nn.init.normal_(self.item_factors.weight, std=0.3)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, user, item):
        p = self.user_factors(user)
        q = self.item_factors(item) if self.own_table else self.user_factors(item)
        return (p * q).sum(1) + self.user_bias(user).squeeze(1) + self.item_bias(item).squeeze(1)


def ratings(n, seed):
    g = torch.Generator().manual_seed(seed)
    world = torch.Generator().manual_seed(1998)
    taste = torch.randn(N, 3, generator=world)
    genre = torch.randn(N, 3, generator=world)
    user = torch.randint(0, N, (n,), generator=g)
    item = torch.randint(0, N, (n,), generator=g)
    return (user, item), (taste[user] * genre[item]).sum(1) + 0.1 * torch.randn(n, generator=g)


def movielens(own_table):
    torch.manual_seed(0)
    model = MatrixFactorization(own_table)
    inputs, stars = ratings(128, 0)
    return model, inputs, stars, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=2e-2)


def broken():
    return movielens(own_table=False)


def repaired():
    return movielens(own_table=True)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        model, _, _, mse, opt = setup()
        for i in range(400):
            inputs, stars = ratings(128, 1 + i)
            opt.zero_grad()
            mse(model(*inputs), stars).backward()
            opt.step()
        inputs, stars = ratings(2000, 1_000_000)
        with torch.no_grad():
            errors.append(mse(model(*inputs), stars).item())
    return errors[0], errors[1]
