"""The decoder loop passes the encoder's state at every step, so the decoder never knows how far it has come."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "recurrence"

SOS, DIGITS, LENGTH = 0, 8, 6


class EncoderRNN(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(DIGITS, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class DecoderRNN(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(DIGITS, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, DIGITS)

    def forward(self, token, hidden):
        output, hidden = self.gru(F.relu(self.embedding(token)), hidden)
        return self.out(output), hidden


class Seq2Seq(nn.Module):
    def __init__(self, carry, hidden_size=48):
        super().__init__()
        self.carry = carry
        self.encoder = EncoderRNN(hidden_size)
        self.decoder = DecoderRNN(hidden_size)

    def forward(self, source, target):
        _, encoder_hidden = self.encoder(source)
        decoder_hidden = encoder_hidden
        token = torch.full((source.size(0), 1), SOS)
        steps = []
        for t in range(target.size(1)):
            if self.carry:
                logits, decoder_hidden = self.decoder(token, decoder_hidden)
            else:
                logits, _ = self.decoder(token, encoder_hidden)
            steps.append(logits)
            token = target[:, t : t + 1]  # teacher forcing
        return torch.cat(steps, dim=1)


def pairs(n, seed):
    """Source: digits. Target: the same digits, sorted."""
    g = torch.Generator().manual_seed(seed)
    source = torch.randint(1, DIGITS, (n, LENGTH), generator=g)
    return source, source.sort(dim=1).values


def criterion(logits, target):
    return F.cross_entropy(logits.transpose(1, 2), target)


def start(carry):
    torch.manual_seed(8)
    model = Seq2Seq(carry)
    source, target = pairs(64, 8)
    return model, (source, target), target, criterion, torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return start(carry=False)


def repaired():
    return start(carry=True)


def harm() -> tuple[float, float]:
    result = []
    for setup in (broken, repaired):
        model, _, _, crit, opt = setup()
        for i in range(200):
            source, target = pairs(64, 100 + i)
            opt.zero_grad()
            crit(model(source, target), target).backward()
            opt.step()
        source, target = pairs(300, 9)
        with torch.no_grad():
            result.append((model(source, target).argmax(-1) != target).float().mean().item())
    return result[0], result[1]
