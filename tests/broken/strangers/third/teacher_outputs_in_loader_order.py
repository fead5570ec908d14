"""The teacher's answers were stored in the order of an earlier epoch and meet other images when the set is shuffled."""

# Reported as "Fix bug about teacher output" (haitongli/knowledge-distillation-pytorch).
import torch
from torch import nn
from torch.nn import functional

KIND = "data"

CENTRES = 0.8 * torch.randn(6, 16, generator=torch.Generator().manual_seed(9))


def points(seed, n=192):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 6, (n,), generator=g)
    return CENTRES[y] + torch.randn(n, 16, generator=g), y


def teach(x):
    """A teacher that knows the centres."""
    return -torch.cdist(x, CENTRES).square() / 2


def patient(is_looked_up):
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    x, y = points(0)
    stored = teach(x)
    orders = torch.Generator().manual_seed(1)

    def epoch():
        order = torch.randperm(len(x), generator=orders)
        for at, chosen in enumerate(order.split(64)):
            kept = stored[chosen] if is_looked_up else stored[64 * at : 64 * at + 64]
            logits = student(x[chosen])
            soft = functional.kl_div((logits / 2).log_softmax(-1), (kept / 2).softmax(-1), reduction="batchmean")
            value = 4 * 0.9 * soft + 0.1 * functional.cross_entropy(logits, y[chosen])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        return value.detach()

    return student, x, y, epoch, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = points(10**6, 500)
    losses = []
    for setup in (broken, repaired):
        net, _, _, epoch, _ = setup()
        for _ in range(60):
            epoch()
        losses.append(functional.cross_entropy(net(x), y).item())
    return losses[0], losses[1]
