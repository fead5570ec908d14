"""The exam's decoder that sorts and drops doubles, with every matrix given: small enough to compute on paper.

One layer, one head, no feed-forward, no residual, no positions; the embedding is also what scores are read off with:

    X = E[tokens],  Q = X·W_Q,  K = X·W_K,  V = X·W_V,  Z = A·V,  logits = Z·W_O·Eᵀ

A is causal attention at temperature zero, all weight on the best keys, shared among equals; or softargmax at T = √d.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError, quoted
from pellucid.layers.attention import attend
from pellucid.layers.heads import joined
from pellucid.layers.masks import CAUSAL
from pellucid.records.attention import HandSetModel, Matrix

VOCABULARY = ("A", "B", "C", "D", "START", "STOP")
EXAMPLE = ("D", "A", "A", "START", "A", "D", "STOP")
EMBEDDING = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 0))
PROJECTION = ((0, 3), (1, 2), (2, 1), (3, 0))  # W_Q = W_K = W_V
COMBINATION = ((0, 1, 0, 1), (1, 0, 1, 0))  # W_O
IDENTITY = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))  # W_O of the variant with two heads


class HandSetDecoder(nn.Module):
    """tokens: (time,) -> logits: (time, vocab). Its matrices are parameters, so a gradient can be asked for each.

    combination: W_O, a row for each number of each head. The heads begin alike, all with the exam's matrices.

    >>> HandSetDecoder(is_hard=True)(torch.tensor([3, 0])).tolist()
    [[0.0, 3.0, 0.0, 3.0, 0.0, 0.0], [3.0, 0.0, 3.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, *, is_hard: bool, combination: Sequence[Sequence[int]] = COMBINATION) -> None:
        super().__init__()
        self.is_hard = is_hard
        n_heads = len(combination) // len(PROJECTION[0])
        self.embedding = nn.Parameter(_tensor(EMBEDDING))
        # (heads, 4, 2) each
        self.queries, self.keys, self.values = (
            nn.Parameter(_tensor(PROJECTION).repeat(n_heads, 1, 1)) for _ in range(3)
        )
        self.combination = nn.Parameter(_tensor(combination))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scored(self.attended(tokens)[0])

    def attended(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Z, heads side by side, (time, heads · 2), and the attention matrices, (heads, time, time)."""
        stream = self.embedding[tokens]
        queries, keys, values = stream @ self.queries, stream @ self.keys, stream @ self.values  # (heads, time, 2)
        mixed, weights = attend(queries, keys, values, mask=CAUSAL, hard=self.is_hard, with_weights=True)
        return joined(mixed[None])[0], weights

    def scored(self, z: Tensor) -> Tensor:
        """(time, heads · 2) -> logits, (time, vocab)."""
        return z @ self.combination @ self.embedding.t()


@torch.no_grad()
def hand_set(model: HandSetDecoder, says: str, tokens: Sequence[str] = EXAMPLE) -> HandSetModel:
    """Every number on the way from the tokens to the loss on what follows START.

    The exam's key scores each output token at its own position, where it has already been read; its loss is
    `unshifted_loss`. A decoder has to score it one position before, and that is `shifted_loss`.

    >>> shown = hand_set(HandSetDecoder(is_hard=True), "hard")
    >>> [round(p, 4) for p in shown.own], round(shown.unshifted_loss, 4), round(shown.shifted_loss, 4)
    ([0.4547, 0.4547, 0.0717], 4.2114, 8.7973)
    """
    places = encoded(tokens)
    n_input = list(tokens).index("START") + 1
    z, weights = model.attended(places)
    logits = model.scored(z)
    probabilities = logits.softmax(-1)
    outputs = range(n_input, len(tokens))
    own = tuple([float(probabilities[at, places[at]]) for at in outputs])
    before = tuple([float(probabilities[at - 1, places[at]]) for at in outputs])
    return HandSetModel(
        says=says,
        tokens=tuple(tokens),
        vocabulary=VOCABULARY,
        n_input=n_input,
        attention=rows(weights[0]),
        z=rows(z),
        logits=rows(logits),
        probabilities=rows(probabilities),
        own=own,
        before=before,
        unshifted_loss=-float(torch.tensor(own, dtype=torch.float64).log().sum()),
        shifted_loss=-float(torch.tensor(before, dtype=torch.float64).log().sum()),
    )


def hand_set_variants(tokens: Sequence[str] = EXAMPLE) -> tuple[HandSetModel, ...]:
    """The exam's model, the same with softargmax, and the same with two heads and W_O = the identity.

    >>> [(shown.says, round(shown.unshifted_loss, 4)) for shown in hand_set_variants()]
    [('hard', 4.2114), ('softargmax, T = √2', 4.2131), ('hard, two heads, W_O = I', 10.2114)]
    """
    return (
        hand_set(HandSetDecoder(is_hard=True), "hard", tokens),
        hand_set(HandSetDecoder(is_hard=False), "softargmax, T = √2", tokens),
        hand_set(HandSetDecoder(is_hard=True, combination=IDENTITY), "hard, two heads, W_O = I", tokens),
    )


def encoded(tokens: Sequence[str]) -> Tensor:
    """Each token's row of the embedding. There has to be one START, and something behind it.

    >>> encoded(["B", "START", "B", "STOP"])
    tensor([1, 4, 1, 5])
    """
    for token in tokens:
        if token not in VOCABULARY:
            raise PellucidError(f"{quoted(token)} is no token of this model", fix=f"It has {', '.join(VOCABULARY)}")
    if list(tokens).count("START") != 1 or tokens[-1] == "START":
        raise PellucidError(
            f"{quoted(' '.join(tokens))} has no one START with an output behind it", fix=f"Try {' '.join(EXAMPLE)}"
        )
    return torch.tensor([VOCABULARY.index(token) for token in tokens])


def rows(matrix: Tensor) -> Matrix:
    """The matrix as plain numbers, for a record."""
    return tuple([tuple(row) for row in matrix.double().tolist()])


def _tensor(matrix: Sequence[Sequence[int]]) -> Tensor:
    return torch.tensor(matrix, dtype=torch.float64)
