"""The sinusoid table of the tutorial (length first) is added to batch-first input: each row gets one constant code."""

import math

import torch
from torch import nn

KIND = "attention-and-masks"


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, batch_first_table, max_len=500):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.batch_first_table = batch_first_table
        self.register_buffer("pe", pe.unsqueeze(0) if batch_first_table else pe.unsqueeze(1))

    def forward(self, x):
        if self.batch_first_table:
            return x + self.pe[:, : x.size(1)]
        return x + self.pe[: x.size(0)]


class OrderModel(nn.Module):
    """Does the marker A come before the marker B in the sequence?"""

    def __init__(self, batch_first_table, vocab=10, d_model=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.pos = PositionalEncoding(d_model, batch_first_table)
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(d_model, 2)

    def forward(self, tokens):
        h = self.encoder(self.pos(self.embed(tokens) * 4))
        return self.head(h.mean(dim=1))


def sample(n, seed):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, 10, (n, 12), generator=g)
    places = torch.stack([torch.randperm(12, generator=g)[:2] for _ in range(n)])
    rows = torch.arange(n)
    tokens[rows, places[:, 0]] = 0
    tokens[rows, places[:, 1]] = 1
    return tokens, (places[:, 0] < places[:, 1]).long()


def setup(batch_first_table):
    torch.manual_seed(3)
    model = OrderModel(batch_first_table)
    tokens, labels = sample(64, 3)
    return model, tokens, labels, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return setup(False)


def repaired():
    return setup(True)


def harm() -> tuple[float, float]:
    out = []
    for fn in (broken, repaired):
        model, _, _, criterion, opt = fn()
        for i in range(250):
            tokens, labels = sample(64, 50 + i)
            opt.zero_grad()
            criterion(model(tokens), labels).backward()
            opt.step()
        model.eval()
        tokens, labels = sample(400, 4)
        wrong = [
            (model(a).argmax(1) != b).float().mean().item()
            for a, b in zip(tokens.split(64), labels.split(64), strict=True)
        ]
        out.append(sum(wrong) / len(wrong))
    return out[0], out[1]
