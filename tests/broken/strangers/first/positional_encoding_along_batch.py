"""The tutorial's sequence-first positional encoding is used on batch-first data: it tells rows apart, not positions."""

import math

import torch
from torch import nn

KIND = "shapes-and-views"
LEN, VOCAB = 12, 10


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, batch_first, max_len=500):
        super().__init__()
        self.batch_first = batch_first
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        if self.batch_first:
            return x + self.pe[: x.size(1)].transpose(0, 1)
        return x + self.pe[: x.size(0)]


class OrderModel(nn.Module):
    """Does symbol 1 come before symbol 2?"""

    def __init__(self, batch_first_pe, d=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d)
        self.pe = PositionalEncoding(d, batch_first_pe)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.fc = nn.Linear(d, 2)

    def forward(self, tokens):
        return self.fc(self.encoder(self.pe(self.embed(tokens))).mean(1))


def symbol_order(n, seed):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, VOCAB, (n, LEN), generator=g)
    where = torch.rand(n, LEN, generator=g).argsort(1)[:, :2]
    rows = torch.arange(n)
    tokens[rows, where[:, 0]] = 1
    tokens[rows, where[:, 1]] = 2
    return tokens, (where[:, 0] < where[:, 1]).long()


def _setup(batch_first_pe):
    torch.manual_seed(0)
    model = OrderModel(batch_first_pe)
    x, y = symbol_order(64, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return _setup(False)


def repaired():
    return _setup(True)


def _error(batch_first_pe):
    model, _, _, loss_fn, opt = _setup(batch_first_pe)
    for step in range(180):
        x, y = symbol_order(64, seed=step + 1)
        opt.zero_grad()
        loss_fn(model(x), y).backward()
        opt.step()
    model.eval()
    x, y = symbol_order(256, seed=7777)
    with torch.no_grad():
        return (model(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(False), _error(True)
