"""The attention's output overwrites x before the residual sum, so that x + x doubles the branch and loses the input."""

# Reported as "[BUG] residual connection wrong?" (kyegomez/BitNet).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "shapes-and-views"


class Encoder(nn.Module):
    """Marks each token that is the same as the first one."""

    def __init__(self, is_kept, width=32, depth=3):
        super().__init__()
        self.is_kept = is_kept
        self.embed = nn.Embedding(16, width)
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        x = self.embed(tokens)
        for attend, mlp in zip(self.attention, self.mlps, strict=True):
            if self.is_kept:
                x = x + attend(x, x, x)[0]
            else:
                x, _ = attend(x, x, x)
                x = x + x
            x = mlp(x) + x
        return self.out(x).squeeze(-1)


def texts(seed, n=64, time=8):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 16, (n, time), generator=g)
    return tokens, (tokens % 2).float()


def patient(is_kept):
    torch.manual_seed(0)
    net = Encoder(is_kept)
    return net, *texts(0), nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=1e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = texts(10**6, 300)
    lost = nn.BCEWithLogitsLoss()
    return harm_of((broken, repaired), 80, lambda net: lost(net(x), y).detach(), texts)
