"""Activations by name, and the gain that keeps signals alive through many layers of each.

Let a layer's pre-activations be Z ~ N(0, 1). The next layer reads f(Z), whose mean square E[f(Z)²] is not 1. Weights
drawn from N(0, gain² / fan_in) with gain = 1/√E[f(Z)²] bring the next pre-activations back to variance 1, and so on up
the stack (He et al. 2015, "Delving Deep into Rectifiers", equations 7 to 10, for ReLU; any other f by its own
integral). The layer that reads inputs of variance 1 itself has gain 1.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
import torch
from torch import nn

from pellucid.errors import PellucidError, did_you_mean, quoted

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
    if name not in ACTIVATIONS:
        raise PellucidError(
            f"there is no activation called {quoted(name)}",
            fix=did_you_mean(name, ACTIVATIONS),
        )
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
