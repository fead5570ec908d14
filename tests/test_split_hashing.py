"""The hashes: as documented, against oracles in plain Python, and the same wherever they are made."""

import hashlib
import math
import struct

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.data.splits.assignment import sides_of, split_list
from pellucid.data.splits.hashing import item_hashes, row_hashes
from pellucid.errors import PellucidError

# `printf emma | b2sum -l 64`, read backwards because the number is little-endian.
KNOWN = {
    "emma": "58d3dfa3a5f7b71f",
    "": "e4a6a0577479b2b4",
    "żółw": hashlib.blake2b("żółw".encode(), digest_size=8).hexdigest(),
}
MASK = (1 << 64) - 1


def splitmix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def word_of(cell: object) -> int:
    """The documented word of one cell, written out."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return 0x6E6F74206B6E6F77
    if isinstance(cell, str):
        return int.from_bytes(hashlib.blake2b(cell.encode(), digest_size=8).digest(), "little")
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < 2**53):
        return int(struct.unpack("<Q", struct.pack("<d", cell))[0])
    return int(cell) & MASK  # type: ignore[call-overload]


def hash_of_row(cells: tuple[object, ...], seed: str = "") -> int:
    state = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "little")
    for cell in cells:
        state = splitmix((state + 0x9E3779B97F4A7C15 + word_of(cell)) & MASK)
    return state


@pytest.mark.parametrize("item", KNOWN)
def test_an_item_hashes_to_its_blake2b(item):
    assert item_hashes([item])[0] == int.from_bytes(bytes.fromhex(KNOWN[item]), "little")


cells = st.tuples(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.none(), st.floats()),
    st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5)),
    st.one_of(st.none(), st.booleans()),
)


@settings(max_examples=examples(50))
@given(st.lists(cells, min_size=1, max_size=30), st.sampled_from(["", "a", "x" * 100]))
def test_a_row_hashes_as_documented(rows, seed):
    schema = {"whole": pl.Int64, "fraction": pl.Float64, "text": pl.String, "truth": pl.Boolean}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    key = seed if len(seed) <= 64 else None
    if key is None:
        assert len(set(row_hashes(frame, seed=seed).tolist())) <= len(rows)
    else:
        assert row_hashes(frame, seed=seed).tolist() == [hash_of_row(row, seed) for row in rows]


def test_a_column_keeps_its_hashes_when_the_first_fraction_arrives():
    whole = pl.DataFrame({"x": [1, 0, -7, 2**40]})
    mixed = pl.DataFrame({"x": [1.0, -0.0, -7.0, float(2**40), 0.5]})
    assert row_hashes(mixed)[:4].tolist() == row_hashes(whole).tolist()


def test_instants_hash_alike_in_every_unit():
    from datetime import UTC, datetime

    column = pl.Series("t", [datetime(2024, 1, 31, 12, tzinfo=UTC), None])
    hashes = [row_hashes(pl.DataFrame([column.dt.cast_time_unit(unit)])).tolist() for unit in ("ms", "us", "ns")]
    assert hashes[0] == hashes[1] == hashes[2]


def test_categories_hash_as_their_text():
    column = pl.Series("c", ["a", "b", None, "a"])
    kinds = [pl.String, pl.Categorical, pl.Enum(["b", "a"])]
    hashes = [row_hashes(pl.DataFrame([column.cast(kind)])).tolist() for kind in kinds]
    assert hashes[0] == hashes[1] == hashes[2]


def test_columns_without_a_hash_are_refused():
    with pytest.raises(PellucidError, match="'boxes' holds List"):
        row_hashes(pl.DataFrame({"boxes": [[1, 2]]}))


def test_the_order_of_columns_matters_and_the_seed_too():
    frame = pl.DataFrame({"a": [1, 2], "b": [2, 1]})
    assert row_hashes(frame)[0] != row_hashes(frame)[1]
    assert row_hashes(frame, ["b"])[0] == row_hashes(frame, ["a"])[1]
    assert row_hashes(frame, seed="1")[0] != row_hashes(frame)[0]


def test_hashes_are_uniform():
    """Each bit of 20,000 hashes is set as often as not; the odds of any of 64 straying 5 sigma are 1 in 20,000."""
    for hashes in (item_hashes(map(str, range(20_000))), row_hashes(pl.DataFrame({"x": range(20_000)}))):
        bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
        assert (np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / math.sqrt(20_000)).all()


items = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=40)


@given(items, items, st.randoms())
def test_an_items_side_depends_on_the_item_alone(first, second, shuffle):
    together = [*first, *second]
    sides = dict(zip(together, sides_of(together).tolist(), strict=True))
    shuffled = list(together)
    shuffle.shuffle(shuffled)
    assert [sides[item] for item in shuffled] == sides_of(shuffled).tolist()
    assert sides_of(first).tolist() == [sides[item] for item in first]


def test_split_list_keeps_everything_in_order():
    names = [f"name{number % 700}" for number in range(1000)]
    split = split_list(names)
    assert sorted([*split.train, *split.dev, *split.test]) == sorted(names)
    assert not set(split.train) & set(split.dev)
    assert not set(split.train) & set(split.test)
    assert split.train == [name for name in names if name in set(split.train)]


def test_shares_come_near_the_fractions():
    """Of 100,000 items; 5 sigma of a binomial is less than 0.7 %."""
    sides = sides_of([str(number) for number in range(100_000)], (0.6, 0.3, 0.1))
    assert np.abs(np.bincount(sides) / 100_000 - [0.6, 0.3, 0.1]).max() < 0.007
