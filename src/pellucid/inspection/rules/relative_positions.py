"""Positions by rotation or by a bias of distances are relative: a score between equal tokens goes by their distance.

Every token becomes the same one. Where no position was added before, all questions and keys are then alike, and what
tells scores apart can only be where they stand. Scores along one distance must be equal, or the encoding does not say
what it is meant to: angles laid out for halves and turned in pairs, or counted from another place for keys.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import sequence_inputs
from pellucid.inspection.instrument.recording import ModuleCall, Recording, part_name, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 4
MASKED = -1e4
SLACK = 1e-3  # of how far scores are apart, by which those of one distance may differ


class DistanceScores(NamedTuple):
    """Scores between equal tokens: how far apart all are, and how far those of one distance."""

    path: str
    name: str  # of the function that was given them, or what they are made of
    spread: float
    along: float
    size: float
    raw: float  # how far apart they were before what all scores of a question share was taken away


def check(specimen: Specimen) -> Findings:
    places = [place for place in sequence_inputs(specimen) if not specimen.inputs[place].is_floating_point()]
    if len(places) != 1 or specimen.time_axis == 0 or specimen.inputs[places[0]].shape[1] < FEWEST:
        return
    place = places[0]
    tokens: Tensor = specimen.inputs[place]
    copied = specimen.copy("eval").double()
    token = tokens.flatten()[tokens.numel() // 3]
    same = (*copied.inputs[:place], torch.full_like(tokens, int(token)), *copied.inputs[place + 1 :])
    names = frozenset({"softmax", "scaled_dot_product_attention"})
    seen = record(replace(copied, inputs=same), names)
    if seen is None:
        return
    found = _scores(seen, tokens.shape[1])
    is_positioned = [one for one in found if one.spread > SLACK * max(one.size, 1e-6)]
    if not is_positioned:
        yield from _of_shared(found)
        return
    worst = max(is_positioned, key=lambda one: one.along / one.spread)
    told = (
        f"with the same token everywhere, attention scores differ by up to {worst.spread:.3g}, and those of one "
        f"distance by up to {worst.along:.3g}"
    )
    if worst.along > SLACK * worst.spread:
        yield Finding.suspicious(
            part_name(worst.path),
            told,
            "questions and keys are given positions, and their scores do not go by the distance: the encoding is not "
            "relative",
            "turn the same pairs of numbers that the angles were laid out for (halves or neighbours), along time, and "
            "count positions of questions and keys from the same place",
            again=_again(worst),
        )
    else:
        yield Finding.sound(part_name(worst.path), told, "scores between equal tokens go by their distance")


def _of_shared(found: list[DistanceScores]) -> Findings:
    """Positions that move all scores of a question alike, and nothing else: a softmax takes that away."""
    shared = [one for one in found if one.raw > SLACK * max(one.size, 1e-6)]
    if shared:
        yield Finding.suspicious(
            part_name(shared[0].path),
            f"with the same token everywhere, attention scores differ by up to {shared[0].raw:.3g} between questions, "
            f"and by {shared[0].spread:.1g} between the keys of one",
            "positions move all scores of a question alike, which a softmax takes away: keys cannot be told by them",
            "give positions to questions and keys both, along time",
            again=_again(shared[0]),
        )


def _again(scores: DistanceScores) -> str:
    shown = (
        "c.given.flatten(0, -3)[0]"
        if scores.name == "softmax"
        else "(c.arguments[0] @ c.arguments[1].mT).flatten(0, -3)[0]"
    )
    return (
        "from pellucid.inspection.instrument.recording import Recorder; "
        f"r = Recorder(model.eval(), frozenset({{'{scores.name}'}})); r.__enter__(); "
        f"model(torch.full_like(x, int(x[0, 0]))); r.__exit__(None, None, None); c = r.functions[0]; print({shown})"
    )


def _scores(seen: Recording, length: int) -> list[DistanceScores]:
    if not _is_without_positions(seen.modules, length):
        return []
    found: list[DistanceScores] = []
    for call in seen.functions:
        scores = _score_matrix(call.name, call.arguments, call.given)
        if scores is None or scores.shape[-2:] != (length, length) or not scores.is_floating_point():
            continue
        grid = scores.detach().double().flatten(0, -3) if scores.dim() > 2 else scores.detach().double()[None]
        is_shown = grid > MASKED
        if not bool(is_shown.any()) or not bool(grid[is_shown].isfinite().all()):
            continue
        # A softmax takes away what all scores of a question share, as where a bias counts from the first key.
        shown_scores = grid[is_shown]
        lines = [head[shown] for head, shown in zip(grid, is_shown, strict=True)]
        raw = max(float(line.max() - line.min()) for line in lines if line.numel())
        own = grid.diagonal(dim1=-2, dim2=-1)[..., None]
        grid = torch.where(is_shown & (own > MASKED), grid - own, grid)
        spread = along = 0.0
        for head, shown in zip(grid, is_shown, strict=True):
            visible = head[shown]
            spread = max(spread, float(visible.max() - visible.min())) if visible.numel() else spread
            for offset in range(1 - length, length):
                line = head.diagonal(offset)[shown.diagonal(offset)]
                along = max(along, float(line.max() - line.min())) if line.numel() else along
        found.append(DistanceScores(call.path, call.name, spread, along, float(shown_scores.abs().max()), raw))
    return found


def _score_matrix(name: str, arguments: tuple[Any, ...], given: Tensor | None) -> Tensor | None:
    """What goes into a softmax, or the products of the questions and keys that a kernel of torch is given."""
    if name == "softmax":
        return given
    if len(arguments) < 2 or not all(isinstance(one, Tensor) for one in arguments[:2]):
        return None
    queries, keys = arguments[:2]
    n_shared = queries.shape[-3] // keys.shape[-3] if queries.dim() >= 3 and keys.shape[-3] else 1
    if n_shared > 1:
        keys = keys.repeat_interleave(n_shared, -3)
    scores: Tensor = queries @ keys.transpose(-2, -1)
    return scores


def _is_without_positions(calls: tuple[ModuleCall, ...], length: int) -> bool:
    """Whether what the first layers with weights read is the same at every position: none was added to the tokens."""
    for call in calls:
        if isinstance(call.module, torch.nn.Linear) and call.given is not None and call.given.dim() == 3:
            if call.given.shape[1] != length:
                return False
            spread = (call.given - call.given[:, :1]).abs().max()
            return bool(spread <= 1e-6 * call.given.abs().max().clamp(min=1e-12))
    return False


RULE = DoctorRule(
    name="relative-positions",
    proves="that scores between equal tokens, to which no positions were added, do not go by their distance",
    how="gives a float64 copy the same token everywhere, and compares the scores of attention along each distance",
    check=check,
    cannot_see="positions that are added to the tokens, and attention inside of kernels that torch does not show",
    follows=("crossed-view",),
)
