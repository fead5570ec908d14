"""Equal rows and near-duplicates, and whether they stand on two sides.

Items are near when they are equal but for case, spaces and punctuation, or one edit apart: a character put in, left
out or exchanged. Every string is turned into the hashes of its variants: with one place blanked out, with one place
left out, and whole. Two strings of equal length are one exchange apart exactly when they share a variant with the same
place blanked out; one is the other with a character more exactly when it is one of the other's shorter variants. So
the cost is the number of characters, not of pairs. Rows are near when they are equal once what names them is left out
and small differences are rounded.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits import SIDES
from pellucid.data.splits.assignment import SideNumbers
from pellucid.data.splits.distributions import Levels
from pellucid.data.splits.hashing import Words, item_hashes, mix, row_hashes
from pellucid.errors import printable
from pellucid.records import Statement, Straddle, make_note

if TYPE_CHECKING:
    import polars as pl

MOST_EXAMPLES = 3
SHORTEST = 4  # below it, most strings are one edit from some other
LONGEST = 32
MOST_CHARACTERS = 20_000_000  # of all items together; beyond it edits are not looked for
BLANK = 0x110000  # one past the last code point
_PIECE = 1 << 15
_UNSPOKEN = {code: None for code in range(128) if not chr(code).isalnum()}
DIGITS = 4  # significant ones that fractions are rounded to
TELLING = 0.5  # below this part of different rows, equality is no sign of a copy


@dataclass(frozen=True)
class Twins:
    """How many different things there are, and how many rows of each side have an equal one in train."""

    n_distinct: int
    n_shared: tuple[int, ...]  # of dev, of test
    examples: tuple[int, ...]  # rows of dev or test


def find_twins(hashes: Words, sides: SideNumbers) -> Twins:
    """Rows with equal hashes on different sides, found by one sort of 62 bits of hash with the side behind them."""
    if not len(hashes):
        return Twins(0, (0, 0), ())
    keys = (hashes & ~np.uint64(3)) | sides.astype(np.uint64)
    keys.sort()
    things = keys >> np.uint64(2)
    is_new = np.concatenate([[True], things[1:] != things[:-1]])
    n_distinct = int(is_new.sum())
    if n_distinct == len(keys) or not ((keys[1:] != keys[:-1]) & ~is_new[1:]).any():
        return Twins(n_distinct, (0, 0), ())
    sides_sorted = (keys & np.uint64(3)).astype(np.int8)
    # Inside a run of equal things train stands first.
    begins_in_train = (sides_sorted == 0)[is_new][np.cumsum(is_new) - 1]
    shared = [begins_in_train & (sides_sorted == side) for side in range(1, len(SIDES))]
    rows = []
    for thing in np.unique(things[shared[0] | shared[1]])[:MOST_EXAMPLES]:
        rows.append(int(np.flatnonzero(((hashes >> np.uint64(2)) == thing) & (sides > 0))[0]))
    return Twins(n_distinct, tuple(int(one.sum()) for one in shared), tuple(rows))


def straddles(
    found: Twins, sides: SideNumbers, what: str, *, is_leak: bool, show: Callable[[int], str]
) -> list[Straddle]:
    """One record for dev and one for test. `show` writes a row as words."""
    examples = tuple(show(row) for row in found.examples)
    return [
        Straddle(what, side, found.n_shared[number - 1], int(np.count_nonzero(sides == number)), is_leak, examples)
        for number, side in enumerate(SIDES[1:], 1)
    ]


def is_in_train(hashes: Words, sides: SideNumbers) -> NDArray[np.bool_]:
    """(row,): whether it stands in dev or test and has an equal in train."""
    found = np.zeros(len(hashes), dtype=bool)
    is_held = sides > 0
    found[is_held] = np.isin(hashes[is_held], hashes[~is_held])
    return found


def near_items(items: Sequence[str], sides: SideNumbers, noun: str) -> tuple[list[Straddle], list[Statement]]:
    """Near-duplicates of dev and test items in train, copies left out, and notes on what was not looked for."""
    is_copy = is_in_train(item_hashes(items), sides)
    is_alike = is_in_train(item_hashes([fold_text(item) for item in items]), sides) & ~is_copy
    alike = f"{noun} equal but for case, spaces and punctuation"
    found = {alike: is_alike}
    notes = []
    train = [items[row] for row in np.flatnonzero(sides == 0).tolist()]
    n_characters = sum(map(len, items))
    if n_characters <= MOST_CHARACTERS:
        held = np.flatnonzero((sides > 0) & ~is_copy & ~is_alike)
        is_close = np.zeros(len(items), dtype=bool)
        is_close[held] = one_edit_apart([items[row] for row in held.tolist()], train)
        found[f"{noun} one edit apart, 4 to 32 characters long"] = is_close
    else:
        notes.append(make_note("edits-not-looked-for", noun=noun, n_characters=n_characters))
    straddling = []
    for what, is_near in found.items():
        for number, side in enumerate(SIDES[1:], 1):
            rows = np.flatnonzero(is_near & (sides == number))
            examples = [_with_twin(items[row], train, what == alike) for row in rows[:MOST_EXAMPLES]]
            straddling.append(Straddle(what, side, len(rows), int((sides == number).sum()), False, tuple(examples)))
    return straddling, notes


def _with_twin(item: str, train: list[str], is_alike: bool) -> str:
    """The item and the first training item that it nearly is."""
    if is_alike:
        twin = next(other for other in train if fold_text(other) == fold_text(item))
    else:
        twin = next(other for other in train if is_one_edit(item, other))
    return f"{printable(item[:40])} ~ {printable(twin[:40])}"


def fold_text(item: str) -> str:
    """The letters and digits of an item without case; the item itself where it has none.

    >>> fold_text("Mary-Ann "), fold_text("MARY ANN"), fold_text("...")
    ('maryann', 'maryann', '...')
    """
    if item.isascii():
        return item.lower().translate(_UNSPOKEN) or item
    plain = unicodedata.normalize("NFKC", item).casefold()
    return "".join(c for c in plain if c.isalnum()) or item


def one_edit_apart(held: Sequence[str], train: Sequence[str]) -> NDArray[np.bool_]:
    """(held item,): whether some training item is exactly one edit away. Items outside 4..32 characters have none.

    >>> one_edit_apart(["marie", "anna", "otto"], ["maria", "annas", "anna", "toto"]).tolist()
    [True, True, False]
    """
    of_train = [_variants(train, length) for length in range(SHORTEST, LONGEST + 1)]
    found = np.zeros(len(held), dtype=bool)
    lengths = np.array([len(item) for item in held])
    for number, length in enumerate(range(SHORTEST, LONGEST + 1)):
        places = np.flatnonzero(lengths == length).tolist()
        if not len(places):
            continue
        whole, blanked, shorter = _hashes([held[place] for place in places], length)
        known_whole, known_blanked, _ = of_train[number]
        # A training item equal to this one would blank out to the same variants, and is no edit away.
        is_known = np.isin(whole, known_whole)
        copies = np.isin(blanked, known_blanked)
        if is_known.any():
            ranked, own = np.sort(known_blanked), blanked[is_known]
            copies[is_known] = np.searchsorted(ranked, own, "right") - np.searchsorted(ranked, own, "left") > 1
        found[places] |= copies.any(axis=1)
        if number > 0:
            found[places] |= np.isin(shorter, of_train[number - 1][0]).any(axis=1)
        if number + 1 < len(of_train):
            found[places] |= np.isin(whole, of_train[number + 1][2])
    return found


def is_one_edit(first: str, second: str) -> bool:
    """Whether a character put in, left out or exchanged turns one into the other.

    >>> is_one_edit("anna", "hanna"), is_one_edit("anna", "anne"), is_one_edit("anna", "anna")
    (True, True, False)
    """
    short, long = sorted((first, second), key=len)
    if len(long) - len(short) > 1 or first == second:
        return False
    same = next((place for place, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def _variants(items: Sequence[str], length: int) -> tuple[Words, Words, Words]:
    """The variants of all different items of one length: whole, with a blank, and one shorter."""
    wholes, blanks, shorts = [], [], []
    chosen = sorted({item for item in items if len(item) == length})
    for start in range(0, len(chosen), _PIECE):
        whole, blanked, shorter = _hashes(chosen[start : start + _PIECE], length)
        wholes.append(whole)
        blanks.append(blanked.ravel())
        shorts.append(shorter.ravel())
    if not wholes:
        none = np.zeros(0, dtype=np.uint64)
        return none, none, none
    return np.concatenate(wholes), np.concatenate(blanks), np.unique(np.concatenate(shorts))


def _hashes(items: Sequence[str], length: int) -> tuple[Words, Words, Words]:
    """(item,), (item, place) and (item, place): a string hashes to the sum of a word for each place and character."""
    raw = "".join(items).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(raw, dtype="<u4").astype(np.uint64).reshape(len(items), length)
    places = np.arange(length, dtype=np.uint64) << np.uint64(32)
    words = mix(characters + places)
    earlier = np.zeros_like(words)  # the same characters, each one place further left
    earlier[:, 1:] = mix(characters[:, 1:] + places[:-1])
    blanks = mix(places + np.uint64(BLANK))
    whole = words.sum(axis=1, dtype=np.uint64)
    before = np.cumsum(words, axis=1, dtype=np.uint64) - words
    after = earlier.sum(axis=1, dtype=np.uint64)[:, None] - np.cumsum(earlier, axis=1, dtype=np.uint64)
    return whole, whole[:, None] - words + blanks, before + after


def near_rows(
    frame: "pl.DataFrame",
    levels: Mapping[str, Levels],
    sides: SideNumbers,
    left_out: Sequence[str],
    show: Callable[[int], str],
) -> tuple[list[Straddle], list[Statement]]:
    """Rows of dev and test that have such a twin in train, and notes where equality would say nothing.

    Left out are the key and order columns and whole numbers that differ in every row, such as an id.
    """
    import polars as pl

    n = frame.height
    whole = {name: one for name, one in levels.items() if one.n_levels >= n and frame[name].dtype.is_integer()}
    ids = [name for name, one in whole.items() if int((one.totals > 0).sum()) == n]
    without = list(dict.fromkeys([*left_out, *ids]))
    kept = [name for name in frame.columns if name not in without]
    is_blurred = any(frame[name].dtype.is_float() or frame[name].dtype == pl.String for name in kept)
    if not kept or not (without or is_blurred):
        return [], []
    most = float(np.prod([float(levels[name].n_levels) if name in levels else float(n) for name in kept]))
    if most < TELLING * n:
        return [], [make_note("near-not-counted", without=without, n_rows=n, n_forms=int(most))]
    hashes = row_hashes(frame.select([_blur(frame[name]) for name in kept]))
    found = find_twins(hashes, sides)
    if found.n_distinct < TELLING * n:
        return [], [make_note("near-not-counted", without=without, n_rows=n, n_forms=found.n_distinct)]
    words = f"without {', '.join(without)}" if without else "after rounding"
    what = f"rows equal {words}, fractions to {DIGITS} digits, text without case, spaces and punctuation"
    return straddles(found, sides, what, is_leak=False, show=show), []


def _blur(column: "pl.Series") -> "pl.Series":
    import polars as pl

    if column.dtype.is_float():
        return column.round_sig_figs(DIGITS)
    if column.dtype == pl.String:
        distinct = column.drop_nulls().unique()
        return column.replace_strict(
            distinct, pl.Series([fold_text(one) for one in distinct.to_list()], dtype=pl.String)
        )
    return column
