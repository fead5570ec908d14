"""Neural networks you can see through.

    >>> import pellucid
    >>> pellucid.derive("x^2 + 3*x", x=2).gradients
    {'x': 7.0}

Nothing heavy is loaded until a name below is first used.
"""

import importlib

__version__ = "0.1.0"

# Each public name and the module it is fetched from when first asked for.
_DOORS = {
    "Derivation": "pellucid.records",
    "PellucidError": "pellucid.errors",
    "Run": "pellucid.api",
    "Value": "pellucid.autograd",
    "compare": "pellucid.api",
    "derive": "pellucid.api",
    "doctor": "pellucid.api",
    "inspect": "pellucid.api",
    "open_data": "pellucid.data",
    "open_run": "pellucid.api",
    "rate": "pellucid.api",
    "replay": "pellucid.autograd",
    "train": "pellucid.api",
    "watch": "pellucid.api",
}

__all__ = [
    "Derivation",
    "PellucidError",
    "Run",
    "Value",
    "__version__",
    "compare",
    "derive",
    "doctor",
    "inspect",
    "open_data",
    "open_run",
    "rate",
    "replay",
    "train",
    "watch",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid' has no attribute {name!r}")
    return getattr(importlib.import_module(_DOORS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
