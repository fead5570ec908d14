"""h_n of a bidirectional LSTM, (2, batch, hidden), is flattened with view(batch, -1): rows get the states of others."""

import torch
import torch.nn as nn

KIND = "shapes-and-views"


class SentimentBiLSTM(nn.Module):
    def __init__(self, use_view, vocab_size=30, embed_dim=16, hidden_dim=24):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.lstm = nn.LSTM(embed_dim, hidden_dim, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(2 * hidden_dim, 1)
        self.use_view = use_view

    def forward(self, tokens):
        _, (h_n, _) = self.lstm(self.embedding(tokens))
        h = h_n if self.use_view else h_n.transpose(0, 1).contiguous()
        return self.linear(h.view(tokens.size(0), -1)).squeeze(1)


def get_tweets(n, seed):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 30, (n, 9), generator=g)
    value = torch.linspace(-1, 1, 30)
    return tokens, (value[tokens].sum(1) > 0).float()


def build(use_view):
    torch.manual_seed(33)
    model = SentimentBiLSTM(use_view)
    tokens, y = get_tweets(64, 0)
    return model, tokens, y, nn.BCEWithLogitsLoss(), torch.optim.Adam(model.parameters(), lr=1e-2)


def broken():
    return build(True)


def repaired():
    return build(False)


def harm() -> tuple[float, float]:
    error = []
    for setup in (broken, repaired):
        model, _, _, criterion, optimizer = setup()
        for epoch in range(120):
            tokens, y = get_tweets(64, 1 + epoch)
            optimizer.zero_grad()
            criterion(model(tokens), y).backward()
            optimizer.step()
        tokens, y = get_tweets(512, 2000)
        with torch.no_grad():
            error.append(((model(tokens) > 0).float() != y).float().mean().item())
    return error[0], error[1]
