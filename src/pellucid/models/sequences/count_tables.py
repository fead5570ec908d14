"""An n-gram as tensors: what `models/counting` keeps in NumPy, for programs that have torch or ONNX and no pellucid.

It answers as `NGram` does, in single precision. Everything is made of gathers, comparisons and one scatter for each
order, so that it can be written down as a graph; places are found by halving, which is the same for every length.

    order with a full table    probability (|V|ⁿ⁻¹, |V|), by the code of the context
    any other                  rows, sorted codes of the contexts seen; first, where the grams of each begin, and behind
                               the last where all end; codes and probability of the grams; rest, what each hands on
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.models.counting.ngram import NGram

SMALLEST = 1e-38  # whose logarithm is finite in single precision


class OrderSize(NamedTuple):
    """How large the tables of one order are. A full one has no rows."""

    grams: int
    rows: int = 0
    longest_row: int = 0  # different tokens after one context, at most
    is_ranked: bool = False  # codes of its grams become ranks, to leave room for more digits


class CountTables(nn.Module):
    """tokens: (batch, time) -> log-probabilities of what comes after each, (batch, time, vocab).

    >>> import numpy as np
    >>> from pellucid.data.prepare.tokens import Corpus
    >>> from pellucid.models.counting.ngram import NGramConfig
    >>> counts = NGram.fit(Corpus(np.array([0, 1, 2, 2, 0, 1, 0]), has_boundary=True), NGramConfig(3, order=3))
    >>> CountTables.of(counts)(torch.tensor([[0, 1]])).exp()[0, 1], np.exp(counts.after_each(np.array([0, 1])))[1]
    (tensor([0.3533, 0.2933, 0.3533]), array([0.35333333, 0.29333333, 0.35333333]))
    """

    def __init__(self, vocab_size: int, has_boundary: bool, orders: tuple[OrderSize, ...]) -> None:
        super().__init__()
        self.vocab_size, self.has_boundary, self.orders = vocab_size, has_boundary, orders
        for number, size in enumerate(orders):
            self._add(f"probability_{number}", torch.zeros(size.grams))
            if size.rows:
                self._add(f"rest_{number}", torch.zeros(size.rows))
                self._add(f"rows_{number}", torch.zeros(size.rows, dtype=torch.long))
                self._add(f"first_{number}", torch.zeros(size.rows + 1, dtype=torch.long))
                self._add(f"codes_{number}", torch.zeros(size.grams, dtype=torch.long))

    def _add(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor)

    @classmethod
    def of(cls, counts: NGram) -> CountTables:
        """The tables of a model in which every order leans on the shorter one."""
        assert counts.smoothing.leans_on_shorter, "evenly shared rests are not written down"
        sizes, tensors = [], {}
        for number, order in enumerate(counts.orders):
            level, found = order.level, {"probability": order.probability}
            size = OrderSize(len(order.probability), is_ranked=level.order in counts.grams.ranked)
            if not level.is_dense:
                size = size._replace(rows=level.n_rows, longest_row=int(level.row_lengths.max()))
                first = [*level.row_starts.tolist(), len(level.codes)]
                found |= {"rest": order.rest[:-1], "rows": level.rows, "codes": level.codes}
                tensors[f"first_{number}"] = torch.tensor(first)
            sizes.append(size)
            tensors |= {f"{name}_{number}": torch.from_numpy(array) for name, array in found.items()}
        tables = cls(counts.vocab_size, counts.has_boundary, tuple(sizes))
        tables.load_state_dict({name: tensor.to(getattr(tables, name).dtype) for name, tensor in tensors.items()})
        return tables

    def forward(self, tokens: Tensor) -> Tensor:
        shape, vocab_size = tokens.shape, self.vocab_size
        contexts = [codes.reshape(-1) for codes in self._contexts(tokens)]
        # One column more than there are tokens: what has no place is written there.
        found = torch.full((shape[0] * shape[1], vocab_size + 1), 1 / vocab_size, device=tokens.device)
        for number, (codes, size) in enumerate(zip(contexts, self.orders, strict=True)):
            probability = getattr(self, f"probability_{number}")
            if not size.rows:
                table = torch.nn.functional.pad(probability.reshape(-1, vocab_size), (0, 1))
                found = torch.where((codes >= 0)[:, None], table[codes.clamp(min=0)], found)
                continue
            rest, first, grams = (getattr(self, f"{name}_{number}") for name in ("rest", "first", "codes"))
            places, is_known = find_sorted(getattr(self, f"rows_{number}"), codes)
            found = torch.where(is_known[:, None], found * rest[places][:, None], found)
            # The grams of each context, as many as the context with the most has; those of the next one are left out.
            at = first[places][:, None] + torch.arange(size.longest_row, device=tokens.device)
            is_own = (at < first[places + 1][:, None]) & is_known[:, None]
            at = at.clamp(max=size.grams - 1)
            columns = torch.where(is_own, grams[at] % vocab_size, vocab_size)
            found = found.scatter(1, columns, probability[at])
        return found[:, :vocab_size].clamp(min=SMALLEST).log().reshape(shape[0], shape[1], vocab_size)

    def _contexts(self, tokens: Tensor) -> list[Tensor]:
        """The code of the last 0, 1, 2, … tokens at each place; below 0 where a text has not so many."""
        codes = [torch.zeros_like(tokens)]
        for number, size in enumerate(self.orders[:-1]):
            start = 0 if self.has_boundary or number == 0 else -1
            before = torch.nn.functional.pad(codes[-1][:, :-1], (1, 0), value=start)
            grams = before * self.vocab_size + tokens
            if self.has_boundary:
                grams = grams * (tokens != 0)  # nothing before a boundary is looked at
            if size.is_ranked:
                places, is_known = find_sorted(getattr(self, f"codes_{number}"), grams)
                ranks = 1 + torch.where(is_known, places, size.grams)
                ranks = ranks * (tokens != 0) if self.has_boundary else ranks
                grams = torch.where(grams < 0, grams, ranks)
            codes.append(grams)
        return codes


def find_sorted(known: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The place of each wanted number among sorted ones, and whether it is there at all.

    >>> find_sorted(torch.tensor([2, 5, 9]), torch.tensor([5, 6]))
    (tensor([1, 2]), tensor([ True, False]))
    """
    places = torch.zeros_like(wanted)
    step = 1 << (len(known).bit_length() - 1)
    while step:
        further = places + step
        is_before = (further <= len(known)) & (known[further.clamp(max=len(known)) - 1] < wanted)
        places = torch.where(is_before, further, places)
        step //= 2
    places = places.clamp(max=len(known) - 1)
    return places, known[places] == wanted
