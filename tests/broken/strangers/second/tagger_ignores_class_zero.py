"""ignore_index=0 was copied from a text tutorial, but here label 0 is a real class, which is never taught."""

import torch
from torch import nn

KIND = "loss"


class SpectrumTagger(nn.Module):
    """Frame-wise labels of an audio clip: 0 silence, 1 speech, 2 music, 3 noise."""

    def __init__(self, n_mels=12, n_tags=4):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv1d(32, 32, kernel_size=3, padding=1),
            nn.ReLU(),
        )
        self.tags = nn.Conv1d(32, n_tags, kernel_size=1)

    def forward(self, mel):
        return self.tags(self.conv(mel))


def clips(n, seed, frames=20):
    g = torch.Generator().manual_seed(seed)
    tags = torch.randint(0, 4, (n, frames // 4), generator=g).repeat_interleave(4, dim=1)
    shapes = torch.randn(4, 12, generator=torch.Generator().manual_seed(4))
    shapes[0] = 0
    mel = shapes[tags].transpose(1, 2) + 0.5 * torch.randn(n, 12, frames, generator=g)
    return mel, tags


def configure(ignore_index):
    torch.manual_seed(9)
    net = SpectrumTagger()
    mel, tags = clips(32, 0)
    return net, mel, tags, nn.CrossEntropyLoss(ignore_index=ignore_index), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return configure(ignore_index=0)


def repaired():
    return configure(ignore_index=-100)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        net, _, _, ce, opt = setup()
        for i in range(120):
            mel, tags = clips(32, 1 + i)
            opt.zero_grad()
            ce(net(mel), tags).backward()
            opt.step()
        mel, tags = clips(200, 2024)
        with torch.no_grad():
            errors.append((net(mel).argmax(1) != tags).float().mean().item())
    return errors[0], errors[1]
