"""Attention is an average: the weights of each question sum to one over what they average.

A softmax over another axis, as over the questions, makes weights that sum to one for nobody who uses them. Every
product of what a softmax made is made again with ones in place of the values: an average of ones is one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.recording import FunctionCall, part_name, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

_PRODUCTS = frozenset({"matmul", "bmm", "einsum", "baddbmm"})
SLACK = 1e-3


class WeightedSum(NamedTuple):
    """A product of weights that a softmax made with values, and what the weights of each sum sum to."""

    path: str
    shape: tuple[int, ...]  # of the weights
    least: float
    most: float

    @property
    def is_average(self) -> bool:
        return abs(self.least - 1) < SLACK and abs(self.most - 1) < SLACK


def check(specimen: Specimen) -> Findings:
    seen = record(specimen.copy("eval"), _PRODUCTS | {"softmax"})
    sums = [] if seen is None else list(_weighted_sums(seen.functions))
    for one in sums:
        if not one.is_average:
            yield Finding.suspicious(
                part_name(one.path),
                f"weights {one.shape} of a softmax are multiplied with values, and those of one sum sum to between "
                f"{one.least:.3g} and {one.most:.3g}",
                "they are no averages: the softmax runs over another axis than the one that is summed over, so that "
                "questions compete with one another for what they read",
                "take the softmax over the keys: scores.softmax(dim=-1) where scores are (..., queries, keys)",
                again=_again(specimen),
            )
            return
    if sums:
        worst = max(max(abs(one.least - 1), abs(one.most - 1)) for one in sums)
        told = f"in {len(sums)} products of weights that a softmax made, they sum to 1 within {worst:.1g}"
        yield Finding.sound("the model", told, "attention averages what it reads")


def _again(specimen: Specimen) -> str:
    given = "x" if len(specimen.inputs) == 1 else "*inputs"
    return (
        "from pellucid.inspection.instrument.recording import Recorder; r = Recorder(model.eval(), "
        f"frozenset({{'softmax'}})); r.__enter__(); model({given}); r.__exit__(None, None, None); "
        "print([one.made.sum(-1) for one in r.functions])"
    )


def _weighted_sums(calls: tuple[FunctionCall, ...]) -> Iterator[WeightedSum]:
    made: list[Tensor] = []
    for call in calls:
        if call.name == "softmax":
            if isinstance(call.made, Tensor) and call.made.dim() >= 3:
                made.append(call.made.detach())
            continue
        parts = [one for one in _flat(call.arguments) if isinstance(one, Tensor)]
        are_weights = [any(one.shape == other.shape and torch.equal(one, other) for other in made) for one in parts]
        if len(parts) != 2 or sum(are_weights) != 1:
            continue  # a product of two softmaxes is no average
        ones = [one if is_it else torch.ones_like(one) for one, is_it in zip(parts, are_weights, strict=True)]
        with torch.no_grad():
            total = call.function(*_with_tensors(call.arguments, iter(ones)), **call.named)
        if isinstance(total, Tensor) and total.numel():
            weights = parts[are_weights.index(True)]
            yield WeightedSum(call.path, tuple(weights.shape), float(total.min()), float(total.max()))


def _flat(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for one in arguments:
        yield from one if isinstance(one, tuple | list) else (one,)


def _with_tensors(arguments: tuple[Any, ...], tensors: Iterator[Tensor]) -> tuple[Any, ...]:
    """The same arguments with other tensors in the place of theirs."""

    def change(one: Any) -> Any:
        if isinstance(one, tuple | list):
            return [change(each) for each in one]
        return next(tensors) if isinstance(one, Tensor) else one

    return tuple(change(one) for one in arguments)


RULE = DoctorRule(
    name="attention-sums",
    proves="weights that a softmax made do not sum to one over what they are summed with",
    how="makes every product of a softmax with values again, with ones in place of the values",
    check=check,
    cannot_see="attention inside of torch's own kernels, and weights that are changed after the softmax",
)
