"""The token k places before: what a look back by a fixed distance solves, and nothing shorter.

    pairs    BADCAB  --BADC     k = 2: at each place what stood k places before, and "-" where nothing did
    list     BABABA             k = 2: the first k symbols are drawn, and each later one is the one k places before

Both can be read from left to right. The target of a pair is said place by place and never asks for what comes later in
its source, so that a causal network has all it needs, as has any that reads the whole source first: loss 0 and every
answer right. Of an item of the list nothing tells the first k symbols, and everything the rest, its end among it: the
best there is are k · ln(n_symbols) nats for its length + 1 tokens.
"""

import hashlib
import math

from pellucid.data.kinds import ListData, PairsData
from pellucid.data.sets import LONGEST_SEQUENCE, SYMBOLS, DatasetCard, draw_sequences, generated_pairs
from pellucid.errors import PellucidError

NOTHING = "-"  # what is said where no symbol stands k places before


def load(seed: int = 0, n: int = 2_000, k: int = 4, n_symbols: int = 8, length: int = 12) -> PairsData:
    """n different sources of `length` symbols, each with what stands k places before each of them.

    >>> load(n=2000).pairs[0]
    ('GDCEDGCDEHEC', '----GDCEDGCD')
    """
    _require_distance(k, length)
    sources = draw_sequences(seed, n, n_symbols, shortest=length, longest=length)
    pairs = [(source, NOTHING * k + source[:-k]) for source in sources]
    return generated_pairs("copy-back", pairs, f"over {SYMBOLS[:n_symbols]}, {k} places back; generated, seed {seed}")


def load_list(seed: int = 0, n: int = 2_000, k: int = 4, n_symbols: int = 8, length: int = 12) -> ListData:
    """n different items of `length` symbols, of which all but the first k are told by the one k places before.

    >>> load_list(n=2000).items[0]
    'GDCEGDCEGDCE'
    """
    _require_distance(k, length)
    beginnings = draw_sequences(seed, n, n_symbols, shortest=k, longest=k)
    items = [(beginning * (length // k + 1))[:length] for beginning in beginnings]
    return ListData(
        name="copy-back",
        items=items,
        random_nats=k * math.log(n_symbols),
        because=f"over {SYMBOLS[:n_symbols]}, each as {k} places before; generated, seed {seed}",
        fingerprint=hashlib.sha256("\n".join(items).encode()).hexdigest(),
    )


def _require_distance(k: int, length: int) -> None:
    if not 1 <= k < length <= LONGEST_SEQUENCE:
        raise PellucidError(
            f"in {length:,} symbols none stands {k:,} places before another",
            fix=f"Choose k from 1 to length - 1, and a length of at most {LONGEST_SEQUENCE:,}",
        )


DATASET = DatasetCard(
    name="copy-back",
    kind="pairs",
    summary="symbols and at each place the one k places before, as BADC and --BA; or items that repeat every k",
    source="the delayed copy by which memory and positions are tried",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
    also={"list": load_list},
)
