"""A text as tokens: its symbols and indices, what is predicted from what, and what reading it costs."""

from typing import NamedTuple

from pellucid.records.statements import Statement


class TokenExample(NamedTuple):
    """One prediction: the tokens that are looked at, and the one that comes after them."""

    context: tuple[str, ...]  # symbols
    target: str
    context_indices: tuple[int, ...]
    target_index: int


class AxisSizes(NamedTuple):
    """A tensor that a network reads or makes of these tokens, axis by axis."""

    name: str
    axes: tuple[str, ...]  # batch, time, channel, symbol, example or context
    shape: tuple[int, ...]


class TokenCost(NamedTuple):
    """One way to cut a text, and what it costs to read it as one sequence."""

    name: str
    n_tokens: int
    vocab_size: int
    attention_flops: int
    linear_flops: int  # projections, feed-forward and the scores of the vocabulary
    attention_ratio: float  # beside the way with the fewest tokens
    total_ratio: float  # beside the way with the least work


class TokenListing(NamedTuple):
    """The tokens of a text or a list, the first of them one by one."""

    source: str  # what was read, in one line; or the text itself
    is_given: bool  # the text itself was given, and no file or set
    kind: str  # list or text
    tokens: str  # characters, words, bytes or bpe
    vocabulary: tuple[str, ...]  # the first symbols, by their indices
    vocab_size: int
    has_boundary: bool  # then the first symbol opens and closes every item
    n_items: int  # of a list; of a text 0
    n_tokens: int  # the boundaries among them
    symbols: tuple[str, ...]  # of the first tokens
    indices: tuple[int, ...]  # of the same
    n_examples: int  # predictions
    context: int  # the most tokens that one looks back on
    is_window: bool  # every context has that many, boundaries where an item has not begun; else they grow from one on
    examples: tuple[TokenExample, ...]  # the first
    tensors: tuple[AxisSizes, ...]
    n_left: int  # predictions at the end of a text that fill no window
    width: int  # of the transformer whose costs these are
    n_layers: int
    n_characters: int
    n_costed: int  # of them, those that the costs are of, from the first on
    costs: tuple[TokenCost, ...]
    notes: tuple[Statement, ...] = ()
