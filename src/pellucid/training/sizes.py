"""How large a network is, before it is built: by the data, and in parameters."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pellucid.training.wishes import SIZES

# Tokens of train from which on a size is worth its weights.
WORTH: Mapping[str, int] = {"tiny": 0, "small": 3_000, "medium": 30_000, "large": 500_000}
WORTH_OF_EXAMPLES: Mapping[str, int] = {"tiny": 0, "small": 1_000, "medium": 10_000, "large": 200_000}


def size_for(n_train: int, worth: Mapping[str, int] = WORTH) -> str:
    """The largest size that so many tokens are worth.

    >>> [size_for(n) for n in (1_000, 20_000, 174_402, 1_000_000)]
    ['tiny', 'small', 'medium', 'large']
    """
    return [size for size in SIZES if n_train >= worth[size]][-1]


def rough_sequence_parameters(config: Any) -> int:
    """About how many parameters a configuration has, by its settings alone; to build one that is too large would fail.

    >>> from pellucid.models.transformer import TransformerConfig
    >>> rough_sequence_parameters(TransformerConfig(vocab_size=27, context=16, width=64, depth=4, n_heads=4))
    200064
    """
    settings = dataclasses.asdict(config)
    vocab_size, depth = settings["vocab_size"], settings.get("depth", 1)
    width, hidden, embedding = (settings.get(name, 0) for name in ("width", "hidden", "embedding"))
    tables = vocab_size * (2 * width + hidden + embedding) + (settings.get("order", 1) - 1) * vocab_size**2
    inner = (12 if "n_heads" in settings else 6) * depth * width**2 + (depth - 1) * hidden**2
    return int(tables + inner + settings.get("context", 0) * embedding * hidden)


def rough_example_parameters(config: Any) -> int:
    """The same for what reads rows or images: the first matrix, and those between the hidden layers.

    >>> from pellucid.models.examples.logistic import MODEL
    >>> rough_example_parameters(MODEL.tiny) > 0
    True
    """
    settings = dataclasses.asdict(config)
    widest = max([settings.get(name, 0) for name in ("width", "hidden", "latent", "channels", "outputs")])
    first = (math.prod(settings["numbers"]) + sum(settings["categories"])) * widest
    return int(first + (12 if "n_heads" in settings else 2) * settings.get("depth", 1) * widest**2)


def rough_pair_parameters(config: Any) -> int:
    """The same for pairs: two tables of tokens, and blocks on the way in and on the way out."""
    settings = dataclasses.asdict(config)
    return int(2 * settings["vocab_size"] * settings["width"] + 28 * settings["depth"] * settings["width"] ** 2)
