"""Numbers that remember. `rules.py` is the table of operations; the rest reads it.

    >>> from pellucid.autograd import Value, explain
    >>> x = Value(3.0, "x")
    >>> y = x * x
    >>> y.backward()
    >>> x.grad
    6.0
    >>> [step.contribution for step in explain(y)]
    [3.0, 3.0]

`replay` runs a recorded graph on NumPy, which is not loaded until somebody asks for it.
"""

from typing import TYPE_CHECKING

from pellucid.autograd.derivation import differences, differentiate, sweep
from pellucid.autograd.explanation import explain, graph, n_paths, paths
from pellucid.autograd.grammar import parse
from pellucid.autograd.nn import (
    Neuron,
    ScalarLayer,
    ScalarMLP,
    binary_cross_entropy,
    cross_entropy,
    hinge,
    squared_error,
)
from pellucid.autograd.rules import RULES, Rule
from pellucid.autograd.value import Value, ancestors, apply, maximum, minimum, product, total, where

if TYPE_CHECKING:
    from pellucid.autograd.replays import Replay, replay

__all__ = [
    "RULES",
    "Neuron",
    "Replay",
    "Rule",
    "ScalarLayer",
    "ScalarMLP",
    "Value",
    "ancestors",
    "apply",
    "binary_cross_entropy",
    "cross_entropy",
    "differences",
    "differentiate",
    "explain",
    "graph",
    "hinge",
    "maximum",
    "minimum",
    "n_paths",
    "parse",
    "paths",
    "product",
    "replay",
    "squared_error",
    "sweep",
    "total",
    "where",
]


def __getattr__(name: str) -> object:
    if name not in ("Replay", "replay"):
        raise AttributeError(f"module 'pellucid.autograd' has no attribute {name!r}")
    from pellucid.autograd import replays

    return getattr(replays, name)
