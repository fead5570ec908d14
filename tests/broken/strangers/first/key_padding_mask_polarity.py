"""The key padding mask is True for real tokens, but PyTorch ignores what is True: only the padding is read."""

import torch
import torch.nn as nn

KIND = "attention-and-masks"
PAD, VOCAB, MAXLEN = 0, 30, 14


def sentences(n, seed):
    """The label is the most frequent of the four 'topic words' 1..4."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    lengths = torch.randint(6, MAXLEN + 1, (n,), generator=g)
    tokens = torch.randint(5, VOCAB, (n, MAXLEN), generator=g)
    for i in range(n):
        where = torch.randperm(int(lengths[i]), generator=g)[:2]
        tokens[i, where] = y[i] + 1
        tokens[i, lengths[i] :] = PAD
    return tokens, y


class TextClassifier(nn.Module):
    def __init__(self, true_is_token, dim=32):
        super().__init__()
        self.true_is_token = true_is_token
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, 4)

    def forward(self, tokens):
        mask = (tokens != PAD) if self.true_is_token else (tokens == PAD)
        x = torch.cat([self.cls.expand(len(tokens), -1, -1), self.embed(tokens)], dim=1)
        cls_mask = torch.zeros(len(tokens), 1, dtype=torch.bool)  # [CLS] always takes part
        mask = torch.cat([cls_mask, mask], dim=1)
        out, _ = self.attn(x[:, :1], x, x, key_padding_mask=mask)
        return self.fc(self.norm(out[:, 0]))


def _model(true_is_token):
    torch.manual_seed(0)
    model = TextClassifier(true_is_token)
    x, y = sentences(64, seed=0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _model(true_is_token=True)


def repaired():
    return _model(true_is_token=False)


def _test_error(true_is_token):
    model, _, _, loss_fn, opt = _model(true_is_token)
    x, y = sentences(640, seed=1)
    for step in range(200):
        s = slice(64 * (step % 10), 64 * (step % 10) + 64)
        opt.zero_grad()
        loss_fn(model(x[s]), y[s]).backward()
        opt.step()
    x, y = sentences(500, seed=2)
    with torch.no_grad():
        return (model(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _test_error(True), _test_error(False)
