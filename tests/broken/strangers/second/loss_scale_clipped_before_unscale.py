"""Gradients are clipped while still multiplied by the loss scale, so after unscaling the update is next to nothing."""

import torch
from torch import nn

KIND = "optimizer-and-loop"


class LossScaler:
    """Static loss scaling in the manner of apex."""

    def __init__(self, scale=2.0**12):
        self.scale = scale

    def unscale_(self, parameters):
        for p in parameters:
            if p.grad is not None:
                p.grad.div_(self.scale)


class CharRNN(nn.Module):
    def __init__(self, vocab=9, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.rnn = nn.GRU(16, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.fc(h).transpose(1, 2)


def text(n, seed, length=12):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 9, (n, 1), generator=g)
    stride = torch.randint(1, 4, (n, 1), generator=g)
    seq = (start + stride * torch.arange(length + 1)) % 9
    return seq[:, :-1], seq[:, 1:]


def fit(clip_scaled):
    torch.manual_seed(4)
    model = CharRNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = LossScaler()
    criterion = nn.CrossEntropyLoss()
    inputs, targets = text(32, 0)
    progress = {"seed": 0}

    def step():
        x, y = text(32, progress["seed"])
        progress["seed"] += 1
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        (loss * scaler.scale).backward()
        if clip_scaled:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            scaler.unscale_(model.parameters())
        else:
            scaler.unscale_(model.parameters())
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        optimizer.step()
        return loss.detach()

    return model, inputs, targets, step, optimizer


def broken():
    return fit(clip_scaled=True)


def repaired():
    return fit(clip_scaled=False)


def harm() -> tuple[float, float]:
    losses = []
    x, y = text(300, 10**6)
    for setup in (broken, repaired):
        model, _, _, step, _ = setup()
        for _ in range(80):
            step()
        with torch.no_grad():
            losses.append(nn.functional.cross_entropy(model(x), y).item())
    return losses[0], losses[1]
