"""Mixup shuffles images and labels with two different permutations, so that a mixture is named after other classes."""

# Reported as "Mixup returns different combinations for labels and images" (xudonmao/VMT).
import torch
from torch import nn

KIND = "data"

CENTRES = 0.7 * torch.randn(5, 12, generator=torch.Generator().manual_seed(7))


def points(seed, n=64):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 5, (n,), generator=g)
    return CENTRES[y] + torch.randn(n, 12, generator=g), nn.functional.one_hot(y, 5).float()


def patient(is_shared):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    x, y = points(0)
    lost = nn.CrossEntropyLoss()
    numbers = iter(range(1, 10**9))

    def step():
        number = next(numbers)
        a, b = points(number)
        g = torch.Generator().manual_seed(number)
        share = 0.3 * torch.rand(1, generator=g)
        order = torch.randperm(len(a), generator=g)
        other = order if is_shared else torch.randperm(len(a), generator=g)
        mixed = share * a + (1 - share) * a[order]
        wanted = share * b + (1 - share) * b[other]
        optimizer.zero_grad()
        value = lost(net(mixed), wanted)
        value.backward()
        optimizer.step()
        return value.detach()

    return net, x, y, step, optimizer


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = points(10**6, 500)
    wrong = []
    for setup in (broken, repaired):
        net, _, _, step, _ = setup()
        for _ in range(200):
            step()
        wrong.append((net(x).argmax(1) != y.argmax(1)).float().mean().item())
    return wrong[0], wrong[1]
