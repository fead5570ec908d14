"""Scores of the negative words are summed before the log-sigmoid, so that one far word pays for all that are near."""

# Reported as "about the negative example loss in the Skip-gram-Negative-Sampling algorithm" (DSKSD/DeepNLP-models).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "loss"

WORDS, GROUPS = 40, 8


class SkipGram(nn.Module):
    """Scores of a true neighbour (first) and of words drawn by chance."""

    def __init__(self, width=12):
        super().__init__()
        self.centre, self.context = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)

    def forward(self, words, others):
        return (self.centre(words)[:, None] * self.context(others)).sum(-1)


def sum_first(scores, _=None):
    return -(functional.logsigmoid(scores[:, 0]) + functional.logsigmoid(-scores[:, 1:].sum(1))).mean()


def sum_last(scores, _=None):
    return -(functional.logsigmoid(scores[:, 0]) + functional.logsigmoid(-scores[:, 1:]).sum(1)).mean()


def text(seed, n=128):
    g = torch.Generator().manual_seed(seed)
    words = torch.randint(0, WORDS, (n,), generator=g)
    near = words % GROUPS + GROUPS * torch.randint(0, WORDS // GROUPS, (n,), generator=g)
    chance = torch.randint(0, WORDS, (n, 6), generator=g)
    return (words, torch.cat([near[:, None], chance], 1)), None


def patient(loss):
    torch.manual_seed(0)
    net = SkipGram()
    return net, *text(0), loss, torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(sum_first)


def repaired():
    return patient(sum_last)


def harm():
    x, _ = text(10**6, 2000)
    losses = [sum_last(train(setup(), 300, text)(*x)).item() for setup in (broken, repaired)]
    return losses[0], losses[1]
