"""Muon: momentum for matrices, where each update is replaced by the nearest matrix that turns and does not stretch.

A gradient's few strong directions would drown all others. Orthogonalised, every direction moves by as much. This is
done with matrix products alone: Newton–Schulz steps, with the coefficients of Keller Jordan (2024), which do not end
at exactly 1 but bring every singular value near it fast (https://kellerjordan.github.io/posts/muon).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pellucid.training.optimizers import require_like

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
MOMENTUM = 0.95


def orthogonalize(matrices: Tensor, steps: int = STEPS) -> Tensor:
    """matrices: (n, rows, columns), no more rows than columns -> the same shape, singular values near 1.

    Each step is X ← aX + b(XXᵀ)X + c(XXᵀ)²X. For wide matrices the steps are made on the small side, on A = XXᵀ alone:
    X ← PX with P = a + bA + cA², so A ← PAP, and the product of all P is applied to X once, at the end.

    >>> orthogonalize(torch.diag(torch.tensor([3.0, 0.5]))[None]).diagonal(dim1=1, dim2=2)[0].round(decimals=1)
    tensor([0.7000, 1.0000])
    """
    a, b, c = COEFFICIENTS
    rows, columns = matrices.shape[1:]
    x: Tensor = matrices / matrices.flatten(1).norm(dim=1).clamp_min(1e-7)[:, None, None]
    if columns < 2 * rows:  # then the way on the small side is the longer one
        for _ in range(steps):
            gram = torch.bmm(x, x.mT)
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x
    gram, product = torch.bmm(x, x.mT), None
    for step in range(steps):
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal(dim1=1, dim2=2).add_(a)
        product = polynomial if product is None else torch.bmm(polynomial, product)
        if step < steps - 1:
            gram = torch.bmm(torch.bmm(polynomial, gram), polynomial)
    return x if product is None else torch.bmm(product, x)


class Muon:
    """Muon for these parameters. One of three dimensions is a stack of matrices, each orthogonalised for itself.

    Matrices of one shape are worked on together; a tall one lies on its side.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], learning_rate: float, weight_decay: float = 0.0) -> None:
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.parameters = dict(parameters)
        self.momenta = {name: torch.zeros_like(_lay_down(parameter.detach())) for name, parameter in parameters.items()}
        self.stacks: dict[torch.Size, list[str]] = {}
        for name, momentum in self.momenta.items():
            self.stacks.setdefault(momentum.shape[1:], []).append(name)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        learning_rate = self.learning_rate * factor
        for names in self.stacks.values():
            parameters = [self.parameters[name] for name in names]
            momenta = [self.momenta[name] for name in names]
            gradients = [_lay_down(p.grad if p.grad is not None else torch.zeros_like(p)) for p in parameters]
            for momentum, gradient in zip(momenta, gradients, strict=True):
                momentum.lerp_(gradient, 1 - MOMENTUM)
            # Nesterov's: a look ahead, along the momentum from the gradient.
            ahead = torch.lerp(torch.cat(gradients), torch.cat(momenta), MOMENTUM)
            updates = torch.split(orthogonalize(ahead), [len(momentum) for momentum in momenta])
            for parameter, update in zip(parameters, updates, strict=True):
                rows, columns = parameter.shape[-2:]
                if self.weight_decay:
                    parameter.mul_(1 - learning_rate * self.weight_decay)
                upright = (update.mT if rows > columns else update).reshape(parameter.shape)
                parameter.add_(upright, alpha=-learning_rate * max(1, rows / columns) ** 0.5)

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}.momentum": momentum for name, momentum in self.momenta.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, momentum in self.momenta.items():
            momentum.copy_(require_like(tensors, f"{name}.momentum", momentum))


def _lay_down(tensor: Tensor) -> Tensor:
    """A matrix or a stack of them as (n, rows, columns), on its side if it is tall."""
    stack = tensor.reshape(-1, *tensor.shape[-2:])
    return stack.mT if stack.shape[1] > stack.shape[2] else stack
