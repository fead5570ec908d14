"""Support features ordered shot by shot are viewed as (way, shot, dim), so a prototype averages different classes."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "shapes-and-views"

WAY, SHOT, QUERY, DIM = 4, 5, 16, 10


class ProtoNet(nn.Module):
    """Snell et al. 2017. support (episodes, shot*way, d), query (episodes, q, d) -> logits (episodes, q, way)."""

    def __init__(self, way_first):
        super().__init__()
        self.way_first = way_first
        self.encoder = nn.Sequential(nn.Linear(DIM, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, support, query):
        z_support = self.encoder(support)
        z_query = self.encoder(query)
        e = support.size(0)
        if self.way_first:
            proto = z_support.view(e, WAY, SHOT, -1).mean(dim=2)
        else:
            proto = z_support.view(e, SHOT, WAY, -1).mean(dim=1)
        return -torch.cdist(z_query, proto).pow(2)


def episodes(n, seed):
    g = torch.Generator().manual_seed(seed)
    centre = torch.zeros(n, WAY, DIM)
    centre[..., :4] = 1.5 * torch.randn(n, WAY, 4, generator=g)
    # shot by shot: class 0, 1, 2, 3, 0, 1, 2, 3, ...
    support_class = torch.arange(WAY).repeat(SHOT)
    query_class = torch.randint(0, WAY, (n, QUERY), generator=g)
    support = centre[:, support_class] + torch.randn(n, SHOT * WAY, DIM, generator=g)
    rows = torch.arange(n)[:, None]
    query = centre[rows, query_class] + torch.randn(n, QUERY, DIM, generator=g)
    return (support, query), query_class


def proto_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def meta_setup(way_first):
    torch.manual_seed(5)
    net = ProtoNet(way_first)
    inputs, y = episodes(16, 0)
    return net, inputs, y, proto_loss, torch.optim.Adam(net.parameters(), lr=1e-3)


def broken():
    return meta_setup(way_first=True)


def repaired():
    return meta_setup(way_first=False)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        net, _, _, loss, opt = setup()
        for i in range(150):
            inputs, y = episodes(16, 1 + i)
            opt.zero_grad()
            loss(net(*inputs), y).backward()
            opt.step()
        inputs, y = episodes(100, 5000)
        with torch.no_grad():
            errors.append((net(*inputs).argmax(-1) != y).float().mean().item())
    return errors[0], errors[1]
