"""Muon: momentum for matrices, where each update is replaced by the nearest matrix that turns and does not stretch.

A gradient's few strong directions would drown all others. Orthogonalised, every direction moves by as much. This is
done with matrix products alone: Newton–Schulz steps (Keller Jordan 2024, https://kellerjordan.github.io/posts/muon).
Each step has coefficients of its own, the best for what the steps before it have left (Amsel et al. 2025, "The Polar
Express"), and the matrix is scaled by the norm of its Gram matrix, which is nearer to its largest singular value than
its own norm is: so three steps do what five did. Where a compiler was there at install and the processor has AVX2, they
are made in C, with all of a step around them: half of each symmetric product, by vectors as long as the processor has
them.

Orthogonal is the matrix, not how far each unit moves: some rows of an update are longer than others, step after step.
They are levelled by the mean of their squares over the last steps, and the update keeps its norm (Li et al. 2025,
"NorMuon").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.training.optimizers import require_like

try:
    from pellucid.training import _orthogonalize
except ImportError:  # it was installed without a C compiler
    _orthogonalize = None  # type: ignore[assignment]

# Of X, X³ and X⁵ in each step: what brings all singular values from 0.01 to 1 nearest to 1, to between 0.7 and 1.3.
COEFFICIENTS = ((8.0934, -23.6205, 17.4462), (3.6366, -2.7219, 0.5365), (2.6613, -1.9772, 0.4526))
# At the peak learning rate, and where it has come down to nothing. Early steps need many gradients to agree on a way;
# late ones are small, and gradients of long ago, when the weights were others, lead them astray.
MOMENTUM, LAST_MOMENTUM = 0.95, 0.85
LEVELLING = 0.95  # of the mean of squares of rows, what is kept of the steps before
LEAST_SQUARE = 1e-12  # of a row that never moved, which levelling would divide by
LANES = 16  # of matrices that a whole step is made with in C, rows and columns are so many or a multiple
MOST_ROWS_COMPILED = 256  # of a matrix; with 512 torch's products, which are whole ones, were as fast


def orthogonalize(matrices: Tensor) -> Tensor:
    """matrices: (n, rows, columns), no more rows than columns -> the same shape, singular values near 1.

    >>> orthogonalize(torch.diag(torch.tensor([3.0, 0.5]))[None]).diagonal(dim1=1, dim2=2)[0].round(decimals=1)
    tensor([1.1000, 1.2000])
    """
    if not _is_compiled_for(matrices):
        return orthogonalize_by_torch(matrices)
    given = matrices.contiguous()
    made, coefficients = torch.empty_like(given), np.array(COEFFICIENTS, np.float32)
    _orthogonalize.orthogonalize(given.numpy(), made.numpy(), given.shape[1], given.shape[2], coefficients)
    return made


def _is_compiled_for(matrices: Tensor) -> bool:
    return (
        _orthogonalize is not None
        and matrices.device.type == "cpu"
        and matrices.dtype == torch.float32
        and 0 < matrices.shape[1] <= MOST_ROWS_COMPILED
        and _orthogonalize.is_supported()
    )


def orthogonalize_by_torch(matrices: Tensor) -> Tensor:
    """The same by torch's products.

    Each step is X ← aX + b(XXᵀ)X + c(XXᵀ)²X. For wide matrices the steps are made on the small side, on A = XXᵀ alone:
    X ← PX with P = a + bA + cA², so A ← PAP, and the product of all P is applied to X once, at the end.

    >>> orthogonalize_by_torch(torch.diag(torch.tensor([3.0, 0.5]))[None]).diagonal(dim1=1, dim2=2)[0].round(decimals=1)
    tensor([1.1000, 1.2000])
    """
    rows, columns = matrices.shape[1:]
    gram = torch.bmm(matrices, matrices.mT)
    norm = gram.flatten(1).norm(dim=1).clamp_min(1e-14)[:, None, None]
    gram /= norm
    if columns < 2 * rows:  # then the way on the small side is the longer one
        x: Tensor = matrices / norm.sqrt()
        for step, (a, b, c) in enumerate(COEFFICIENTS):
            gram = torch.bmm(x, x.mT) if step else gram
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        return x
    product = polynomial = torch.empty(0)
    for step, (a, b, c) in enumerate(COEFFICIENTS):
        gram = torch.bmm(torch.bmm(polynomial, gram), polynomial) if step else gram
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        polynomial.diagonal(dim1=1, dim2=2).add_(a)
        product = torch.bmm(polynomial, product) if step else polynomial / norm.sqrt()
    return torch.bmm(product, matrices)


def momentum_at(factor: float) -> float:
    """How much of the momentum is kept at this part of the peak learning rate.

    >>> [round(momentum_at(factor), 3) for factor in (1, 0.5, 0)]
    [0.95, 0.9, 0.85]
    """
    return LAST_MOMENTUM + (MOMENTUM - LAST_MOMENTUM) * factor


class MatrixStack(NamedTuple):
    """Parameters whose matrices have one shape, which are worked on together; tall ones lie on their sides."""

    names: list[str]
    counts: list[int]  # matrices of each of these parameters
    is_tall: bool
    momentum: Tensor  # (n, rows, columns), no more rows than columns
    squares: Tensor  # of the updates of each unit that a matrix feeds, their mean: (n, rows, 1) or (n, 1, columns)

    def by_parameter(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """The name of each, and its part of the momentum and of the squares."""
        parts = (torch.split(whole, self.counts) for whole in (self.momentum, self.squares))
        return zip(self.names, *parts, strict=True)


class Muon:
    """Muon for these parameters. One of three dimensions is a stack of matrices, each orthogonalised for itself."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], learning_rate: float, weight_decay: float = 0.0) -> None:
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.parameters = dict(parameters)
        alike: dict[tuple[int, ...], list[str]] = {}
        for name, parameter in self.parameters.items():
            alike.setdefault(tuple(parameter.shape[-2:]), []).append(name)
        self.stacks = [self._stack(names) for names in alike.values()]

    def _stack(self, names: list[str]) -> MatrixStack:
        zeros = [torch.zeros_like(_lay_down(self.parameters[name].detach())) for name in names]
        momentum = torch.cat(zeros).contiguous()
        is_tall = self.parameters[names[0]].shape[-2] > self.parameters[names[0]].shape[-1]
        squares = momentum[:, :1, :] if is_tall else momentum[:, :, :1]
        return MatrixStack(names, [len(one) for one in zeros], is_tall, momentum, squares.clone())

    @torch.no_grad()
    def step(self, factor: float) -> None:
        learning_rate = self.learning_rate * factor
        shrunk = 1 - learning_rate * self.weight_decay
        for stack in self.stacks:
            rows, columns = self.parameters[stack.names[0]].shape[-2:]
            rate = -learning_rate * max(1, rows / columns) ** 0.5
            if self._is_compiled_for(stack):
                self._step_in_c(stack, momentum_at(factor), shrunk, rate)
            else:
                self._step_in_torch(stack, momentum_at(factor), shrunk, rate)

    def _is_compiled_for(self, stack: MatrixStack) -> bool:
        is_whole = all(size % LANES == 0 for size in stack.momentum.shape[1:])
        return (
            is_whole
            and _is_compiled_for(stack.momentum)
            and all(parameter.is_contiguous() for parameter in self._parameters_of(stack))
        )

    def _parameters_of(self, stack: MatrixStack) -> list[nn.Parameter]:
        return [self.parameters[name] for name in stack.names]

    def _step_in_c(self, stack: MatrixStack, kept: float, shrunk: float, rate: float) -> None:
        """Each matrix from end to end, while it is in a near cache."""
        coefficients = np.array(COEFFICIENTS, np.float32)
        for name, momentum, squares in stack.by_parameter():
            parameter = self.parameters[name].detach()
            gradient = self.parameters[name].grad
            given = torch.zeros_like(parameter) if gradient is None else gradient.contiguous()
            _, rows, columns = momentum.shape
            _orthogonalize.step(
                given.numpy(),
                parameter.numpy(),
                momentum.numpy(),
                squares.numpy(),
                rows,
                columns,
                stack.is_tall,
                coefficients,
                kept,
                LEVELLING,
                LEAST_SQUARE,
                shrunk,
                rate,
            )

    def _step_in_torch(self, stack: MatrixStack, kept: float, shrunk: float, rate: float) -> None:
        parameters = self._parameters_of(stack)
        gradients = torch.cat([_lay_down(p.grad if p.grad is not None else torch.zeros_like(p)) for p in parameters])
        stack.momentum.lerp_(gradients, 1 - kept)
        # Nesterov's: a look ahead, along the momentum from the gradient.
        update = orthogonalize(torch.lerp(gradients, stack.momentum, kept))
        update = level_rows(update, stack.squares)
        upright = update.mT if stack.is_tall else update
        for parameter, piece in zip(parameters, torch.split(upright, stack.counts), strict=True):
            parameter.mul_(shrunk).add_(piece.reshape(parameter.shape), alpha=rate)

    def tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for stack in self.stacks:
            for name, momentum, squares in stack.by_parameter():
                found |= {f"{name}.momentum": momentum, f"{name}.squares": squares}
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            own.copy_(require_like(tensors, name, own))


def level_rows(update: Tensor, squares: Tensor) -> Tensor:
    """The update with each row by 1/√ of its usual square, and the norm of each matrix as it was: written over it.

    update: (n, rows, columns); squares: (n, rows, 1), or (n, 1, columns) where columns are levelled: what is usual, and
    is brought up to date here. It begins at zero, and so is too small at first, but by the same factor everywhere.

    >>> level_rows(torch.tensor([[[3.0, 3.0], [1.0, 1.0]]]), torch.zeros(1, 2, 1)).round(decimals=4)
    tensor([[[2.2361, 2.2361],
             [2.2361, 2.2361]]])
    """
    now = update.square().mean(-1 if squares.shape[-1] == 1 else -2, keepdim=True)
    squares.lerp_(now, 1 - LEVELLING)
    scale = squares.clamp_min(LEAST_SQUARE).rsqrt()
    kept = (
        now.sum((-2, -1), keepdim=True) / (now * scale.square()).sum((-2, -1), keepdim=True).clamp_min(1e-30)
    ).sqrt()
    return update.mul_(scale * kept)


def _lay_down(tensor: Tensor) -> Tensor:
    """A matrix or a stack of them as (n, rows, columns), on its side if it is tall."""
    stack = tensor.reshape(-1, *tensor.shape[-2:])
    return stack.mT if stack.shape[1] > stack.shape[2] else stack
