"""The classifier head is replaced after the optimizer was built, so the discarded one is trained."""

import torch
from torch import nn

KIND = "optimizer-and-loop"


class Backbone(nn.Module):
    """Stands in for a ResNet with its 1000-class fc."""

    def __init__(self, n_out=50):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.fc = nn.Linear(16, n_out)

    def forward(self, x):
        return self.fc(self.features(x))


def flowers(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 6, generator=torch.Generator().manual_seed(14))
    return x, (x @ w).argmax(1)


def finetune(head_first):
    torch.manual_seed(0)
    model = Backbone()
    new_head = nn.Linear(16, 6)
    nn.init.normal_(new_head.weight, std=0.02)
    if head_first:
        model.fc = new_head
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model.fc = new_head
    x, y = flowers(64, 0)
    return model, x, y, nn.CrossEntropyLoss(), optimizer


def broken():
    return finetune(head_first=False)


def repaired():
    return finetune(head_first=True)


def harm() -> tuple[float, float]:
    """Held-out loss after a short fine-tuning."""
    losses = []
    for setup in (broken, repaired):
        model, _, _, criterion, optimizer = setup()
        for i in range(60):
            x, y = flowers(64, 1 + i)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        x, y = flowers(1000, 818)
        with torch.no_grad():
            losses.append(criterion(model(x), y).item())
    return losses[0], losses[1]
