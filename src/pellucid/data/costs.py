"""What tokenisation costs: the same text as characters, words and byte pairs, in tokens and in FLOPs.

One layer of a transformer spends on n tokens of width d

    attention   4 n² d     scores (2 n² d) and their mixture (2 n² d)
    linear      24 n d²    four projections (8 n d²) and a feed-forward of four times the width (16 n d²)

and the model spends 2 n d V once, on the scores of a vocabulary of V. A multiplication and an addition count two.
"""

from dataclasses import dataclass

from pellucid.data.bpe import BPE
from pellucid.data.vocabularies import Characters, Vocabulary, Words
from pellucid.errors import PellucidError


@dataclass(frozen=True)
class TokenCost:
    """One way to cut a text, and what it costs to read it as one sequence."""

    name: str
    n_tokens: int
    vocab_size: int
    attention_flops: int
    linear_flops: int  # projections, feed-forward and the scores of the vocabulary
    attention_ratio: float  # beside the way with the fewest tokens
    total_ratio: float  # beside the way with the least work


def token_costs(text: str, *, width: int = 64, n_layers: int = 4, bpe_size: int = 512) -> tuple[TokenCost, ...]:
    """Characters, words and byte pairs learned from this very text, side by side.

    Twenty words of five letters are 119 characters, and by attention alone 35.4 times the work:

    >>> costs = token_costs(" ".join(["words"] * 20))
    >>> [(cost.name, cost.n_tokens) for cost in costs][:2]
    [('characters', 119), ('words', 20)]
    >>> round(costs[0].attention_flops / costs[1].attention_flops, 1)
    35.4
    """
    if not text.strip():
        raise PellucidError("there is no text to cut into tokens", fix="Give it some words")
    ways: list[tuple[str, Vocabulary]] = [
        ("characters", Characters(sorted(set(text)), has_boundary=False)),
        ("words", Words.of([text], has_boundary=True)),
        ("bpe", BPE.train([text], bpe_size, has_boundary=False)),
    ]
    rows = []
    for name, vocabulary in ways:
        n = len(vocabulary.encode(text))
        vocab_size = len(vocabulary) - vocabulary.has_boundary
        attention = n_layers * 4 * n * n * width
        linear = n_layers * 24 * n * width * width + 2 * n * width * vocab_size
        rows.append((name, n, vocab_size, attention, linear))
    least_attention = min(attention for _, _, _, attention, _ in rows)
    least = min(attention + linear for _, _, _, attention, linear in rows)
    return tuple(
        TokenCost(name, n, size, attention, linear, attention / least_attention, (attention + linear) / least)
        for name, n, size, attention, linear in rows
    )
