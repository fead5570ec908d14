"""Configs of the networks for lists and texts. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from pellucid.errors import PellucidError, TooLarge
from pellucid.models.settings import require_heads, require_norm_groups, setting
from pellucid.options import check_options, option, require_whole

# In so short a context pairs that turn by less than a hundredth of a radian a token are hardly turned at all. Dev after
# 200 to 371 steps with a base of 100 in place of 10,000, of 3 seeds each: Shakespeare 0.011, 0.000 and 0.000 lower,
# names 0.005, 0.000 and 0.000, Genesis 0.013, 0.004 and 0.013, English words 0.004, -0.001 and 0.006.
SHORT_CONTEXT, SHORT_BASE = 64, 100.0
MOST_ENTRIES = 1 << 27  # numbers in the table of a neural n-gram: half a gigabyte of float32


@dataclass(frozen=True)
class NeuralNGramConfig:
    vocab_size: int
    n: int = setting("n", 3)
    init: str = option(
        "zero",
        "First weights of a neural n-gram; zero is as unsure as can be, normal draws them from N(0, 1).",
        noun="way to draw the first weights",
        choices=("zero", "normal"),
    )

    def __post_init__(self) -> None:
        require_whole("vocab_size", self.vocab_size)
        check_options(self)
        if (entries := (self.n - 1) * self.vocab_size**2) > MOST_ENTRIES:
            raise TooLarge(
                f"a neural {self.n}-gram of {self.vocab_size:,} tokens has {entries:,} entries",
                fix="Use mlp, which gives each token a short vector",
            )

    @classmethod
    def of_size(cls, size: str, vocab_size: int, context: int) -> NeuralNGramConfig:
        order = {"tiny": 2, "small": 3, "medium": 5, "large": 8}[size]
        return cls(vocab_size, min(order, context + 1))


@dataclass(frozen=True)
class WindowMLPConfig:
    vocab_size: int
    context: int = setting("context", 3)
    embedding: int = setting("embedding", 10)
    hidden: int = setting("hidden", 200)
    depth: int = setting("depth", 1)
    activation: str = setting("activation", "tanh")
    norm: str = setting("norm", "none")  # after each hidden linear layer, before the activation
    groups: int = setting("groups", 8)
    logit_norm: str = option(
        "none",
        "Normalization of the scores (logits) of an MLP.",
        noun="normalization of the scores",
        choices=("none", "batch"),
    )

    def __post_init__(self) -> None:
        require_whole("vocab_size", self.vocab_size)
        check_options(self)
        require_norm_groups("hidden", self.hidden, self.norm, self.groups)

    @classmethod
    def of_size(cls, size: str, vocab_size: int, context: int) -> WindowMLPConfig:
        """tiny is the classic: 3 tokens, 10 numbers each, 200 hidden units."""
        reach, embedding, hidden, depth = {
            "tiny": (3, 10, 200, 1),
            "small": (5, 16, 256, 1),
            "medium": (8, 24, 256, 2),
            "large": (8, 32, 512, 3),
        }[size]
        return cls(vocab_size, min(reach, context), embedding, hidden, depth)


@dataclass(frozen=True)
class WavenetConfig:
    vocab_size: int
    context: int = setting("context", 8, minimum=2)  # a power of 2, one layer for each doubling
    embedding: int = setting("embedding", 24)
    hidden: int = setting("hidden", 128)

    def __post_init__(self) -> None:
        require_whole("vocab_size", self.vocab_size)
        check_options(self)
        if self.context != (near := power_of_two(self.context)):
            raise PellucidError(
                f"a context of {self.context} tokens cannot be halved until one is left",
                fix=f"The nearest that can is {near}",
            )

    @property
    def depth(self) -> int:
        return self.context.bit_length() - 1

    @classmethod
    def of_size(cls, size: str, vocab_size: int, context: int) -> WavenetConfig:
        """The window is the largest power of 2 in what is given, at most 8, or 16 for large."""
        reach, embedding, hidden = {
            "tiny": (4, 8, 32),
            "small": (8, 16, 64),
            "medium": (8, 24, 128),
            "large": (16, 32, 256),
        }[size]
        fits = 1 << (max(2, min(reach, context)).bit_length() - 1)
        return cls(vocab_size, fits, embedding, hidden)


def power_of_two(number: int) -> int:
    """The power of 2 nearest to a number of 2 or more, the smaller of two equally near ones.

    >>> [power_of_two(number) for number in (2, 3, 5, 6, 7, 100)]
    [2, 2, 4, 4, 8, 128]
    """
    below: int = 1 << (number.bit_length() - 1)
    return below if number - below <= 2 * below - number else 2 * below


@dataclass(frozen=True)
class RecurrentConfig:
    """RNN, GRU and LSTM are told the same."""

    vocab_size: int
    width: int = setting("width", 128)
    depth: int = setting("depth", 1)
    dropout: float = setting("dropout", 0.0)  # between embedding, layers and head

    def __post_init__(self) -> None:
        require_whole("vocab_size", self.vocab_size)
        check_options(self)

    @classmethod
    def of_size(cls, size: str, vocab_size: int, context: int) -> Self:
        width, depth = {"tiny": (32, 1), "small": (64, 1), "medium": (128, 1), "large": (256, 2)}[size]
        return cls(vocab_size, width, depth)


@dataclass(frozen=True)
class TransformerConfig:
    vocab_size: int
    context: int = setting("context")
    width: int = setting("width")
    depth: int = setting("depth")
    n_heads: int = setting("n_heads")
    dropout: float = setting("dropout", 0.0)
    positions: str = setting("positions", "rotary")
    attention_dropout: float = setting("attention_dropout", 0.0)
    form: str = setting("form", "pre")
    rotary_base: float = 10_000.0  # how much slower the last pair of rotary positions turns than the first

    def __post_init__(self) -> None:
        require_whole("vocab_size", self.vocab_size)
        check_options(self)
        require_heads(self.width, self.n_heads, self.positions)
        if not 1 <= self.rotary_base < math.inf:
            raise PellucidError(f"a rotary base of {self.rotary_base:g} came", fix="Choose one of 1 or more")

    @classmethod
    def of_size(cls, size: str, vocab_size: int, context: int) -> TransformerConfig:
        """About 6, 50, 200 and 800 thousand parameters."""
        depth, width, n_heads = {"tiny": (2, 16, 2), "small": (4, 32, 4), "medium": (4, 64, 4), "large": (4, 128, 4)}[
            size
        ]
        base = SHORT_BASE if context <= SHORT_CONTEXT else cls.rotary_base
        return cls(vocab_size, context, width, depth, n_heads, rotary_base=base)
