"""The sentence vector is a plain mean over the padded length, so short documents are diluted by their padding."""

import torch
import torch.nn as nn

KIND = "attention-and-masks"


def reviews(n, seed, max_len=40):
    """Sentiment = share of positive words above one half, whatever the length."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, max_len + 1, (n,), generator=g)
    share = torch.rand(n, 1, generator=g)
    positive = torch.rand(n, max_len, generator=g) < share
    ids = torch.where(
        positive, torch.randint(1, 20, (n, max_len), generator=g), torch.randint(20, 40, (n, max_len), generator=g)
    )
    real = torch.arange(max_len) < lengths.unsqueeze(1)
    target = (positive & real).sum(1) / lengths
    return (ids * real, real.long()), target


class SentenceRegressor(nn.Module):
    def __init__(self, masked, dim=24):
        super().__init__()
        self.masked = masked
        self.embeddings = nn.Embedding(40, dim)
        self.dense = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 1)

    def pool(self, hidden, attention_mask):
        if not self.masked:
            return hidden.mean(dim=1)
        m = attention_mask.unsqueeze(-1).float()
        return (hidden * m).sum(1) / m.sum(1).clamp(min=1e-9)

    def forward(self, input_ids, attention_mask):
        hidden = torch.tanh(self.dense(self.embeddings(input_ids)))
        return self.out(self.pool(hidden, attention_mask)).squeeze(-1)


def _init(masked):
    torch.manual_seed(42)
    model = SentenceRegressor(masked)
    inputs, y = reviews(64, seed=0)
    return model, inputs, y, nn.MSELoss(), torch.optim.AdamW(model.parameters(), lr=5e-3)


def broken():
    return _init(masked=False)


def repaired():
    return _init(masked=True)


def _rmse(masked):
    model, _, _, loss_fn, optimizer = _init(masked)
    for step in range(300):
        inputs, y = reviews(64, seed=step + 1)
        optimizer.zero_grad()
        loss_fn(model(*inputs), y).backward()
        optimizer.step()
    inputs, y = reviews(1000, seed=12345)
    with torch.no_grad():
        return loss_fn(model(*inputs), y).sqrt().item()


def harm() -> tuple[float, float]:
    return _rmse(False), _rmse(True)
