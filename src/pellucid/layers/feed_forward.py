"""Feed-forward layers, activations by name, and the gain that keeps signals alive through many layers of each.

FeedForward             each position by itself, into four times the width, through ReLU², and back; no biases, adding
                        nothing at first: that of our own transformer
ActivatedFeedForward    any activation, with biases: with nn.ReLU() that of Vaswani et al. 2017, with nn.GELU() of GPT-2
GatedFeedForward        what passes is multiplied by a gate (Shazeer 2020): SwiGLU with nn.SiLU()
Hidden                  one hidden layer of an MLP: linear, norm, activation; output_head is the layer after the last

The gain: let a layer's pre-activations be Z ~ N(0, 1). The next layer reads f(Z), whose mean square E[f(Z)²] is not 1.
Weights drawn from N(0, gain² / fan_in) with gain = 1/√E[f(Z)²] bring the next pre-activations back to variance 1, and
so on up the stack (He et al. 2015, "Delving Deep into Rectifiers", equations 7 to 10, for ReLU; any other f by its own
integral). The layer that reads inputs of variance 1 itself has gain 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.errors import require_one_of
from pellucid.layers.norms import BatchNorm, Foldable, build_norm, fold_batch_norm

WIDER = 4
ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = MappingProxyType(
    {
        "tanh": nn.Tanh,
        "relu": nn.ReLU,
        "leaky_relu": nn.LeakyReLU,  # slope 0.01 below 0
        "gelu": nn.GELU,
        "sigmoid": nn.Sigmoid,
    }
)


def build_activation(name: str) -> nn.Module:
    """The module of this name.

    >>> build_activation("relu")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    require_one_of("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


@cache
def gain(name: str) -> float:
    """1/√E[f(Z)²] for Z ~ N(0, 1), by Gauss–Legendre quadrature on each side of 0, where some of them have their kink.

    >>> round(gain("relu") ** 2, 12)  # half of the numbers keep all of their square: E = 1/2
    2.0
    >>> round(1 / gain("tanh") ** 2, 4)
    0.3943
    """
    # Beyond 12 deviations the density is below 1e-31; 200 nodes a side leave no error that float64 could hold.
    nodes, parts = np.polynomial.legendre.leggauss(200)
    z = np.concatenate([6 * (nodes - 1), 6 * (nodes + 1)])
    density = np.concatenate([6 * parts, 6 * parts]) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    values = build_activation(name)(torch.from_numpy(z)).numpy()
    return float(1 / np.sqrt((values**2 * density).sum()))


def squared_relu(values: Tensor) -> Tensor:
    """0 below 0, and the square above: the activation of So and others (2021, "Primer").

    At the sizes here it learned faster than GELU, and it costs a third.

    >>> import torch
    >>> squared_relu(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([0., 0., 9.])
    """
    if torch.is_inference_mode_enabled():
        positive = values.relu()
        return positive.mul_(positive)  # one pass over new memory less
    if not (values.requires_grad and torch.is_grad_enabled()):
        return values.relu().square()
    squared: Tensor = _SquaredReLU.apply(values)  # type: ignore[no-untyped-call]  # torch gives it no types
    return squared


class _SquaredReLU(torch.autograd.Function):
    """The same with few passes over the numbers on the way back: a third of the time of relu and square."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        positive = values.relu()
        return positive.mul_(positive)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        values: Tensor = ctx.saved_tensors[0]
        if torch.is_grad_enabled():  # a slope of slopes is wanted, which does not go through what is written over
            return 2 * gradients[0] * values.relu()
        return values.relu().mul_(gradients[0]).mul_(2)


class SquaredReLU(nn.Module):
    """`squared_relu` as a module, so that it can be looked at while a network learns.

    >>> SquaredReLU()(torch.tensor([-2.0, 3.0]))
    tensor([0., 9.])
    """

    def forward(self, values: Tensor) -> Tensor:
        return squared_relu(values)


class FeedForward(nn.Module):
    """stream: (..., width) -> (..., width).

    The way back begins at zero: a new block adds nothing, and the network is as easy to train as a shallow one. Where
    nothing is added, because there is no residual connection, it has to begin otherwise.

    >>> import torch
    >>> FeedForward(8)(torch.ones(2, 3, 8)).abs().sum().item()
    0.0
    """

    def __init__(self, width: int, *, starts_silent: bool = True) -> None:
        super().__init__()
        self.expand = nn.Linear(width, WIDER * width, bias=False)
        self.activation: nn.Module = SquaredReLU()
        self.contract = nn.Linear(WIDER * width, width, bias=False)
        if starts_silent:
            nn.init.zeros_(self.contract.weight)

    def forward(self, stream: Tensor) -> Tensor:
        out: Tensor = self.contract(self.activation(self.expand(stream)))
        return out


class ActivatedFeedForward(nn.Module):
    """contract(build_activation(expand(stream))): (..., width) -> (..., width).

    >>> import torch
    >>> ActivatedFeedForward(8, nn.GELU())(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, activation: nn.Module, *, wider: int = WIDER, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, wider * width)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(wider * width, width)

    def forward(self, stream: Tensor) -> Tensor:
        out: Tensor = self.contract(self.dropout(self.activation(self.expand(stream))))
        return out


class GatedFeedForward(nn.Module):
    """contract(build_activation(gate(stream)) · expand(stream)): (..., width) -> (..., width).

    Three matrices where the others have two: at the same `wider` it has half as many numbers again.

    >>> import torch
    >>> GatedFeedForward(8, nn.SiLU())(torch.ones(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, activation: nn.Module, *, wider: int = WIDER, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, wider * width, bias=False)
        self.activation = activation
        self.expand = nn.Linear(width, wider * width, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(wider * width, width, bias=False)

    def forward(self, stream: Tensor) -> Tensor:
        out: Tensor = self.contract(self.dropout(self.activation(self.gate(stream)) * self.expand(stream)))
        return out


class Hidden(Foldable):
    """x: (..., inputs) -> (..., outputs).

    scale: the deviation that pre-activations have at first, for inputs of mean square 1. Over another layer's
    activations it is that activation's gain, which makes up for what the activation took.

    >>> Hidden(6, 4, norm="batch").linear.bias is None
    True
    """

    def __init__(
        self, inputs: int, outputs: int, scale: float = 1.0, function: str = "tanh", norm: str = "none", groups: int = 1
    ) -> None:
        super().__init__()
        # Batch norm takes the mean away, and a bias with it: it would never get a gradient.
        self.linear = nn.Linear(inputs, outputs, bias=norm != "batch")
        self.norm = build_norm(norm, outputs, groups)
        self.activation = build_activation(function)
        nn.init.normal_(self.linear.weight, std=scale * inputs**-0.5)
        if self.linear.bias is not None:
            nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.norm(self.linear(x)))
        return y

    def fold(self) -> None:
        if isinstance(self.norm, BatchNorm):
            self.linear, self.norm = fold_batch_norm(self.linear, self.norm), nn.Identity()


class NormalisedHead(Foldable):
    """The last linear layer with a batch norm behind it: x: (..., inputs) -> scores (..., vocab).

    The norm makes every score vary as much as its gain says, so that begins at a tenth, as `output_head` does. The
    linear layer has no bias: the norm would take it away.

    >>> _ = torch.manual_seed(0)
    >>> scores = NormalisedHead(100, vocab_size=27, scale=1.0)(torch.randn(1000, 100))
    >>> round(scores.std().item(), 2)
    0.1
    """

    def __init__(self, inputs: int, vocab_size: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, vocab_size, bias=False)
        self.norm: BatchNorm | nn.Identity = BatchNorm(vocab_size)
        nn.init.normal_(self.linear.weight, std=scale * inputs**-0.5)
        nn.init.constant_(self.norm.gain, 0.1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.norm(self.linear(x))
        return scores

    def fold(self) -> None:
        if isinstance(self.norm, BatchNorm):
            self.linear, self.norm = fold_batch_norm(self.linear, self.norm), nn.Identity()


def output_head(inputs: int, vocab_size: int, scale: float) -> nn.Linear:
    """The last linear layer, a tenth of the deviation that `scale` would give: no token is much likelier at first.

    So the first loss is ln |V| and hardly above it, and training need not begin by unlearning what chance drew.

    >>> _ = torch.manual_seed(0)
    >>> scores = output_head(100, vocab_size=27, scale=1.0)(torch.randn(1000, 100))
    >>> round(scores.std().item(), 2)
    0.1
    """
    linear = nn.Linear(inputs, vocab_size)
    nn.init.normal_(linear.weight, std=0.1 * scale * inputs**-0.5)
    nn.init.zeros_(linear.bias)
    return linear
