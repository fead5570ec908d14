"""Letters are numbered from 0 while CTCLoss uses 0 as its blank, so the first letter can never be written."""

import torch
import torch.nn as nn

KIND = "indexing"
LETTERS, FRAMES, WORD = 5, 12, 3


def speech(n, seed):
    """Each letter sounds for four frames, in the order of the word."""
    g = torch.Generator().manual_seed(seed)
    word = torch.randint(0, LETTERS, (n, WORD), generator=g)
    for t in range(1, WORD):  # no doubled letters
        clash = word[:, t] == word[:, t - 1]
        word[:, t] = torch.where(clash, (word[:, t] + 1) % LETTERS, word[:, t])
    sound = torch.eye(LETTERS).repeat(1, 2)[word].repeat_interleave(FRAMES // WORD, dim=1)
    return sound + 0.3 * torch.randn(n, FRAMES, 2 * LETTERS, generator=g), word


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2 * LETTERS, 32, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(64, LETTERS + 1)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.fc(out).log_softmax(-1)


ctc = nn.CTCLoss(blank=0, zero_infinity=True)


def ctc_loss(log_probs, labels):
    n = len(labels)
    lengths = torch.full((n,), FRAMES), torch.full((n,), WORD)
    return ctc(log_probs.transpose(0, 1), labels, *lengths)


def _asr(offset):
    torch.manual_seed(0)
    model = Acoustic()
    x, word = speech(48, seed=0)
    return model, x, word + offset, ctc_loss, torch.optim.Adam(model.parameters(), lr=1e-2)


def broken():
    return _asr(offset=0)


def repaired():
    return _asr(offset=1)


def word_error(offset):
    model, _, _, loss, opt = _asr(offset)
    for step in range(120):
        x, word = speech(48, seed=step + 1)
        opt.zero_grad()
        loss(model(x), word + offset).backward()
        opt.step()
    x, word = speech(200, seed=13_131)
    with torch.no_grad():
        best = model(x).argmax(-1)
    wrong = 0
    for path, truth in zip(best, word + offset, strict=True):
        collapsed = torch.unique_consecutive(path)
        wrong += collapsed[collapsed != 0].tolist() != truth.tolist()
    return wrong / 200


def harm() -> tuple[float, float]:
    return word_error(0), word_error(1)
