"""What the numbers of one layer say: mean, deviation, how many of its units are flat, and a map of them.

Values and gradients come as (examples, units). A unit is flat on an example where its slope there is nearly zero: what
the loss would teach the weights below it is multiplied by that slope.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from pellucid.records import Histogram, LayerStats, UnitMap, WeightStats

N_BINS = 60
MOST_BINNED = 1 << 12  # values of a histogram: its shape is as clear, and a look is cheap
MAP_EXAMPLES = 32
MAP_UNITS = 200

SATURATED = 0.97  # of tanh
NEARLY_ZERO = 1 - SATURATED**2  # its slope there; the other activations are flat where theirs is no larger
_SIGMOID_SATURATED = math.sqrt(1 - 4 * NEARLY_ZERO)  # |2y - 1| where y(1 - y) is NEARLY_ZERO
_GELU_TAIL = -2.2509235996281576  # left of it |Φ(x) + xφ(x)| < NEARLY_ZERO; a test solves for it

# Where each activation is flat, by what went in and what came out. What is not here has a slope everywhere.
Flatness = Callable[[Tensor, Tensor], Tensor]
FLAT: Mapping[type[nn.Module], Flatness] = MappingProxyType(
    {
        nn.Tanh: lambda into, out: out.abs() > SATURATED,
        nn.RNN: lambda into, out: out.abs() > SATURATED,
        nn.Sigmoid: lambda into, out: (2 * out - 1).abs() > _SIGMOID_SATURATED,
        nn.ReLU: lambda into, out: out == 0,
        nn.GELU: lambda into, out: into < _GELU_TAIL,
    }
)
# The same for those that torch has not, by the names of their classes.
FLAT_BY_NAME: Mapping[str, Flatness] = MappingProxyType({"SquaredReLU": lambda into, out: out == 0})


def flatness(module: nn.Module) -> Flatness | None:
    """How to tell where this layer is flat; None where it never is, or where it cannot be told.

    >>> flatness(nn.Tanh())(torch.zeros(3), torch.tensor([-0.98, 0.0, 0.98]))
    tensor([ True, False,  True])
    """
    if isinstance(module, nn.RNN) and module.nonlinearity != "tanh":
        return None
    return FLAT.get(type(module)) or FLAT_BY_NAME.get(type(module).__name__)


def layer_stats(path: str, kind: str, values: Tensor, gradients: Tensor, flat: Tensor | None) -> LayerStats:
    """values, gradients, flat: (examples, units); the gradients are of the loss with respect to the values.

    >>> stats = layer_stats("act", "ReLU", torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.zeros(2, 2), None)
    >>> stats.width, stats.examples, stats.mean
    (2, 2, 0.5)
    """
    mean, deviation = _mean_and_deviation(values)
    gradient_mean, gradient_deviation = _mean_and_deviation(gradients)
    return LayerStats(
        path=path,
        kind=kind,
        width=values.shape[1],
        examples=values.shape[0],
        mean=mean,
        deviation=deviation,
        saturated=None if flat is None else flat.count_nonzero().item() / flat.numel(),
        always_zero=None if flat is None else int(flat.all(0).count_nonzero().item()),
        gradient_mean=gradient_mean,
        gradient_deviation=gradient_deviation,
        values=histogram(values),
        gradients=histogram(gradients),
    )


def _mean_and_deviation(values: Tensor) -> tuple[float, float]:
    """Written out, because torch's std is ten times slower over a whole tensor."""
    mean = values.mean()
    return mean.item(), torch.linalg.vector_norm(values - mean).item() / math.sqrt(values.numel())


def histogram(values: Tensor) -> Histogram:
    """How the finite values are spread, by an even sample where there are many.

    >>> histogram(torch.tensor([1.0, 2.0, 2.0])).counts[-1]
    2
    """
    flat = values.detach().reshape(-1)
    if len(flat) > MOST_BINNED:
        flat = flat[:: -(-len(flat) // MOST_BINNED) | 1]  # an odd stride, so that no unit is always passed over
    # What is not a number has no place among them; the loop stops on it and names the layer.
    low, high = (end.item() for end in flat.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        flat = flat[flat.isfinite()]
        low, high = (end.item() for end in flat.aminmax()) if len(flat) else (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(flat, N_BINS, low, high)
    return Histogram(low, high, tuple(int(count) for count in counts.tolist()))


def unit_map(path: str, kind: str, flat: Tensor, gradients: Tensor) -> UnitMap:
    """The first examples and units as letters. flat, gradients: (examples, units), the gradients that are passed on.

    >>> flat, gradients = torch.tensor([[True, False, False]]), torch.tensor([[0.0, -4.0, 1.0]])
    >>> unit_map("act", "Tanh", flat, gradients)
    UnitMap(path='act', kind='Tanh', values=('900',), gradients=('095',))
    """
    flat, sizes = flat[:MAP_EXAMPLES, :MAP_UNITS], gradients[:MAP_EXAMPLES, :MAP_UNITS].abs().double()
    largest = sizes.max().item() if sizes.numel() else 0.0
    # By the root of the size: gradients have long tails, and by the size itself nearly all would be 0.
    levels = (10 * (sizes / largest).sqrt()).clamp(max=9).int() if largest > 0 else sizes.int()
    return UnitMap(
        path,
        kind,
        values=tuple("".join("9" if one else "0" for one in row) for row in flat.tolist()),
        gradients=tuple("".join(map(str, row)) for row in levels.tolist()),
    )


def weight_stats(path: str, before: Tensor, after: Tensor, gradient_norm: float) -> WeightStats:
    """One parameter before and after a step. The ratio is nan where all numbers of the parameter were alike.

    >>> weight_stats("w", torch.tensor([-1.0, 1.0]), torch.tensor([-1.5, 1.5]), 0.1).update_ratio
    0.5
    """
    _, deviation = _mean_and_deviation(before)
    _, update = _mean_and_deviation(after.detach() - before)
    ratio = update / deviation if deviation > 0 else math.nan
    return WeightStats(path, tuple(before.shape), deviation, gradient_norm, ratio)
