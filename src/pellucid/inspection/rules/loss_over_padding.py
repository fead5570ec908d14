"""Rows are filled up to one length with a token that means nothing; a loss that asks for it teaches to say nothing.

Its share of the loss falls to 0 soon, since nothing is easier, and makes the rest look better than it is. Padding is
known by a mask or lengths that come with the batch, or by where it stands: one token, or zeros, that fill the ends (or
the beginnings) of rows of different lengths and occur nowhere else. What a loss asks for there is read off its slope.
"""

from torch import Tensor

from pellucid.inspection.instrument.influence import target_shifts
from pellucid.inspection.instrument.loss_view import loss_view, sequence_inputs, wanted_classes
from pellucid.inspection.instrument.padding import find_known_padding, find_padding
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LEAST = 0.05  # of what is asked for; a last token that is told once for each row is no padding


def check(specimen: Specimen) -> Findings:
    wanted = wanted_classes(specimen)
    found = [] if wanted is None or wanted.dim() != 2 else list(_of_classes(specimen, wanted))
    yield from found or _of_slopes(specimen)


def _of_classes(specimen: Specimen, wanted: Tensor) -> Findings:
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
                again=f"print((y == {padding.token}).float().mean())",
            )
        elif not bool((padding.places & (wanted >= 0)).any()):
            yield Finding.sound("loss", seen, "padding is left out")


def _of_slopes(specimen: Specimen) -> Findings:
    """Whether the loss is steep anywhere at the outputs of padding, whatever kind of loss it is."""
    view = loss_view(specimen)
    slope = None if view is None else view.slope_at(view.tensor)
    if slope is None or not bool(slope.isfinite().all()) or not bool(slope.any()):
        return
    for place in _told_places(specimen):
        for padding in find_known_padding(specimen, place):
            targets = specimen.target
            if slope.shape[:2] != padding.places.shape or targets is None or targets.shape[:2] != slope.shape[:2]:
                continue
            is_asked = slope.abs().reshape(*slope.shape[:2], -1).amax(-1) > 0
            n_asked, n_all = int((is_asked & padding.places).sum()), int(is_asked.sum())
            n_padded = int(padding.places.sum())
            seen = (
                f"{n_padded} of {padding.places.numel()} places are padding, as {padding.how}, and of {n_all} outputs "
                f"that move the loss {n_asked} are theirs"
            )
            if n_asked > LEAST * n_all:
                yield Finding.suspicious(
                    "loss",
                    seen,
                    f"{n_asked / n_all:.0%} of what is asked for is padding, which means nothing, and hides the rest",
                    "leave it out: multiply the losses of places with the mask, and divide by how many it keeps",
                    again="out = model(x); out.retain_grad(); "
                    "loss(out, y).backward(); print(out.grad.abs().flatten(2).amax(-1) > 0)",
                )
            elif not n_asked:
                yield Finding.sound("loss", seen, "padding is left out")
            return


def _told_places(specimen: Specimen) -> list[int]:
    """The sequences whose places are those of the outputs: the only one, or those that the targets are made of."""
    places = sequence_inputs(specimen)
    if len(places) == 1:
        return places
    return [place for place in places if any(shift.place == place for shift in target_shifts(specimen))]


RULE = DoctorRule(
    name="loss-over-padding",
    proves="the loss asks for padding after padding, or for outputs at padding",
    how="finds the token that fills rows up, and reads off the loss's slope whether it is asked for there",
    check=check,
    cannot_see="padding that neither a mask nor its looks tell, or that lies inside of rows",
    needs=("targets", "loss"),
)
