"""Messages are summed per node with out[idx] += msg, which keeps only one of several messages to the same node."""

import torch
import torch.nn as nn

KIND = "indexing"
NODES, EDGES = 10, 30


def molecules(n, seed):
    """Random directed graphs; the target is the sum over nodes of a function of their incoming features."""
    g = torch.Generator().manual_seed(seed)
    feats = torch.randn(n, NODES, 4, generator=g)
    edges = torch.randint(0, NODES, (n, 2, EDGES), generator=g)
    rows = torch.arange(n).unsqueeze(1)
    incoming = torch.zeros(n, NODES)
    incoming.scatter_add_(1, edges[:, 1], feats[rows, edges[:, 0], 0])
    return (feats, edges), torch.tanh(incoming).sum(1, keepdim=True)


class GraphNet(nn.Module):
    def __init__(self, accumulate, dim=24):
        super().__init__()
        self.accumulate = accumulate
        self.message = nn.Linear(4, dim)
        self.update = nn.Sequential(nn.Linear(dim + 4, 32), nn.ReLU(), nn.Linear(32, 1))

    def aggregate(self, msg, index, size):
        out = msg.new_zeros(size, msg.size(-1))
        if self.accumulate:
            return out.index_add(0, index, msg)
        out[index] += msg
        return out

    def forward(self, feats, edges):
        n = len(feats)
        shift = torch.arange(n).unsqueeze(1) * NODES  # one big disconnected graph
        src, dst = (edges[:, 0] + shift).flatten(), (edges[:, 1] + shift).flatten()
        x = feats.flatten(0, 1)
        agg = self.aggregate(self.message(x)[src], dst, n * NODES)
        return self.update(torch.cat([x, agg], dim=1)).view(n, NODES).sum(1, keepdim=True)


def _gnn(accumulate):
    torch.manual_seed(0)
    model = GraphNet(accumulate)
    inputs, y = molecules(32, seed=0)
    return model, inputs, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return _gnn(accumulate=False)


def repaired():
    return _gnn(accumulate=True)


def _mse(accumulate):
    model, _, _, mse, opt = _gnn(accumulate)
    for step in range(300):
        inputs, y = molecules(32, seed=step + 1)
        opt.zero_grad()
        mse(model(*inputs), y).backward()
        opt.step()
    inputs, y = molecules(500, seed=15_151)
    with torch.no_grad():
        return mse(model(*inputs), y).item()


def harm() -> tuple[float, float]:
    return _mse(False), _mse(True)
