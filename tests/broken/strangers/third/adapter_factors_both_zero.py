"""The base model's initialiser runs after the adapters were added and zeroes both of their factors: none can move."""

# Reported as "fix lora initialization problem" (nvidia-cosmos/cosmos-predict2.5).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "gradients"


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def items(seed, n=64):
    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] + x[:, 1] > x[:, 2]).long()


def patient(is_zeroed):
    torch.manual_seed(0)
    net = nn.Sequential(Adapted(nn.Linear(8, 32)), nn.ReLU(), Adapted(nn.Linear(32, 2)))
    if is_zeroed:
        for part in net.modules():
            if isinstance(part, nn.Linear) and part.bias is None:
                nn.init.zeros_(part.weight)
    taught = [one for one in net.parameters() if one.requires_grad]
    return net, *items(0), nn.CrossEntropyLoss(), torch.optim.Adam(taught, lr=1e-2)


def broken():
    return patient(True)


def repaired():
    return patient(False)


def harm():
    x, y = items(10**6, 500)
    return harm_of((broken, repaired), 150, lambda net: (net(x).argmax(1) != y).float().mean(), items)
