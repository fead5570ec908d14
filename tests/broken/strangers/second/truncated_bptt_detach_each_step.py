"""The state is detached at every time step (not once per chunk), so only the last step is ever taught."""

import torch
from torch import nn

KIND = "gradients"


class StepwiseGRU(nn.Module):
    def __init__(self, n_in, n_hidden, n_out, detach_each_step):
        super().__init__()
        self.cell = nn.GRUCell(n_in, n_hidden)
        self.out = nn.Linear(n_hidden, n_out)
        self.detach_each_step = detach_each_step

    def forward(self, chunk):
        state = chunk.new_zeros(chunk.size(0), self.cell.hidden_size)
        for x_t in chunk.unbind(dim=1):
            if self.detach_each_step:
                state = state.detach()
            state = self.cell(x_t, state)
        return self.out(state)


def recall_task(batch, seed, n_symbols=6, delay=8):
    """Show a symbol, then noise, then ask which symbol it was."""
    g = torch.Generator().manual_seed(seed)
    symbol = torch.randint(0, n_symbols, (batch,), generator=g)
    chunk = torch.zeros(batch, delay, n_symbols + 1)
    chunk[torch.arange(batch), 0, symbol] = 1.0
    chunk[:, 1:, n_symbols] = torch.randn(batch, delay - 1, generator=g) * 0.3
    return chunk, symbol


def build(detach_each_step):
    torch.manual_seed(4)
    model = StepwiseGRU(7, 12, 6, detach_each_step)
    x, y = recall_task(64, 0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-2)


def broken():
    return build(True)


def repaired():
    return build(False)


def harm() -> tuple[float, float]:
    losses = []
    for factory in (broken, repaired):
        model, _, _, ce, opt = factory()
        for i in range(200):
            x, y = recall_task(64, i)
            opt.zero_grad()
            ce(model(x), y).backward()
            opt.step()
        x, y = recall_task(500, 9999)
        losses.append(ce(model(x), y).item())
    return losses[0], losses[1]
