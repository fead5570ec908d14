"""Logits are shifted against the wrong end of the labels: the model learns to name the token before, not the next."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "indexing"

VOCAB, LENGTH = 14, 15


class GRULanguageModel(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.lm_head = nn.Linear(d, VOCAB)

    def forward(self, input_ids):
        return self.lm_head(self.rnn(self.wte(input_ids))[0])


def causal_lm_loss(logits, labels):
    shift_logits = logits[:, :-1].reshape(-1, VOCAB)
    shift_labels = labels[:, 1:].reshape(-1)
    return F.cross_entropy(shift_logits, shift_labels)


def backward_lm_loss(logits, labels):
    shift_logits = logits[:, 1:].reshape(-1, VOCAB)
    shift_labels = labels[:, :-1].reshape(-1)
    return F.cross_entropy(shift_logits, shift_labels)


def corpus(n, seed):
    """A bigram language: each token has two likely followers."""
    g = torch.Generator().manual_seed(seed)
    follow = torch.randint(0, VOCAB, (VOCAB, 2), generator=torch.Generator().manual_seed(0))
    ids = torch.randint(0, VOCAB, (n, LENGTH), generator=g)
    for t in range(1, LENGTH):
        pick = (torch.rand(n, generator=g) < 0.1).long()
        ids[:, t] = follow[ids[:, t - 1], pick]
    return ids


def make(loss):
    torch.manual_seed(0)
    model = GRULanguageModel()
    ids = corpus(32, 0)
    return model, ids, ids, loss, torch.optim.AdamW(model.parameters(), lr=5e-3)


def broken():
    return make(backward_lm_loss)


def repaired():
    return make(causal_lm_loss)


def harm() -> tuple[float, float]:
    """Cross-entropy of the true next token on new text."""
    values = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(100):
            ids = corpus(32, 1 + i)
            opt.zero_grad()
            loss(model(ids), ids).backward()
            opt.step()
        ids = corpus(300, 55555)
        with torch.no_grad():
            values.append(causal_lm_loss(model(ids), ids).item())
    return values[0], values[1]
