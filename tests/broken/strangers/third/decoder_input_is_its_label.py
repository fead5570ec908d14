"""The decoder's input and the labels were aligned alike, so that the model copies its input and learns nothing."""

# Reported as "Fix bugs in pre-training" (ayaka14732/bart-base-jax).
import torch
from torch import nn

KIND = "indexing"


class Decoder(nn.Module):
    def __init__(self, vocab=12, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.source = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, source, before):
        state = self.source(source).mean(1)[None]
        return self.out(self.gru(self.embed(before), state.contiguous())[0]).transpose(1, 2)


def texts(seed, is_shifted, n=48, time=8):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 11, (n, 1), generator=g)
    words = 1 + (start + 2 * torch.arange(time)) % 11
    before = torch.cat([torch.zeros(n, 1, dtype=torch.long), words[:, :-1]], 1) if is_shifted else words
    return (words[:, :1], before), words


def patient(is_shifted):
    torch.manual_seed(0)
    net = Decoder()
    return net, *texts(0, is_shifted), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """How often the next word is wrong when only those before it are known."""
    x, y = texts(10**6, True, 300)
    wrong = []
    for setup, is_shifted in ((broken, False), (repaired, True)):
        net, _, _, loss, optimizer = setup()
        for i in range(150):
            inputs, wanted = texts(1 + i, is_shifted)
            optimizer.zero_grad()
            loss(net(*inputs), wanted).backward()
            optimizer.step()
        wrong.append((net(*x).argmax(1) != y).float().mean().item())
    return wrong[0], wrong[1]
