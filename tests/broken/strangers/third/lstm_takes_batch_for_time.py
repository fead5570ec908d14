"""nn.LSTM is given (batch, time, features) without batch_first and runs through the examples of the batch as time."""

# Reported as "Possible bug in DecoderRNN class" (HHTseng/video-classification).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "recurrence"


class Clips(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.frame = nn.Linear(6, 16)
        self.lstm = nn.LSTM(16, 24, batch_first=batch_first)
        self.out = nn.Linear(24, 3)

    def forward(self, frames):
        return self.out(self.lstm(torch.relu(self.frame(frames)))[0][:, -1])


def clips(seed, n=48, time=8):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, time, 6, generator=g)
    return x, x[..., :3].mean(1).argmax(-1)


def patient(batch_first):
    torch.manual_seed(0)
    net = Clips(batch_first)
    return net, *clips(0), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = clips(10**6, 400)
    return harm_of((broken, repaired), 250, lambda net: (net(x).argmax(1) != y).float().mean(), clips)
