"""Symbols, and the same symbols again: whether a network can carry a source through at all."""

from pellucid.data.kinds import PairsData
from pellucid.data.sets import SYMBOLS, DatasetCard, draw_sequences, generated_pairs


def load(seed: int = 0, n: int = 2_000, n_symbols: int = 8, shortest: int = 1, longest: int = 8) -> PairsData:
    """n different sources of `shortest` to `longest` symbols, each its own target.

    >>> load(n=2000).pairs[0]
    ('GDCEDGC', 'GDCEDGC')
    """
    sources = draw_sequences(seed, n, n_symbols, shortest, longest)
    pairs = [(source, source) for source in sources]
    return generated_pairs("identity", pairs, f"over {SYMBOLS[:n_symbols]}; generated, seed {seed}")


DATASET = DatasetCard(
    name="identity",
    kind="pairs",
    summary="symbols and the same symbols again, as BAD and BAD",
    source="the copying task by which networks that carry a memory are told apart",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
