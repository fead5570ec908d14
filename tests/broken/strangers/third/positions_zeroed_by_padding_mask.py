"""Positions are multiplied by the padding mask, which is true on padding: they are zero on all that counts."""

# Reported as "Severe BUG: `pos` is unexpectedly all zero" (speechbrain).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "attention-and-masks"


class Durations(nn.Module):
    """Says for each phoneme whether it stands in the first half of its utterance."""

    def __init__(self, is_inverted, n_tokens=12, width=24, longest=12):
        super().__init__()
        self.is_inverted = is_inverted
        self.embed = nn.Embedding(n_tokens, width, padding_idx=0)
        self.positions = nn.Parameter(0.5 * torch.randn(longest, width))
        layer = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        is_padding = tokens == 0
        mask = ~is_padding if self.is_inverted else is_padding
        x = self.embed(tokens) + self.positions[: tokens.shape[1]] * mask[..., None]
        return self.out(self.encoder(x, src_key_padding_mask=is_padding)).squeeze(-1)


def utterances(seed, n=64, longest=12):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, longest + 1, (n, 1), generator=g)
    at = torch.arange(longest)
    tokens = torch.randint(1, 12, (n, longest), generator=g) * (at < lengths)
    return tokens, torch.where(at < lengths, (at < lengths / 2).float(), -1.0)


def loss(logits, wanted):
    counts = wanted >= 0
    return nn.functional.binary_cross_entropy_with_logits(logits[counts], wanted[counts])


def patient(is_inverted):
    torch.manual_seed(0)
    net = Durations(is_inverted)
    return net, *utterances(0), loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = utterances(10**6, 400)
    return harm_of((broken, repaired), 150, lambda net: loss(net(x), y).detach(), utterances)
