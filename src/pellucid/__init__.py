"""Neural networks you can see through.

    >>> import pellucid
    >>> pellucid.derive("x^2 + 3*x", x=2).gradients
    {'x': 7.0}

Nothing heavy is loaded until a name below is first used.
"""

import importlib

__version__ = "0.1.0"

# Each public name and where it is fetched from when first asked for: a module, and the name there where it is another.
_DOORS = {
    "Callbacks": "pellucid.training.callbacks",
    "Derivation": "pellucid.records",
    "PellucidError": "pellucid.errors",
    "TrainedRun": "pellucid.api.run",
    "Value": "pellucid.autograd",
    "compare": "pellucid.api.train",
    "derive": "pellucid.api.derive",
    "doctor": "pellucid.api.doctor",
    "draw": "pellucid.api.draw",
    "export_run": "pellucid.export.request",
    "inspect": "pellucid.api.inspect",
    "open_data": "pellucid.data",
    "open_model": "pellucid.api.open",
    "open_run": "pellucid.api.run:TrainedRun",
    "predict": "pellucid.api.run",
    "rate": "pellucid.api.train",
    "replay": "pellucid.autograd",
    "resume": "pellucid.api.train",
    "sample": "pellucid.api.run",
    "score": "pellucid.api.run",
    "split": "pellucid.api.split",
    "sweep": "pellucid.api.sweep",
    "tokens": "pellucid.api.tokens",
    "train": "pellucid.api.train",
    "watch": "pellucid.api.doctor",
}

__all__ = [
    "Callbacks",
    "Derivation",
    "PellucidError",
    "TrainedRun",
    "Value",
    "__version__",
    "compare",
    "derive",
    "doctor",
    "draw",
    "export_run",
    "inspect",
    "open_data",
    "open_model",
    "open_run",
    "predict",
    "rate",
    "replay",
    "resume",
    "sample",
    "score",
    "split",
    "sweep",
    "tokens",
    "train",
    "watch",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid' has no attribute {name!r}")
    module, _, own_name = _DOORS[name].partition(":")
    return getattr(importlib.import_module(module), own_name or name)


def __dir__() -> list[str]:
    return sorted(__all__)
