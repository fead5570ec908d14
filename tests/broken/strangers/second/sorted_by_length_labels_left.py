"""collate_fn sorts the sequences by length for packing but returns the labels in the old order."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

KIND = "data"


def raw_samples(n, seed):
    g = torch.Generator().manual_seed(seed)
    samples = []
    for _ in range(n):
        length = int(torch.randint(2, 12, (1,), generator=g))
        drift = 1.0 if torch.rand(1, generator=g) < 0.5 else -1.0
        walk = 0.4 * drift + torch.randn(length, 3, generator=g) * 0.5
        samples.append((walk, int(drift > 0)))
    return samples


def collate(samples, sort_labels):
    sequences = [s for s, _ in samples]
    labels = torch.tensor([label for _, label in samples])
    lengths = torch.tensor([len(s) for s in sequences])
    lengths, order = lengths.sort(descending=True)
    padded = pad_sequence([sequences[i] for i in order.tolist()], batch_first=True)
    if sort_labels:
        labels = labels[order]
    return (padded, lengths), labels


class PackedGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 24, batch_first=True)
        self.fc = nn.Linear(24, 2)

    def forward(self, padded, lengths):
        packed = pack_padded_sequence(padded, lengths, batch_first=True)
        _, h = self.gru(packed)
        return self.fc(h[-1])


def trainer(sort_labels):
    torch.manual_seed(2)
    model = PackedGRU()
    batch, labels = collate(raw_samples(64, 0), sort_labels)
    return model, batch, labels, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-2)


def broken():
    return trainer(sort_labels=False)


def repaired():
    return trainer(sort_labels=True)


def harm() -> tuple[float, float]:
    errors = []
    for setup, sort_labels in ((broken, False), (repaired, True)):
        model, _, _, ce, opt = setup()
        for i in range(60):
            batch, labels = collate(raw_samples(64, 1 + i), sort_labels)
            opt.zero_grad()
            ce(model(*batch), labels).backward()
            opt.step()
        batch, labels = collate(raw_samples(400, 777), True)
        with torch.no_grad():
            errors.append((model(*batch).argmax(1) != labels).float().mean().item())
    return errors[0], errors[1]
