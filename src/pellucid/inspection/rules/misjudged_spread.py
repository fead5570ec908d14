"""A model that reports how far it is off must learn the spread that its errors have, not half of it.

A likelihood of two outputs, a middle and a spread: the middle is put off its targets by known errors, and the spread
with which the loss is content is searched. It must be the error's own: with a half left out it is off by a factor, and
always by the same. A spread may come as itself, squared, or as a logarithm of either.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.loss_terms import WholeLoss, whole_loss
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

ERRORS = (0.3, 0.6, 1.2, 2.4)
ROUNDS = 40  # of halving
Pair = Callable[[Tensor, Tensor], list[Tensor]]  # a middle and a spread, as the outputs that the loss is given


def check(specimen: Specimen) -> Findings:
    whole, target = whole_loss(specimen), specimen.target
    if whole is None or target is None or not target.is_floating_point() or target.numel() < 4:
        return
    for pair in _pairs(whole, target):
        contents = [_content_at(whole, pair, target, error) for error in ERRORS]
        if (found := _as_power(contents)) is None:
            continue
        kind, factor = found
        seen = (
            f"with outputs off by {', '.join(f'{error:g}' for error in ERRORS)} the loss is content with a {kind} of "
            f"{', '.join(f'{content:.3g}' for content in contents)}: a variance of {factor:.3g} times the squared error"
        )
        again = (
            "mean, spread = model(x); print([(s, loss((y + 1.0, s * torch.ones_like(spread)), y)) for s in (-1, 0, 1)])"
        )
        power = math.log2(factor)
        if abs(power) < 0.02:
            yield Finding.sound("loss", seen, "the spread that it wants is that of the errors", again=again)
        elif abs(power - round(power)) < 0.02:
            yield Finding.suspicious(
                "loss",
                seen,
                f"the reported variance becomes {factor:.3g} times the true one: intervals are "
                f"{'too narrow' if factor < 1 else 'too wide'} by {math.sqrt(factor):.3g} times",
                "look at the halves: a normal likelihood is 0.5 * (error² / variance + log variance)",
                again=again,
            )
        return


def _pairs(whole: WholeLoss, target: Tensor) -> Iterator[Pair]:
    """How a middle and a spread may be among the outputs: two of them, or the two halves of one."""
    tensors = whole.tensors
    fit = [place for place, one in enumerate(tensors) if one.numel() == target.numel()]

    def two(first: int, second: int) -> Pair:
        def make(middle: Tensor, spread: Tensor) -> list[Tensor]:
            made = [one.clone() for one in tensors]
            made[first], made[second] = middle.reshape(tensors[first].shape), spread.reshape(tensors[second].shape)
            return made

        return make

    for first in fit:
        for second in fit:
            if first != second:
                yield two(first, second)
    only = tensors[0]
    if len(tensors) == 1 and only.dim() == 2 and only.numel() == 2 * target.numel():
        yield lambda middle, spread: [torch.cat([middle.reshape(len(only), -1), spread.reshape(len(only), -1)], 1)]


def _content_at(whole: WholeLoss, pair: Pair, target: Tensor, error: float) -> float:
    """The one spread, the same for all, at which the loss no longer falls; nan where there is none."""
    signs = torch.ones(target.numel())
    signs[::2] = -1  # off to both sides
    middle = target.to(whole.tensors[0]) + error * signs.reshape(target.shape).to(whole.tensors[0])

    def slope_at(spread: float) -> float:
        free = torch.tensor(spread, dtype=middle.dtype, requires_grad=True)
        with isolate():
            loss = whole.at(pair(middle, free.expand(target.shape)))
            if loss is None or not loss.requires_grad:
                return math.nan
            return float(torch.autograd.grad(loss, free, allow_unused=True)[0] or 0.0)

    for low, high in ((-8.0, 8.0), (1e-3, 50.0)):
        ends = slope_at(low), slope_at(high)
        if not (ends[0] < 0 < ends[1]):
            continue
        for _ in range(ROUNDS):
            middle_of = (low + high) / 2
            low, high = (middle_of, high) if slope_at(middle_of) < 0 else (low, middle_of)
        return (low + high) / 2
    return math.nan


def _as_power(contents: list[float]) -> tuple[str, float] | None:
    """What kind of spread follows the errors so, and how many times the squared error its variance is."""
    if not all(map(math.isfinite, contents)):
        return None
    logs = [math.log(error) for error in ERRORS]
    for kind, power, values in (
        ("log-variance", 2, contents),
        ("log-deviation", 1, contents),
        ("variance", 2, [math.log(one) if one > 0 else math.nan for one in contents]),
        ("deviation", 1, [math.log(one) if one > 0 else math.nan for one in contents]),
    ):
        offsets = [value - power * log for value, log in zip(values, logs, strict=True)]
        if max(offsets) - min(offsets) < 0.01:
            return kind, math.exp(offsets[0] * 2 / power)
    return None


RULE = DoctorRule(
    name="misjudged-spread",
    proves="a loss of a middle and a spread is content with another spread than that of the errors",
    how="puts one output off its targets by known errors, and searches the other at which the loss stops falling",
    check=check,
    cannot_see="spreads that pass through a function of the loss's own, as softplus, and mixtures",
    needs=("targets", "loss"),
)
