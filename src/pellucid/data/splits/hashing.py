"""Hashes that are the same on every machine, in every locale, with any number of threads.

An item of a list: the 8-byte BLAKE2b of its UTF-8 bytes (`b2sum -l 64`) as a little-endian number. A seed is its key.

A row of a table: `state = mix(state + GOLDEN + word)` over its columns from left to right, where `mix` is the finaliser
of splitmix64 and `word` is
- for a whole number, a truth value or an instant (in microseconds) the number itself, as 64 bits;
- for a fraction the bits of its float64; a float that is a whole number counts as that number, so that a column keeps
  its hashes when the first fraction is appended to it, and -0.0 counts as 0;
- for text the hash of the text as an item, without seed;
- one constant for a missing value or nan.

Python's own hash depends on the process and polars' on its version, so neither is used.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import polars as pl

Words = NDArray[np.uint64]
WordPieces = Iterator[tuple[int, Words]]  # the row that each piece begins at, and its words

GOLDEN = 0x9E3779B97F4A7C15
MISSING = 0x6E6F74206B6E6F77  # "not know"
PIECE = 1 << 14  # rows whose words stay in the processor's cache from one pass to the next
LARGEST_WHOLE = 2.0**53  # beyond it a float64 is no exact count


def item_hashes(items: Iterable[str], seed: str = "") -> Words:
    """One 64-bit hash for each item.

    >>> [f"{word:016x}" for word in item_hashes(["emma", "olivia", "emma"]).tolist()]
    ['1fb7f7a5a3dfd358', 'a13c3e922f1d5cd9', '1fb7f7a5a3dfd358']
    """
    start = hashlib.blake2b(digest_size=8, key=_key(seed))

    def digest(item: str) -> bytes:
        hashed = start.copy()
        hashed.update(item.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    rest = iter(items)
    found = bytearray()  # it grows in its place: of ten million items pieces, their sum and a copy were 240 MB
    while piece := [digest(item) for item in islice(rest, PIECE)]:
        found += b"".join(piece)
    return np.frombuffer(found, dtype="<u8").astype(np.uint64, copy=False)


def row_hashes(
    frame: "pl.DataFrame",
    columns: Sequence[str] = (),
    seed: str = "",
    known: Mapping[str, Callable[[], WordPieces]] | None = None,
) -> Words:
    """One 64-bit hash for each row, of the named columns or of all, from left to right.

    known: the words of columns whose words are known already.
    """
    state = np.full(frame.height, seed_word(seed), dtype=np.uint64)
    for name in columns or frame.columns:
        for start, words in known[name]() if known and name in known else _word_pieces(frame[name]):
            piece = state[start : start + len(words)]
            piece += words
            piece += np.uint64(GOLDEN)
            mix(piece)
    return state


def numbered_hashes(n: int, seed: str) -> Words:
    """One 64-bit hash for each row number: what a seeded shuffle is made of."""
    state = np.arange(1, n + 1, dtype=np.uint64)
    state *= np.uint64(GOLDEN)
    state += np.uint64(seed_word(seed))
    return mix(state)


def mix(words: Words) -> Words:
    """The finaliser of splitmix64, in place: every bit of the input moves half the bits of the output.

    >>> f"{mix(np.array([GOLDEN], dtype=np.uint64))[0]:016x}"  # the first number of splitmix64 with seed 0
    'e220a8397b1dcdaf'
    """
    flat = words.reshape(-1)
    assert np.shares_memory(flat, words) or not words.size
    shifted = np.empty(min(len(flat), PIECE), dtype=np.uint64)
    # Piece by piece, so that all five passes find their words in the processor's cache.
    for start in range(0, len(flat), PIECE):
        piece = flat[start : start + PIECE]
        beside = shifted[: len(piece)]
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            np.right_shift(piece, np.uint64(shift), out=beside)
            np.bitwise_xor(piece, beside, out=piece)
            if factor != 1:
                np.multiply(piece, np.uint64(factor), out=piece)
    return words


def seed_word(seed: str) -> int:
    """The seed of a table's hashes and of shuffles, as a number."""
    return int.from_bytes(hashlib.blake2b(_key(seed), digest_size=8).digest(), "little")


def _word_pieces(column: "pl.Series") -> WordPieces:
    if column.dtype.is_integer() and not column.null_count():
        for start, values in number_pieces(column):
            yield start, values.astype(np.int64, copy=False).view(np.uint64)
        return
    words = _words(column)
    for start in range(0, len(words), PIECE):
        yield start, words[start : start + PIECE]


def _words(column: "pl.Series") -> Words:
    """The 64 bits that stand for each value of a column."""
    import polars as pl

    kind = column.dtype
    if kind.is_float() or kind.is_decimal():
        words = _float_words(column.cast(pl.Float64).to_numpy())  # nan where it is missing
    elif kind == pl.String or isinstance(kind, pl.Enum | pl.Categorical):
        words = _text_words(column.cast(pl.String))
    elif kind.is_integer() or kind == pl.Boolean or kind.is_temporal():
        words = whole_numbers(column).to_numpy().astype(np.int64, copy=False).view(np.uint64)
    elif kind == pl.Null:
        words = np.zeros(len(column), dtype=np.uint64)
    else:
        raise PellucidError(
            f"column {quoted(column.name)} holds {kind}, which has no hash", fix="Leave it out or write it as text"
        )
    if column.null_count():
        words = np.where(column.is_null().to_numpy(), np.uint64(MISSING), words)
    return words


def whole_numbers(column: "pl.Series") -> "pl.Series":
    """The values of a whole-number, truth or time column as integers; 0 where missing; instants in microseconds."""
    import polars as pl

    kind = column.dtype
    if isinstance(kind, pl.Datetime):
        column = column.cast(pl.Datetime("us", kind.time_zone))
    elif isinstance(kind, pl.Duration):
        column = column.cast(pl.Duration("us"))
    if kind == pl.Boolean:
        column = column.cast(pl.Int8)
    column = column.to_physical()
    return column.fill_null(0) if column.null_count() else column


def number_pieces(numbers: "pl.Series") -> Iterator[tuple[int, NDArray[Any]]]:
    """Some numbers of a column at a time, and the row that they begin at; none of them is missing.

    A column that was read in chunks is gone through chunk by chunk: one array of all of them would be a copy.

    >>> import polars as pl
    >>> column = pl.concat([pl.Series([1, 2]), pl.Series([3])], rechunk=False)
    >>> [(start, numbers.tolist()) for start, numbers in number_pieces(column)]
    [(0, [1, 2]), (2, [3])]
    """
    begin = 0
    for chunk in numbers.get_chunks():
        values = chunk.to_numpy()
        for start in range(0, len(values), PIECE):
            yield begin + start, values[start : start + PIECE]
        begin += len(values)


def _float_words(values: NDArray[np.float64]) -> Words:
    words = values.view(np.uint64).copy()
    is_whole = (np.floor(values) == values) & (np.abs(values) < LARGEST_WHOLE)
    words[is_whole] = values[is_whole].astype(np.int64).view(np.uint64)
    words[np.isnan(values)] = MISSING
    return words


def _text_words(column: "pl.Series") -> Words:
    import polars as pl

    distinct = column.drop_nulls().unique().sort()
    if 2 * len(distinct) > len(column):
        return item_hashes(column.fill_null("").to_list())
    codes = column.cast(pl.Enum(distinct)).to_physical().fill_null(0).to_numpy()
    return item_hashes(distinct.to_list())[codes] if len(distinct) else np.zeros(len(column), dtype=np.uint64)


def _key(seed: str) -> bytes:
    """The seed as a BLAKE2b key, which has at most 64 bytes."""
    raw = seed.encode("utf-8", "surrogatepass")
    return raw if len(raw) <= 64 else hashlib.blake2b(raw).digest()
