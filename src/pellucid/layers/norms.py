"""Normalisation of features, and batch norm folded away before inference.

    batch      each feature to mean 0 and variance 1 over all rows of the batch; the only one where rows meet
    layer      each row alone, over all of its features
    rms        each row alone, to root mean square 1; its mean stays where it is, and there is no bias
    group      each row alone, over each of several groups of its features
    instance   each row alone, its features read as channels of several places, over the places of each channel

All take (..., features), and a row is one vector of features: the norms of single rows see neither the batch nor the
time, so that nothing peeks ahead. After it each feature is stretched by a learned gain and moved by a learned bias.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

NORMS = ("none", "batch", "layer", "rms", "group", "instance")
EPSILON = 1e-5  # added to variances, so that a constant feature becomes 0 and not 0/0


class BatchNorm(nn.Module):
    """Ioffe and Szegedy 2015: gain · (x - mean) / √(variance + ε) + bias, each feature over all rows of the batch.

    x: (..., features) -> the same. In training mean and variance are the batch's own, and running averages of them are
    kept on the side (of the variance its unbiased estimate, n / (n - 1) times the batch's); in eval mode the running
    ones are used, so that even a single row has an answer.

    >>> norm = BatchNorm(3)
    >>> norm(torch.tensor([[1.0, 0.0, 5.0], [3.0, 0.0, -5.0]])).round(decimals=2)
    tensor([[-1.,  0.,  1.],
            [ 1.,  0., -1.]], grad_fn=<RoundBackward1>)
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, features: int, momentum: float = 0.1, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.momentum = momentum  # the share of the newest batch in the running averages
        self.epsilon = epsilon
        self.is_shared = False  # the rows of a batch are held by several processes
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_variance", torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self.training and self.is_shared:
            return self._level_over_processes(rows).view_as(x)
        # Torch's kernel does it all in one pass, forward and back: a third of the time of the formula written out. A
        # single row varies in nothing, and so has no statistics of its own to lend: the running ones serve.
        is_own = self.training and len(rows) > 1
        level = functional.batch_norm(
            rows,
            self.running_mean,
            self.running_variance,
            self.gain,
            self.bias,
            training=is_own,
            momentum=self.momentum,
            eps=self.epsilon,
        )
        return level.view_as(x)

    def _level_over_processes(self, rows: Tensor) -> Tensor:
        """The same written out, with the mean and the variance over the rows of all processes."""
        count = _sum_over_processes(rows.new_tensor([float(len(rows))]))
        mean = _sum_over_processes(rows.sum(0)) / count
        variance = _sum_over_processes(((rows - mean) ** 2).sum(0)) / count
        with torch.no_grad():
            unbiased = variance * count / (count - 1).clamp_min(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(unbiased, self.momentum)
        return (rows - mean) * (variance + self.epsilon).rsqrt() * self.gain + self.bias


class _SumOverProcesses(torch.autograd.Function):
    """The sum of what every process holds. Each has a part in every other's loss: gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(total)
        return total


def _sum_over_processes(tensor: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(tensor)  # type: ignore[no-untyped-call]  # torch gives it no types
    return total


class RMSNorm(nn.Module):
    """Zhang and Sennrich 2019: gain · x / √(mean of x² + ε), over the features of each row. x: (..., features) -> same.

    >>> RMSNorm(2)(torch.tensor([[3.0, 3.0], [1.0, -7.0]])).round(decimals=2)
    tensor([[ 1.0000,  1.0000],
            [ 0.2000, -1.4000]], grad_fn=<RoundBackward1>)
    """

    def __init__(self, features: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.gain = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], self.gain, self.epsilon)


class GroupNorm(nn.Module):
    """Wu and He 2018, for vectors: neighbouring features form `groups`, each normalised on its own in every row.

    x: (..., features) -> the same. One group is layer norm.

    >>> GroupNorm(4, groups=2)(torch.tensor([[1.0, 3.0, 10.0, 30.0]])).round(decimals=2)
    tensor([[-1.,  1., -1.,  1.]], grad_fn=<RoundBackward1>)
    """

    def __init__(self, features: int, groups: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        assert features % groups == 0, f"{features} features cannot be shared equally by {groups} groups"
        self.groups = groups
        self.epsilon = epsilon
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        apart = x.reshape(*x.shape[:-1], self.groups, -1)
        level = functional.layer_norm(apart, apart.shape[-1:], eps=self.epsilon)
        return level.flatten(-2) * self.gain + self.bias


class InstanceNorm(nn.Module):
    """Ulyanov et al. 2016, for vectors: the features are read as `channels` channels with equally many places each.

    x: (..., features) -> the same. In an image each channel of each example is normalised over the image's places. A
    vector has no places, and a channel with a single one would always become 0; so neighbouring features are taken for
    the places of one channel. What tells it from group norm: all places of a channel share one gain and one bias.

    >>> InstanceNorm(4, channels=2)(torch.tensor([[1.0, 3.0, 10.0, 30.0]])).round(decimals=2)
    tensor([[-1.,  1., -1.,  1.]], grad_fn=<RoundBackward1>)
    """

    def __init__(self, features: int, channels: int, epsilon: float = EPSILON) -> None:
        super().__init__()
        assert features % channels == 0, f"{features} features cannot be shared equally by {channels} channels"
        self.channels = channels
        self.epsilon = epsilon
        self.gain = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        apart = x.reshape(*x.shape[:-1], self.channels, -1)
        level = functional.layer_norm(apart, apart.shape[-1:], eps=self.epsilon)
        return (level * self.gain[:, None] + self.bias[:, None]).flatten(-2)


def build_norm(kind: str, features: int, groups: int) -> nn.Module:
    """The norm of this kind. groups: of group norm, or the channels of instance norm; the others have none.

    >>> build_norm("group", 4, groups=2).groups
    2
    """
    match kind:
        case "none":
            return nn.Identity()
        case "batch":
            return BatchNorm(features)
        case "layer":
            return nn.LayerNorm(features, eps=EPSILON)
        case "rms":
            return RMSNorm(features)
        case "group":
            return GroupNorm(features, groups)
        case "instance":
            return InstanceNorm(features, groups)
    raise AssertionError(f"no norm is called {kind}")


class Foldable(nn.Module, ABC):
    """A layer with a norm behind it, of which a batch norm need not be computed once nothing is learned any more.

    >>> from pellucid.layers.feed_forward import Hidden
    >>> layer, x = Hidden(2, 3, norm="batch").eval(), torch.randn(4, 2)
    >>> isinstance(layer, Foldable), type(layer.norm).__name__
    (True, 'BatchNorm')
    >>> before = layer(x)
    >>> layer.fold()
    >>> type(layer.norm).__name__, torch.allclose(layer(x), before, atol=1e-6)
    ('Identity', True)
    """

    @abstractmethod
    def fold(self) -> None:
        """Let the layer do the work of its batch norm, as it is in eval mode. Other norms stay."""


@torch.no_grad()
def fold_batch_norm(linear: nn.Linear, norm: BatchNorm) -> nn.Linear:
    """One linear layer that does what the two do in eval mode: W' = s·W and b' = s·(b - mean) + bias.

    s = gain / √(variance + ε), one for each feature that the linear layer puts out; neither of the two is changed.

    >>> linear, norm = nn.Linear(2, 3), BatchNorm(3).eval()
    >>> x = torch.randn(1, 2)
    >>> torch.allclose(fold_batch_norm(linear, norm)(x), norm(linear(x)), atol=1e-6)
    True
    """
    # In float64, so that the only rounding is the last one.
    scale = norm.gain.double() / (norm.running_variance.double() + norm.epsilon).sqrt()
    bias = linear.bias.double() if linear.bias is not None else torch.zeros_like(scale)
    one = nn.Linear(linear.in_features, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
    one.weight.copy_(scale[:, None] * linear.weight.double())
    one.bias.copy_(scale * (bias - norm.running_mean.double()) + norm.bias.double())
    return one
