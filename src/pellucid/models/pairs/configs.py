"""Configs of the networks that read a source and write a target. Nothing here needs torch.

`longest_source` and `longest_target` (both without boundaries) are how much a network is made for.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.settings import require_heads, require_share, setting
from pellucid.options import check_options, option, require_whole

# Width, depth and heads by size. To sort four symbols tiny is enough, ten symbols small; both were right on every pair
# of dev and test.
ONE_STACK = {"tiny": (16, 2, 2), "small": (32, 2, 4), "medium": (64, 3, 4), "large": (128, 4, 8)}
TWO_STACKS = {"tiny": (16, 1, 2), "small": (32, 1, 4), "medium": (64, 2, 4), "large": (128, 3, 8)}

CELLS = ("rnn", "gru", "lstm")
ASKING = ("none", "dot", "additive")


@dataclass(frozen=True)
class RNNEncoderDecoderConfig:
    vocab_size: int
    longest_source: int
    longest_target: int
    width: int = setting("width")  # of the decoder's state; each direction of the encoder has half of it
    depth: int = setting("depth", 1)  # layers of the encoder, and as many of the decoder
    cell: str = option("lstm", "Recurrent cell of an encoder-decoder.", noun="recurrent cell", choices=CELLS)
    attention: str = option(
        "additive",
        "How the decoder of recurrent cells asks the source: by products (Luong), a sum (Bahdanau), or not at all.",
        noun="kind of attention",
        choices=ASKING,
    )
    dropout: float = setting("dropout", 0.0)

    def __post_init__(self) -> None:
        require_sizes(self)
        require_share("width", self.width, 2, of="directions")

    @classmethod
    def of_size(cls, size: str, vocab_size: int, longest_source: int, longest_target: int) -> RNNEncoderDecoderConfig:
        width, depth = {"tiny": (32, 1), "small": (64, 1), "medium": (128, 1), "large": (256, 2)}[size]
        return cls(vocab_size, longest_source, longest_target, width, depth)


@dataclass(frozen=True)
class EncoderDecoderConfig:
    vocab_size: int
    longest_source: int
    longest_target: int
    width: int = setting("width")
    depth: int = setting("depth")  # blocks of the encoder, and as many of the decoder
    n_heads: int = setting("n_heads")
    dropout: float = setting("dropout", 0.0)
    positions: str = setting("positions", "sinusoidal")
    form: str = setting("form", "pre")

    def __post_init__(self) -> None:
        require_pair_config(self)

    @classmethod
    def of_size(cls, size: str, vocab_size: int, longest_source: int, longest_target: int) -> EncoderDecoderConfig:
        """About 8, 30, 235 thousand and 1.4 million parameters."""
        return cls(vocab_size, longest_source, longest_target, *TWO_STACKS[size])


@dataclass(frozen=True)
class EncoderConfig:
    vocab_size: int
    longest_source: int
    longest_target: int
    width: int = setting("width")
    depth: int = setting("depth")
    n_heads: int = setting("n_heads")
    dropout: float = setting("dropout", 0.0)
    positions: str = setting("positions", "learned")
    form: str = setting("form", "pre")

    def __post_init__(self) -> None:
        require_pair_config(self)

    @classmethod
    def of_size(cls, size: str, vocab_size: int, longest_source: int, longest_target: int) -> EncoderConfig:
        """About 7, 26, 152 and 797 thousand parameters."""
        return cls(vocab_size, longest_source, longest_target, *ONE_STACK[size])


@dataclass(frozen=True)
class PairTransformerConfig:
    vocab_size: int
    longest_source: int
    longest_target: int
    width: int = setting("width")
    depth: int = setting("depth")
    n_heads: int = setting("n_heads")
    dropout: float = setting("dropout", 0.0)
    positions: str = setting("positions", "rotary")
    form: str = setting("form", "pre")

    def __post_init__(self) -> None:
        require_pair_config(self)

    @property
    def row(self) -> TransformerConfig:
        """The transformer that reads the whole row, but for the end, which is only said."""
        context = self.longest_source + 1 + self.longest_target
        return TransformerConfig(
            self.vocab_size,
            context,
            self.width,
            self.depth,
            self.n_heads,
            self.dropout,
            self.positions,
            form=self.form,
        )

    @classmethod
    def of_size(cls, size: str, vocab_size: int, longest_source: int, longest_target: int) -> PairTransformerConfig:
        """About 6, 25, 149 and 789 thousand parameters."""
        return cls(vocab_size, longest_source, longest_target, *ONE_STACK[size])


PairAttentionConfig = EncoderDecoderConfig | EncoderConfig | PairTransformerConfig


def require_sizes(config: RNNEncoderDecoderConfig | PairAttentionConfig) -> None:
    """Refuse numbers that cannot be."""
    for name in ("vocab_size", "longest_source", "longest_target"):
        require_whole(name, getattr(config, name))
    check_options(config)


def require_pair_config(config: PairAttentionConfig) -> None:
    """Refuse what cannot be built."""
    require_sizes(config)
    require_heads(config.width, config.n_heads, config.positions)
