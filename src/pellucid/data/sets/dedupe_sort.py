"""Symbols, and the same symbols sorted without duplicates: small enough to solve by hand-set attention."""

from pellucid.data.kinds import PairsData
from pellucid.data.sets import SYMBOLS, DatasetCard, draw_sequences, generated_pairs


def load(seed: int = 0, n: int = 2_000, n_symbols: int = 4, longest: int = 6) -> PairsData:
    """n different sources of 1 to `longest` symbols, each with its target.

    >>> load(n=2000).pairs[0]
    ('DBBC', 'BCD')
    """
    sources = draw_sequences(seed, n, n_symbols, shortest=1, longest=longest)
    pairs = [(source, "".join(sorted(set(source)))) for source in sources]
    return generated_pairs("dedupe-sort", pairs, f"over {SYMBOLS[:n_symbols]}; generated, seed {seed}")


DATASET = DatasetCard(
    name="dedupe-sort",
    kind="pairs",
    summary="symbols and the same symbols sorted without duplicates, as DAA and AD",
    source="the exam question that builds a one-layer transformer for it by hand",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
