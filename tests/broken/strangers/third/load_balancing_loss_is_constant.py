"""The balance term sums the router's softmax over the axis it is normalised on, and is the same whatever it does."""

# Reported as "load_balancing_loss in mixtral model" (huggingface/transformers).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "loss"

EXPERTS = 4


class Mixture(nn.Module):
    """The best expert alone answers, weighted by its gate; one of them begins far ahead."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(6, 1) for _ in range(EXPERTS))
        with torch.no_grad():
            self.router.bias[0] += 2

    def forward(self, x):
        logits = self.router(x)
        gates = logits.softmax(-1)
        best = gates.argmax(-1, keepdim=True)
        answers = torch.cat([expert(x) for expert in self.experts], -1)
        return (answers * gates).gather(1, best).squeeze(-1), logits


def loss_with(is_per_expert):
    def loss(outputs, y):
        answers, logits = outputs
        gates = logits.softmax(-1)
        chosen = functional.one_hot(gates.argmax(-1), EXPERTS).float()
        if is_per_expert:
            balance = EXPERTS * (chosen.mean(0) * gates.mean(0)).sum()
        else:
            balance = EXPERTS * (chosen.mean(-1) * gates.mean(-1)).sum() / len(gates)
        return functional.mse_loss(answers, y) + balance

    return loss


def items(seed, n=128):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))
    return x, x[:, 0] * x[:, 1].sign() + 0.5 * x[:, 2].abs()


def patient(is_per_expert):
    torch.manual_seed(0)
    net = Mixture()
    return net, *items(0), loss_with(is_per_expert), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    """The share of the busiest expert."""
    x, _ = items(10**6, 1000)
    busiest = []
    for setup in (broken, repaired):
        _, logits = train(setup(), 200, items)(x)
        busiest.append(functional.one_hot(logits.argmax(-1), EXPERTS).float().mean(0).max().item())
    return busiest[0], busiest[1]
