"""Symbols, and the same symbols sorted without duplicates: small enough to solve by hand-set attention."""

import hashlib
import random

from pellucid.data.kinds import PairsData
from pellucid.data.sets import DatasetCard
from pellucid.errors import PellucidError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def load(seed: int = 0, n: int = 2_000, n_symbols: int = 4, longest: int = 6) -> PairsData:
    """n different sources of 1 to `longest` symbols, each with its target.

    >>> load(n=2000).pairs[0]
    ('DBBC', 'BCD')
    """
    if not 2 <= n_symbols <= len(LETTERS):
        raise PellucidError(f"{n_symbols} symbols cannot be used", fix=f"Choose 2 to {len(LETTERS)}")
    possible = sum(n_symbols**length for length in range(1, longest + 1))
    if not 1 <= n <= possible // 2:
        raise PellucidError(
            f"{n:,} different sources cannot be drawn from {possible:,}", fix=f"Ask for 1 to {possible // 2:,}"
        )
    draw = random.Random(seed)
    sources: dict[str, None] = {}
    while len(sources) < n:
        length = draw.randint(1, longest)
        sources.setdefault("".join(draw.choices(LETTERS[:n_symbols], k=length)))
    pairs = [(source, "".join(sorted(set(source)))) for source in sources]
    content = "\n".join(f"{source}\t{target}" for source, target in pairs)
    return PairsData(
        name="dedupe-sort",
        pairs=pairs,
        because=f"over {LETTERS[:n_symbols]}; generated, seed {seed}",
        fingerprint=hashlib.sha256(content.encode()).hexdigest(),
    )


DATASET = DatasetCard(
    name="dedupe-sort",
    kind="pairs",
    summary="symbols and the same symbols sorted without duplicates, as DAA and AD",
    source="the exam question that builds a one-layer transformer for it by hand",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
