"""The masked autoencoder's loss is taken over the visible patches: it learns to copy, not to fill in."""

import torch
from torch import nn

KIND = "loss"

PATCHES, DIM = 12, 6


class TinyMAE(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.mask_token = nn.Parameter(torch.zeros(DIM))
        self.mix = nn.Sequential(
            nn.Linear(PATCHES * (DIM + 1), width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, PATCHES * DIM),
        )

    def forward(self, patches, mask):
        # mask: 0 is keep, 1 is remove
        m = mask.unsqueeze(-1)
        seen = patches * (1 - m) + self.mask_token * m
        return self.mix(torch.cat([seen, m], dim=-1).flatten(1)).view_as(patches)


def loss_on(mask_value):
    def forward_loss(pred, target):
        patches, mask = target
        loss = ((pred - patches) ** 2).mean(dim=-1)
        chosen = (mask == mask_value).float()
        return (loss * chosen).sum() / chosen.sum()

    return forward_loss


def images(n, seed):
    g = torch.Generator().manual_seed(seed)
    code = torch.randn(n, 3, generator=g)
    basis = torch.randn(3, PATCHES * DIM, generator=torch.Generator().manual_seed(1))
    patches = (code @ basis).view(n, PATCHES, DIM)
    noise = torch.rand(n, PATCHES, generator=g)
    mask = (noise.argsort(dim=1).argsort(dim=1) >= PATCHES // 3).float()
    return patches, mask


def pretrain(mask_value):
    torch.manual_seed(0)
    model = TinyMAE()
    patches, mask = images(64, 0)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    return model, (patches, mask), (patches, mask), loss_on(mask_value), opt


def broken():
    return pretrain(0)


def repaired():
    return pretrain(1)


def harm() -> tuple[float, float]:
    """Error on the removed patches of new images."""
    hidden_errors = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(500):
            batch = images(64, 1 + i)
            opt.zero_grad()
            loss(model(*batch), batch).backward()
            opt.step()
        batch = images(500, 9001)
        with torch.no_grad():
            hidden_errors.append(loss_on(1)(model(*batch), batch).item())
    return hidden_errors[0], hidden_errors[1]
