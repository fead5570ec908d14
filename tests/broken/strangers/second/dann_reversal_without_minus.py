"""The gradient reversal layer scales by lambda but forgets the minus: the features learn to tell the domains apart."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "gradients"


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.lambd, None


class GradReverseNeg(GradReverse):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.lambd, None


class DANN(nn.Module):
    def __init__(self, reverse):
        super().__init__()
        self.reverse = reverse
        self.feature = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
        self.label_head = nn.Linear(8, 2)
        self.domain_head = nn.Linear(8, 2)

    def forward(self, x):
        z = self.feature(x)
        return self.label_head(z), self.domain_head(self.reverse.apply(z, 1.0))


def domains(n, seed):
    """Source rows (domain 0) and target rows (domain 1): the target is shifted along a few nuisance axes."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    domain = torch.arange(n) % 2
    label = (x[:, 0] + x[:, 1] > 0).long()
    x[:, 4:] += 1.5 * domain[:, None]
    return x, (label, domain)


def dann_loss(outputs, targets):
    (logits, domain_logits), (label, domain) = outputs, targets
    source = domain == 0
    return F.cross_entropy(logits[source], label[source]) + F.cross_entropy(domain_logits, domain)


def make(reverse):
    torch.manual_seed(6)
    model = DANN(reverse)
    x, y = domains(128, 0)
    return model, x, y, dann_loss, torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return make(GradReverse)


def repaired():
    return make(GradReverseNeg)


def harm() -> tuple[float, float]:
    """Does a small step along the features' domain gradient make the domains easier to tell apart? (1 yes, 0 no)"""
    answers = []
    for setup in (broken, repaired):
        model, x, (_, domain), *_ = setup()
        weights = list(model.feature.parameters())
        before = F.cross_entropy(model(x)[1], domain)
        grads = torch.autograd.grad(before, weights)
        with torch.no_grad():
            for w, g in zip(weights, grads, strict=True):
                w -= 0.01 * g
            answers.append(float(F.cross_entropy(model(x)[1], domain) < before))
    return answers[0], answers[1]
