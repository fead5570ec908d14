"""The tagger's labels are padded with 0 (tag 'O') while the loss ignores -100: most of the loss is about padding."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

KIND = "indexing"
TAGS = 4


def tagged(n, seed):
    """Words 1..40; the tag depends on the word and on the word before it. Most sentences are short."""
    g = torch.Generator().manual_seed(seed)
    words, tags = [], []
    for i in range(n):
        size = 60 if i == 0 else int(torch.randint(3, 7, (1,), generator=g))
        w = torch.randint(1, 41, (size,), generator=g)
        prev = torch.cat([torch.zeros(1, dtype=torch.long), w[:-1]])
        words.append(w)
        tags.append((w % 3 + (prev > 20)) % TAGS)
    return words, tags


def batch(words, tags, pad_tag):
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=pad_tag)


class Tagger(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        # no padding_idx: the padding token has a vector like any other
        self.emb = nn.Embedding(41, dim)
        self.conv = nn.Conv1d(dim, 32, 3, padding=1)
        self.out = nn.Linear(32, TAGS)

    def forward(self, words):
        h = torch.relu(self.conv(self.emb(words).transpose(1, 2)))
        return self.out(h.transpose(1, 2))


def tag_loss(logits, tags):
    return nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)


def _tagger(pad_tag):
    torch.manual_seed(0)
    model = Tagger()
    x, y = batch(*tagged(32, seed=0), pad_tag)
    return model, x, y, tag_loss, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)


def broken():
    return _tagger(pad_tag=0)


def repaired():
    return _tagger(pad_tag=-100)


def tag_error(pad_tag):
    model, _, _, loss, opt = _tagger(pad_tag)
    data = [tagged(32, seed=k + 1) for k in range(10)]
    for step in range(120):
        x, y = batch(*data[step % 10], pad_tag)
        opt.zero_grad()
        loss(model(x), y).backward()
        opt.step()
    x, y = batch(*tagged(200, seed=16_161), -100)
    real = y >= 0
    with torch.no_grad():
        return (model(x).argmax(-1)[real] != y[real]).float().mean().item()


def harm() -> tuple[float, float]:
    return tag_error(0), tag_error(-100)
