"""The pretrained backbone is frozen by requires_grad alone; its BatchNorm statistics still follow the new data."""

import torch
from torch import nn

KIND = "normalisation-and-modes"


def backbone():
    return nn.Sequential(
        nn.Linear(10, 32),
        nn.BatchNorm1d(32, momentum=0.1),
        nn.ReLU(),
        nn.Linear(32, 32),
        nn.BatchNorm1d(32, momentum=0.1),
        nn.ReLU(),
    )


class TransferModel(nn.Module):
    def __init__(self, pretrained, keep_eval):
        super().__init__()
        self.backbone = pretrained
        self.new_head = nn.Linear(32, 2)
        self.keep_eval = keep_eval
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.train()

    def train(self, mode=True):
        super().train(mode)
        if self.keep_eval:
            self.backbone.eval()
        return self

    def forward(self, x):
        return self.new_head(self.backbone(x))


def pretrain():
    torch.manual_seed(0)
    body = backbone()
    for _ in range(50):  # statistics of the big first dataset
        body(torch.randn(64, 10))
    return body


def new_domain(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = 0.4 * torch.randn(n, 10, generator=g) + 1.5
    return x, (x[:, 0] > x[:, 1]).long()


def finetune(keep_eval):
    model = TransferModel(pretrain(), keep_eval)
    x, y = new_domain(64, 0)
    optimizer = torch.optim.Adam(model.new_head.parameters(), lr=1e-2)
    return model, x, y, nn.CrossEntropyLoss(), optimizer


def broken():
    return finetune(keep_eval=False)


def repaired():
    return finetune(keep_eval=True)


def harm() -> tuple[float, float]:
    """How far the "frozen" features of an old-domain batch have moved after training the new head."""
    old = torch.randn(200, 10, generator=torch.Generator().manual_seed(5))
    drift = []
    for setup in (broken, repaired):
        model, _, _, ce, opt = setup()
        model.eval()
        with torch.no_grad():
            before = model.backbone(old)
        model.train()
        for i in range(60):
            x, y = new_domain(64, 1 + i)
            opt.zero_grad()
            ce(model(x), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            drift.append((model.backbone(old) - before).abs().mean().item())
    return drift[0], drift[1]
