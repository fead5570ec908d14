"""Symbols, and the same symbols from last to first: what was read last is wanted first."""

from pellucid.data.kinds import PairsData
from pellucid.data.sets import SYMBOLS, DatasetCard, draw_sequences, generated_pairs


def load(seed: int = 0, n: int = 2_000, n_symbols: int = 8, shortest: int = 1, longest: int = 8) -> PairsData:
    """n different sources of `shortest` to `longest` symbols, each with its target.

    >>> load(n=2000).pairs[0]
    ('GDCEDGC', 'CGDECDG')
    """
    sources = draw_sequences(seed, n, n_symbols, shortest, longest)
    pairs = [(source, source[::-1]) for source in sources]
    return generated_pairs("reverse", pairs, f"over {SYMBOLS[:n_symbols]}; generated, seed {seed}")


DATASET = DatasetCard(
    name="reverse",
    kind="pairs",
    summary="symbols and the same symbols from last to first, as BAD and DAB",
    source="the reversal task of sequence-to-sequence networks",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
