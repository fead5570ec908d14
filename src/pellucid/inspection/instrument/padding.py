"""Where a batch's padding is: as a mask or lengths tell that come with it, or as it looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.specimen import Specimen

FEWEST_ROWS = 2  # that have padding


class PaddingFound(NamedTuple):
    token: int
    places: Tensor  # (batch, time), yes or no


class KnownPadding(NamedTuple):
    """Where a batch's padding is, and how that is known."""

    places: Tensor  # (batch, time), yes for padding
    how: str
    told_by: int | None  # the input that tells it, so that a module that takes it is meant to leave padding out


def find_known_padding(specimen: Specimen, place: int) -> Iterator[KnownPadding]:
    """The padding of a sequence, as an input tells or as it looks, the surest first."""
    given: Tensor = specimen.inputs[place]
    looks = _padding_by_looks(given)
    for other, one in enumerate(specimen.inputs):
        if other == place or not isinstance(one, Tensor):
            continue
        told = _padding_told(one, given, looks)
        if told is not None:
            yield KnownPadding(told, f"input {other} tells", other)
    if looks is not None:
        yield KnownPadding(looks, "rows are filled up with one value", None)


def _padding_by_looks(given: Tensor) -> Tensor | None:
    """Padding that is seen: one token, or zeros, at the ends of rows of different lengths."""
    if not given.is_floating_point():
        found = find_padding(given)
        return None if found is None else found.places
    found = find_padding((given == 0).flatten(2).all(-1).long())
    return None if found is None or found.token != 1 else found.places


def _padding_told(one: Tensor, given: Tensor, looks: Tensor | None) -> Tensor | None:
    """What a mask or lengths say is padding, whichever way round a mask is written; None where it cannot be told."""
    n_rows, length = given.shape[:2]
    if one.shape == (n_rows,) and not one.is_floating_point() and one.dtype is not torch.bool:
        is_length = (
            bool(((one > 0) & (one <= length)).all()) and int(one.max()) == length and len(set(one.tolist())) > 1
        )
        return torch.arange(length) >= one[:, None] if is_length else None
    if one.dim() < 2 or one.numel() != n_rows * length or one.shape[0] != n_rows or one.shape[-1] != length:
        return None
    mask = one.reshape(n_rows, length)
    if not bool(((mask == 0) | (mask == 1)).all()):
        return None
    mask = mask.bool()
    if not bool(mask.any()) or bool(mask.all()):
        return None
    for hidden in (mask, ~mask):
        # The ends of rows, or their beginnings, are hidden, and of some row nothing.
        is_end = torch.equal(hidden, hidden.long().cummax(1).values.bool())
        is_beginning = torch.equal(hidden.flip(1), hidden.flip(1).long().cummax(1).values.bool())
        if looks is not None and torch.equal(hidden, looks):
            return hidden
        if not bool((given[hidden] == given[hidden][:1]).all()):
            continue  # what fills rows up is the same everywhere; this tells something else, as which of two parts
        if (is_end or is_beginning) and not bool(hidden.all(1).any()) and bool((~hidden).all(1).any()):
            return hidden
    return None


def find_padding(tokens: Tensor) -> PaddingFound | None:
    """The token that fills rows up, at their ends or at their beginnings, and where it stands; None without one.

    >>> find_padding(torch.tensor([[5, 3, 0, 0, 0], [4, 6, 2, 0, 0]])).token
    0
    >>> find_padding(torch.tensor([[5, 3, 2, 0, 0], [4, 0, 2, 0, 0]]))
    """
    if tokens.is_floating_point() or tokens.dim() != 2 or tokens.shape[1] < 3:
        return None
    for side in (tokens, tokens.flip(1)):
        last = side[:, -1]
        token = int(last.mode().values)
        is_it = side == token
        run = is_it.flip(1).long().cumprod(1).flip(1).bool()  # unbroken up to the end
        lengths = run.sum(1)
        n_padded = int((lengths > 1).sum())
        # Rows of one length may end alike by what they are; and a row of nothing else tells no length.
        if n_padded >= FEWEST_ROWS and torch.equal(run, is_it) and len(lengths.unique()) > 1:  # type: ignore[no-untyped-call]
            return PaddingFound(token, run if side is tokens else run.flip(1))
    return None
