"""After pad_packed_sequence the classifier reads output[:, -1], which for all but the longest rows is zero padding."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KIND = "recurrence"


class TextLSTM(nn.Module):
    def __init__(self, take_last, vocab=25, emb=16, hidden=32):
        super().__init__()
        self.take_last = take_last
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 2)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(self.embedding(text), lengths, batch_first=True, enforce_sorted=False)
        packed_out, (hidden, _) = self.lstm(packed)
        output, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=text.size(1))
        features = output[:, -1, :] if self.take_last else hidden[-1]
        return self.fc(features)


def fake_reviews(n, seed):
    g = torch.Generator().manual_seed(seed)
    text = torch.randint(1, 25, (n, 15), generator=g)
    lengths = torch.randint(3, 16, (n,), generator=g)
    text[torch.arange(15) >= lengths[:, None]] = 0
    good = ((text >= 13).long().sum(1) - ((text > 0) & (text < 13)).long().sum(1)) > 0
    return (text, lengths), good.long()


def _get(take_last):
    torch.manual_seed(0)
    model = TextLSTM(take_last)
    x, y = fake_reviews(64, 0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _get(take_last=True)


def repaired():
    return _get(take_last=False)


def harm() -> tuple[float, float]:
    errs = []
    for get in (broken, repaired):
        model, _, _, crit, opt = get()
        for epoch in range(120):
            x, y = fake_reviews(64, 10 + epoch)
            opt.zero_grad()
            loss = crit(model(*x), y)
            loss.backward()
            opt.step()
        x, y = fake_reviews(500, 5)
        errs.append((model(*x).argmax(1) != y).float().mean().item())
    return errs[0], errs[1]
