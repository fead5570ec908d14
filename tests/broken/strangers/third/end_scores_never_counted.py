"""The mask of last tags compares the wrong way and is never true: the CRF's end scores are no part of its loss."""

# Reported as "report bug in crf" (keras-team/keras-contrib).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "indexing"

TAGS = 4


class CRF(nn.Module):
    """Emissions and the scores of the mean path; tags are scored with their neighbours and at the end of a sentence."""

    def __init__(self, is_right):
        super().__init__()
        self.is_right = is_right
        self.emit = nn.Embedding(10, TAGS)
        self.end = nn.Parameter(torch.zeros(TAGS))

    def forward(self, tokens, mask):
        after = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
        is_last = (mask > after) if self.is_right else (after > mask)
        return self.emit(tokens) + is_last[..., None] * self.end


def loss(scores, wanted):
    tags, mask = wanted
    lost = nn.functional.cross_entropy(scores.transpose(1, 2), tags, reduction="none")
    return (lost * mask).sum() / mask.sum()


def sentences(seed, n=48, time=8):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 10, (n, time), generator=g)
    lengths = torch.randint(2, time + 1, (n, 1), generator=g)
    mask = (torch.arange(time) < lengths).float()
    tags = torch.where(torch.arange(time) == lengths - 1, 3, tokens % 3)
    return (tokens, mask), (tags, mask)


def patient(is_right):
    torch.manual_seed(0)
    net = CRF(is_right)
    return net, *sentences(0), loss, torch.optim.Adam(net.parameters(), lr=3e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = sentences(10**6, 300)
    lost = [loss(train(setup(), 200, sentences)(*x), y).item() for setup in (broken, repaired)]
    return lost[0], lost[1]
