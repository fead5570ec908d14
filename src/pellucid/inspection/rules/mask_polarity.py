"""Padding must not be read, and what is no padding must: a mask the wrong way round hides the text and reads the rest.

Where the padding is, is known from a mask or lengths that come with the batch, from the token that fills rows up, or
from rows of zeros at the ends of float sequences. Then tokens are changed in both places: those of the padding must
leave what is put out for the rest as it was, and those of the text must not.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import precise_copy, repeatable_output, rounding_of
from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.loss_view import sequence_inputs
from pellucid.inspection.instrument.padding import KnownPadding, find_known_padding
from pellucid.inspection.instrument.perturbation import largest_change, size_of
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 3  # positions
MOST_ROWS = 4  # in which both are changed


def check(specimen: Specimen) -> Findings:
    for place in sequence_inputs(specimen):
        given: Tensor = specimen.inputs[place]
        if given.shape[1] < FEWEST:
            continue
        for padding in find_known_padding(specimen, place):
            found = list(_of_padding(specimen, place, padding))
            yield from found
            if found:
                return


def _of_padding(specimen: Specimen, place: int, padding: KnownPadding) -> Findings:
    copied = precise_copy(specimen)
    base = repeatable_output(copied)
    if base is None or not base.dim() or base.shape[0] != len(padding.places):
        return
    rows = _rows_with_both(padding.places)
    if not rows:
        return
    kept, hidden = (
        _moves(copied, base, place, rows, places, padding.places) for places in (~padding.places, padding.places)
    )
    if kept is None or hidden is None:
        return
    seen = (
        f"{padding.how} where the padding is; other values in the padding of {len(rows)} rows moved what is put out "
        f"for the rest by up to {hidden:.2g} of its size, and other values in the rest by {kept:.2g}"
    )
    rounding = rounding_of(base)
    if kept <= rounding < hidden:
        yield Finding.broken(
            "mask",
            seen + _when_turned(copied, place, rows, padding),
            "only padding is read, and what it fills up is hidden: the mask is the wrong way round",
            "turn the mask round (~mask): torch's key_padding_mask and bool attn_mask of MultiheadAttention hide what "
            "is True, those of scaled_dot_product_attention keep it",
            again=_again(specimen, place, padding),
        )
    elif kept <= rounding:
        if base.dim() >= 2 and base.shape[1] == padding.places.shape[1]:
            return  # each place is read by itself, and no mask is needed
        yield Finding.broken(
            "mask",
            seen,
            "neither padding nor what it fills up moves the outputs",
            "look at what the mask leaves to be read",
            again=_again(specimen, place, padding),
        )
    elif hidden > rounding and padding.told_by is not None:
        yield Finding.suspicious(
            "mask",
            seen,
            "padding is read as if it were text: the answer for a row depends on how long the others of its batch are",
            "leave padding out wherever positions meet: attention (mask the keys), means (divide by the real length), "
            "maxima (-inf) and recurrences (packed sequences)",
            again=_again(specimen, place, padding),
        )
    elif hidden <= rounding:
        yield Finding.sound("mask", seen, "padding is not read, and the rest is")


def _when_turned(copied: Specimen, place: int, rows: list[int], padding: KnownPadding) -> str:
    """What the mask gives the other way round, where it is an input and can be tried; "" where it can't."""
    at = padding.told_by
    if at is None or copied.inputs[at].dim() < 2:
        return ""
    mask = copied.inputs[at]
    turned = replace(copied, inputs=(*copied.inputs[:at], (1 - mask.long()).to(mask.dtype), *copied.inputs[at + 1 :]))
    base = try_or_none(lambda: repeatable_output(turned))
    if base is None:
        return ""
    kept, hidden = (
        _moves(turned, base, place, rows, places, padding.places) for places in (~padding.places, padding.places)
    )
    if kept is None or hidden is None:
        return ""
    return f"; with the mask turned round, by {hidden:.2g} and {kept:.2g}"


def _rows_with_both(padding: Tensor) -> list[int]:
    """Rows that have padding, and at least two positions that are none."""
    return [row for row, hidden in enumerate(padding) if hidden.any() and int((~hidden).sum()) > 1][:MOST_ROWS]


def _moves(
    copied: Specimen, base: Tensor, place: int, rows: list[int], places: Tensor, padding: Tensor
) -> float | None:
    """How far what is put out for real positions moves where these are changed, by its size.

    Real positions get values of other real ones, and so does padding, so that it is not known by its looks any more.
    A real position that is changed moves what is put out for itself, so that only one is, and the others are looked at.
    """
    given: Tensor = copied.inputs[place]
    has_time = base.dim() >= 2 and base.shape[1] == given.shape[1]
    content = given[~padding]
    changed = given.clone()
    watched = torch.zeros(len(given), given.shape[1], dtype=torch.bool)
    is_content = not bool((places & padding).any())
    for row in rows:
        where = places[row].nonzero()[:, 0]
        chosen = where[:-1] if is_content and has_time else where
        for at in chosen.tolist():
            value = _another(content, given[row, at], seed=at)
            if value is None:
                return None
            changed[row, at] = value
        watched[row] = ~padding[row]
        if is_content and has_time:
            watched[row, chosen] = False
    after = try_or_none(lambda: copied.main_output((*copied.inputs[:place], changed, *copied.inputs[place + 1 :])))
    if after is None or after.shape != base.shape or not bool(after.isfinite().all()):
        return None
    index: Any = watched if has_time else torch.tensor(rows)
    return largest_change(base[index], after[index]) / max(size_of(base), 1e-12)


def _another(content: Tensor, old: Tensor, seed: int) -> Tensor | None:
    """A value that stands at a real position, other than this one."""
    others = content[(content != old).reshape(len(content), -1).any(1)]
    return others[seed % len(others)] if len(others) else None


def _again(specimen: Specimen, place: int, padding: KnownPadding) -> str:
    row = _rows_with_both(padding.places)[0]
    at = int(padding.places[row].nonzero()[-1])
    real = int((~padding.places[row]).nonzero()[0])
    given, call = ("x", "model(x)") if len(specimen.inputs) == 1 else (f"inputs[{place}]", "model(*inputs)")
    return (
        f"model.eval(); y = {call}; {given}[{row}, {at}] = {given}[{row}, {real}]; "
        f"print(({call} - y)[{row}].abs().max())"
    )


RULE = DoctorRule(
    name="mask-polarity",
    proves="what is put out moves with padding that a mask is to hide, or does not move with what it is to keep",
    how="finds the padding by masks, lengths and looks, changes values there and elsewhere, and compares the outputs "
    "of the same rows",
    check=check,
    cannot_see="padding inside of rows, and masks between pairs of positions",
)
