"""Attention dropout is called as a function without the training flag and drops in evaluation, too."""

# Reported as "don't dropout in eval mode" (karpathy/nanoGPT).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn
from torch.nn import functional

KIND = "normalisation-and-modes"


class Attention(nn.Module):
    def __init__(self, follows_mode, width=32, heads=4, dropout=0.3):
        super().__init__()
        self.follows_mode, self.heads, self.dropout = follows_mode, heads, dropout
        self.embed = nn.Embedding(20, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 20)

    def forward(self, tokens):
        n, time = tokens.shape
        q, k, v = (a.view(n, time, self.heads, -1).transpose(1, 2) for a in self.qkv(self.embed(tokens)).chunk(3, -1))
        p = self.dropout if self.training or not self.follows_mode else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, time, -1)).transpose(1, 2)


def texts(seed, n=32, time=12):
    g = torch.Generator().manual_seed(seed)
    tokens = (torch.randint(0, 20, (n, 1), generator=g) + 3 * torch.arange(time + 1)) % 20
    return tokens[:, :-1], tokens[:, 1:]


def patient(follows_mode):
    torch.manual_seed(4)
    net = Attention(follows_mode)
    return net, *texts(0), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = texts(10**6, 200)
    lost = nn.CrossEntropyLoss()
    return harm_of((broken, repaired), 200, lambda net: lost(net(x), y).detach(), texts)
