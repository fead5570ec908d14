"""Settings of networks: each is declared once, with its help and its bounds, and a config takes it by its name.

    width: int = setting("width", 64)
    depth: int = setting("depth", 1, minimum=0)  # its own bounds, where they differ

A setting that only one network has may as well be declared in its config, with `option`. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pellucid.errors import PellucidError
from pellucid.layers.positions import POSITIONS
from pellucid.options import Option, option

SIZES = ("tiny", "small", "medium", "large")
ACTIVATIONS = ("tanh", "relu", "leaky_relu", "gelu", "sigmoid")  # a test holds each equal to what layers/ has
NORMS = ("none", "batch", "layer", "rms", "group", "instance")
FORMS = ("pre", "post", "none")

SETTINGS: Mapping[str, Option] = MappingProxyType(
    {
        "context": Option("Context length: how many tokens the network looks back on.", minimum=1),
        "width": Option("Embedding (model) dimension; hidden size of an RNN; channels of a residual CNN.", minimum=1),
        "depth": Option("Number of blocks or layers.", minimum=1),
        "n_heads": Option("Number of attention heads.", noun="the number of heads", minimum=1, flag="heads"),
        "hidden": Option("Hidden layer size: units of each hidden layer.", minimum=1),
        "embedding": Option("Embedding dimension of a token or of a category.", minimum=1),
        "n": Option("Order of an n-gram: 2 for a bigram, 3 for a trigram.", minimum=2, maximum=1000),
        "activation": Option("Activation function of hidden layers.", choices=ACTIVATIONS),
        "norm": Option("Normalization of hidden layers.", choices=NORMS),
        "groups": Option("Groups of group norm; channels of instance norm.", noun="the number of groups", minimum=1),
        "dropout": Option(
            "Dropout: share of values set to zero in training.", minimum=0, maximum=0.9999, example="0.1"
        ),
        "attention_dropout": Option(
            "Dropout of attention weights in training; it costs the fused kernel.",
            minimum=0,
            maximum=0.9999,
            example="0.1",
        ),
        "positions": Option("Position encoding of attention.", noun="position encoding", choices=POSITIONS),
        "form": Option(
            "Form of a transformer block; layer norm before (pre) or after (post) attention and feed-forward, or "
            "before them without residual connections (none).",
            noun="form of block",
            choices=FORMS,
        ),
        "latent": Option("Latent dimension of the autoencoder.", minimum=1),
        "patch": Option("Patch size of a vision transformer, in pixels.", minimum=1),
        "projection": Option(
            "Patch embedding of a vision transformer.", noun="patch embedding", choices=("linear", "conv")
        ),
        "pool": Option("Pooling of a CNN.", noun="kind of pooling", choices=("average", "max")),
        "head": Option(
            "Output head of a CNN; conv and pooled read larger images too.",
            noun="output head",
            choices=("linear", "conv", "pooled"),
        ),
        "stages": Option(
            "Stages of a residual CNN; each halves the image and doubles the channels.",
            noun="the number of stages",
            minimum=1,
            maximum=10,
        ),
        "stride": Option("Stride of a residual CNN's first convolution.", minimum=1),
    }
)


def setting(name: str, default: Any = dataclasses.MISSING, **own: Any) -> Any:
    """A field of a config, declared as `SETTINGS` has it but for what is given.

    >>> from dataclasses import dataclass
    >>> from pellucid.options import options_of
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     depth: int = setting("depth", 1, minimum=0)
    >>> options_of(Config)["depth"].help, options_of(Config)["depth"].minimum
    ('Number of blocks or layers.', 0)
    """
    declared = {field.name: getattr(SETTINGS[name], field.name) for field in dataclasses.fields(Option)}
    return option(default, **{**declared, **own})


def require_share(noun: str, value: int, parts: int, of: str) -> None:
    """Refuse a number that cannot be shared equally by so many parts.

    >>> require_share("hidden", 100, 8, of="groups")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: hidden 100 cannot be shared equally by 8 groups. The nearest that can is 96.
    """
    if value % parts:
        near = max(1, round(value / parts)) * parts
        raise PellucidError(
            f"{noun} {value} cannot be shared equally by {parts} {of}", fix=f"The nearest that can is {near}"
        )


def require_norm_groups(noun: str, value: int, norm: str, groups: int) -> None:
    """Refuse a width that group or instance norm cannot share out."""
    if norm in ("group", "instance"):
        require_share(noun, value, groups, of="groups" if norm == "group" else "channels")


def require_heads(width: int, n_heads: int, positions: str) -> None:
    """Refuse a width that the heads of attention cannot share, or of which rotary positions cannot turn pairs.

    >>> require_heads(6, 2, "rotary")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: rotary positions turn pairs, and a head of 3 numbers has one left over. Choose
    width 8, or learned positions.
    """
    require_share("width", width, n_heads, of="heads")
    if positions == "rotary" and width // n_heads % 2:
        raise PellucidError(
            f"rotary positions turn pairs, and a head of {width // n_heads} numbers has one left over",
            fix=f"Choose width {width + n_heads}, or learned positions",
        )
