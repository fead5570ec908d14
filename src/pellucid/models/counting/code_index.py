"""Where codes of grams stand among the sorted ones that were seen.

By halving, each look-up costs as many jumps through memory as the codes have bits. Where a C compiler was there at
install, `_codes.c` keeps a table of slots instead, at which a code is found in one jump or two, and looks up many at a
time. Both give the same places.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pellucid.models.counting.count_model import FloatArray, IntArray

try:
    from pellucid.models.counting import _codes
except ImportError:  # it was installed without a C compiler
    _codes = None  # type: ignore[assignment]

CAN_SCORE = _codes is not None  # whole texts at once, by `CodeValues`
FEW = 4  # a table is worth making when at least a fourth as many codes are wanted as there are


class CodeIndex:
    """The places of codes among sorted ones that are all different.

    >>> CodeIndex(np.array([2, 5, 9])).find(np.array([9, 3, 2])).tolist()
    [2, 3, 0]
    """

    def __init__(self, codes: IntArray) -> None:
        self.codes = np.ascontiguousarray(codes, np.int64)

    def __reduce__(self) -> tuple[type[CodeIndex], tuple[IntArray]]:
        return CodeIndex, (self.codes,)

    def find(self, wanted: IntArray) -> IntArray:
        """The place of each wanted code, len(codes) where it is not among them."""
        if _codes is not None and ("_table" in self.__dict__ or wanted.size * FEW >= len(self.codes)):
            places = np.empty(wanted.size, np.int64)
            self._table.find(np.ascontiguousarray(wanted, np.int64).reshape(-1), places)
            return places.reshape(wanted.shape)
        if not len(self.codes):
            return np.zeros(wanted.shape, np.int64)
        places = np.searchsorted(self.codes, wanted)
        is_known = self.codes[np.minimum(places, len(self.codes) - 1)] == wanted
        return np.where(is_known, places, len(self.codes))

    @cached_property
    def _table(self) -> _codes.Index:
        return _codes.Index(self.codes)


class CodeValues:
    """The value of each code, to score whole texts by: compiled alone, without a twin in Python."""

    def __init__(self, codes: IntArray, values: FloatArray) -> None:
        self.codes, self.values = np.ascontiguousarray(codes, np.int64), np.ascontiguousarray(values, np.float64)

    def __reduce__(self) -> tuple[type[CodeValues], tuple[IntArray, FloatArray]]:
        return CodeValues, (self.codes, self.values)

    def score(
        self, tokens: IntArray, found: FloatArray, vocab_size: int, order: int, has_boundary: bool, closing: int
    ) -> int:
        """Fill in the value of the gram that ends with each of the last tokens, nan for one that is not there.

        tokens: (time,). found: (n,), for the last n tokens. The answer is how many are not there.
        """
        is_known = tokens.dtype.kind == "u" or tokens.dtype == np.int64
        row = np.ascontiguousarray(tokens, None if is_known else np.int64)
        return self._table.score(row, found, vocab_size, order, has_boundary, closing)

    @cached_property
    def _table(self) -> _codes.Values:
        return _codes.Values(self.codes, self.values)
