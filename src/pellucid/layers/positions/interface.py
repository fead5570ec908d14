"""What every kind of positions answers, so that a network need not know which kind it has."""

from __future__ import annotations

from typing import Self

from torch import Tensor, nn


class Positions(nn.Module):
    """Where tokens stand. Each kind acts in one place, says which, and has nothing to give in the others.

    "nothing"             the tokens are a set
    "input"               `embeddings`: something is added to the embeddings, once, before the first block
    "queries and keys"    `angles`: queries and keys are turned in every block, values are not
    "scores"              `bias`: something is added to the scores of every block
    """

    acts_on: str = "nothing"

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> Self:
        """As a network has it, for up to `length` tokens of `width` numbers, shared by `n_heads` heads."""
        return cls()

    def embeddings(self, start: int, end: int) -> Tensor | None:
        """To the embeddings of the tokens from `start` up to `end`: (end - start, width)."""
        return None

    def angles(self, start: int, end: int) -> Tensor | None:
        """Cosines and sines for `rotate`, of the tokens from `start` up to `end`: (end - start, head_width / 2, 2)."""
        return None

    def bias(self, n: int, time: int) -> Tensor | None:
        """To the scores of the last n of `time` tokens, which ask all of them: (heads, n, time).

        It depends on distances alone, so the last row for a long `time` ends with the last row for a shorter one.
        """
        return None


class NoPositions(Positions):
    """Attention as it is: it gathers from a set. Under a causal mask, how many came before can still be learned.

    >>> NoPositions().embeddings(0, 3), NoPositions().bias(2, 3)
    (None, None)
    """
