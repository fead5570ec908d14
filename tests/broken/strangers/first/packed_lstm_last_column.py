"""After unpacking, the classifier reads column -1, which is zero padding for every sequence but the longest."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KIND = "recurrence"


def names(n, seed, max_len=12):
    """Names of different length; the origin is in the last letters."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, max_len + 1, (n,), generator=g)
    lengths[0] = max_len
    letters = torch.randint(1, 27, (n, max_len), generator=g)
    y = torch.randint(0, 3, (n,), generator=g)
    for i, k in enumerate(lengths.tolist()):
        letters[i, k - 2 : k] = torch.tensor([[1, 14], [15, 22], [5, 26]])[y[i]]
        letters[i, k:] = 0
    return (letters, lengths), y


class NameRNN(nn.Module):
    def __init__(self, last_column, hidden=32):
        super().__init__()
        self.last_column = last_column
        self.emb = nn.Embedding(27, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 3)

    def forward(self, letters, lengths):
        packed = pack_padded_sequence(self.emb(letters), lengths, batch_first=True, enforce_sorted=False)
        packed_out, (h_n, _) = self.lstm(packed)
        out, _ = pad_packed_sequence(packed_out, batch_first=True)
        last = out[:, -1] if self.last_column else h_n[-1]
        return self.fc(last)


def _new(last_column):
    torch.manual_seed(0)
    rnn = NameRNN(last_column)
    inputs, y = names(64, seed=0)
    return rnn, inputs, y, nn.CrossEntropyLoss(), torch.optim.Adam(rnn.parameters(), lr=1e-2)


def broken():
    return _new(last_column=True)


def repaired():
    return _new(last_column=False)


def _error(last_column):
    rnn, _, _, ce, opt = _new(last_column)
    for step in range(100):
        inputs, y = names(64, seed=step + 1)
        opt.zero_grad()
        ce(rnn(*inputs), y).backward()
        opt.step()
    inputs, y = names(500, seed=4321)
    with torch.no_grad():
        return (rnn(*inputs).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(True), _error(False)
