"""Rows are filled up to one length with a token that means nothing; a loss that asks for it teaches to say nothing.

Its share of the loss falls to 0 soon, since nothing is easier, and makes the rest look better than it is. Padding is
known by where it stands: one token that fills the ends (or the beginnings) of rows of different lengths and occurs
nowhere else.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import sequence_inputs, wanted_classes
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST_ROWS = 2  # that have padding
LEAST = 0.05  # of what is asked for; a last token that is told once for each row is no padding


class PaddingFound(NamedTuple):
    token: int
    places: Tensor  # (batch, time), yes or no


def check(specimen: Specimen) -> Findings:
    wanted = wanted_classes(specimen)
    if wanted is None or wanted.dim() != 2:
        return
    for place in sequence_inputs(specimen):
        tokens: Tensor = specimen.inputs[place]
        if tokens.shape != wanted.shape or (padding := find_padding(tokens)) is None:
            continue
        # From padding to padding: that a row's last token is followed by one is how it tells its end.
        asked = padding.places & (wanted == padding.token)
        n_asked, n_all = int(asked.sum()), int((wanted >= 0).sum())
        n_padded, asks = int(padding.places.sum()), f"{n_asked} of {n_all} that the loss asks for"
        seen = f"{n_padded} of {tokens.numel()} tokens are padding ({padding.token}), and {asks}"
        if n_asked > LEAST * n_all:
            yield Finding.suspicious(
                "loss",
                seen,
                f"{n_asked / max(n_all, 1):.0%} of the loss is for padding after padding, which is learned at once and "
                "hides the rest",
                f"leave it out: ignore_index={padding.token}, or targets of -100 there",
                again=f"print((targets == {padding.token}).float().mean())",
            )
        elif not n_asked:
            yield Finding.sound("loss", seen, "padding is left out")


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


RULE = DoctorRule(
    name="loss-over-padding",
    proves="the loss asks for padding after padding",
    how="finds the token that fills rows up, and reads off the loss's slope whether it is asked for there",
    check=check,
    cannot_see="padding that is not one token at the end of rows",
    needs=("targets", "loss"),
)
