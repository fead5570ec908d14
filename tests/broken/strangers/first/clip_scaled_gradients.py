"""With a GradScaler the gradients are clipped before they are unscaled: the steps are thousands of times too small."""

import torch
import torch.nn as nn

KIND = "optimizer-and-loop"


def tokens(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 50, (n, 10), generator=g)
    return ids, ((ids < 10).sum(1) > (ids > 39).sum(1)).long()


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 32, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, ids):
        return self.mlp(self.bag(ids))


def amp_training(unscale_first):
    torch.manual_seed(0)
    model = BagOfWords()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    seen = [0]

    def step():
        seen[0] += 1
        ids, y = tokens(64, seed=seen[0])
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids)
        loss = criterion(logits.float(), y)
        scaler.scale(loss).backward()
        if unscale_first:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    ids, y = tokens(64, seed=1)
    return model, ids, y, step, optimizer


def broken():
    return amp_training(unscale_first=False)


def repaired():
    return amp_training(unscale_first=True)


def _error(make):
    model, _, _, step, _ = make()
    for _ in range(200):
        step()
    ids, y = tokens(1000, seed=66_666)
    with torch.no_grad():
        return nn.functional.cross_entropy(model(ids), y).item()


def harm() -> tuple[float, float]:
    return _error(broken), _error(repaired)
