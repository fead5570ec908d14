"""The mask is where embeddings sum to zero, which after positions were added is nowhere: padding is attended to."""

# Reported as "fix the mask problem for multi-head attenion" (Kyubyong/transformer).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "attention-and-masks"


class Reader(nn.Module):
    """The mean value of the words of a sentence."""

    def __init__(self, is_of_tokens, width=32, longest=16):
        super().__init__()
        self.is_of_tokens = is_of_tokens
        self.embed = nn.Embedding(20, width, padding_idx=0)
        self.positions = nn.Embedding(longest, width)
        self.key, self.value, self.query = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Parameter(torch.zeros(width)),
        )
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions(torch.arange(tokens.shape[1]))
        mask = tokens == 0 if self.is_of_tokens else x.sum(-1).abs().sign() == 0
        scores = (self.key(x) @ self.query / x.shape[-1] ** 0.5).masked_fill(mask, -1e9)
        return self.out((scores.softmax(-1)[..., None] * self.value(x)).sum(1)).squeeze(-1)


def sentences(seed, n=64, time=16):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, time + 1, (n, 1), generator=g)
    tokens = torch.randint(1, 20, (n, time), generator=g) * (torch.arange(time) < lengths)
    return tokens, tokens.sum(1) / lengths.squeeze(1) / 10


def patient(is_of_tokens):
    torch.manual_seed(0)
    net = Reader(is_of_tokens)
    return net, *sentences(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = sentences(10**6, 400)
    return harm_of((broken, repaired), 250, lambda net: (net(x) - y).square().mean(), sentences)
