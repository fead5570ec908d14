"""Slopes by differences, of everything that a copy computes at once, beside those that autograd tells.

Weights are moved along fixed directions, there and back, by steps of several sizes, with the same random numbers and
buffers each time. Each output (as a fixed mixture of its numbers), each term of the loss and the loss itself is read at
every place, so that one pass serves them all. A slope is one where steps of two sizes agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs
from pellucid.inspection.instrument.loss_terms import record_terms
from pellucid.inspection.instrument.nests import main_tensor, tensors_in
from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.recording import InterceptFunctions
from pellucid.inspection.instrument.specimen import Specimen

STEPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # of the weights' size, in float64
WIDE = 0.1  # a step over which rounding and other small stairs even out
AGREE = 0.01  # between two sizes of steps
NOISE = 1e-7  # of a quantity, by which two true slopes may differ
ROUNDING = NOISE * STEPS[0]  # of a quantity: less is no change, as where a number is added and taken away again


class Quantity(NamedTuple):
    """A number that a copy computes, and what it is."""

    name: str
    kind: str  # output: rows of what the module puts out; term: a number that the loss adds; loss: the loss
    value: Tensor


class Slopes(NamedTuple):
    """The slope of one quantity along one direction."""

    told: float  # by autograd
    measured: float | None  # by differences; None where steps of no two sizes agree
    wide: float  # by one large step
    size: float  # of the quantity itself

    @property
    def differ(self) -> bool:
        """Whether both are known and not the same; where nothing moves at all, as over stairs, it cannot be told."""
        if not self.measured:
            return False
        apart = abs(self.told - self.measured)
        return apart > 0.02 * max(abs(self.told), abs(self.measured)) and apart > NOISE * (self.size + 1e-6)


def quantities_of(specimen: Specimen) -> list[Quantity]:
    """All that a copy computes, each as one number; inside `isolate`. Outputs without a graph are given as they are."""
    outputs = specimen.model(*own_inputs(specimen.inputs))
    main = main_tensor(outputs)
    found: list[Quantity] = []
    for place, one in enumerate(tensors_in(outputs)):
        if one.is_floating_point() and one.numel():
            mixture = torch.randn(one.shape, generator=torch.Generator().manual_seed(place)).to(one)
            # A single number, or one for each row beside the main output, is a term that the module computed itself.
            is_answer = one.dim() > 1 or (one is main and one.dim() == 1)
            found.append(Quantity(f"output {place}", "output" if is_answer else "term", (one * mixture).sum()))
    if specimen.has_loss:
        loss, terms = record_terms(lambda: specimen.loss_of(outputs))
        if len(terms) > 1:
            found += [
                Quantity(f"term {place} of the loss ({term.made_by})", "term", term.value)
                for place, term in enumerate(terms)
            ]
        found.append(Quantity("loss", "loss", loss.reshape(())))
    return found


def direction_of(parameter: Tensor, seed: int = 0) -> Tensor:
    """Fixed numbers by which a parameter is moved, in its own size; others for each shape and seed."""
    rng = torch.Generator().manual_seed(1000 * seed + parameter.numel() + parameter.dim())
    return torch.randn(parameter.shape, generator=rng).to(parameter) * (size_of(parameter) or 1.0)


class Differences:
    """Slopes of all quantities of a copy along directions of its weights.

    The specimen must be a copy in float64.
    """

    def __init__(
        self, specimen: Specimen, parameters: Mapping[str, Tensor], free: Mapping[str, Tensor] | None = None
    ) -> None:
        """free: of some parameters, 1 for each weight that may be moved and 0 for those that are to stay."""
        self.specimen, self.parameters, self.free = specimen, dict(parameters), free or {}
        self.buffers = [(one, one.detach().clone()) for one in specimen.model.buffers()]
        with isolate():
            self.quantities = quantities_of(specimen)
        self.gradients = [self._gradients_of(one.value) for one in self.quantities]
        self.here = [float(one.value.detach()) for one in self.quantities]
        self._put_back()

    def _gradients_of(self, value: Tensor) -> dict[str, Tensor]:
        if not value.requires_grad:
            return {}
        with isolate(seed=1):  # going back, other random numbers come next than those of the way there
            found = torch.autograd.grad(value, list(self.parameters.values()), retain_graph=True, allow_unused=True)
        paths = zip(self.parameters, found, strict=True)
        return {path: one.to_dense() for path, one in paths if one is not None}

    def _put_back(self) -> None:
        with torch.no_grad():
            for one, before in self.buffers:
                one.copy_(before)

    def direction(self, paths: Sequence[str], seed: int = 0) -> dict[str, Tensor]:
        """Numbers by which these parameters are moved, in the size that each has."""
        ways = {path: direction_of(self.parameters[path], seed) for path in paths}
        return {path: way * self.free[path] if path in self.free else way for path, way in ways.items()}

    def values_at(self, way: Mapping[str, Tensor], step: float) -> list[float]:
        """All quantities with the weights moved along a way; then they are put back."""
        before = {path: self.parameters[path].detach().clone() for path in way}
        with torch.no_grad():
            for path, one in way.items():
                self.parameters[path].add_(one, alpha=step)
        try:
            with isolate():
                found = [float(one.value.detach()) for one in quantities_of(self.specimen)]
        finally:
            with torch.no_grad():
                for path, one in before.items():
                    self.parameters[path].copy_(one)
            self._put_back()
        return found if len(found) == len(self.quantities) else [float("nan")] * len(self.quantities)

    def along(self, way: Mapping[str, Tensor], *, with_wide: bool = False) -> list[Slopes]:
        """The slopes of each quantity along a way."""
        by_step: list[list[float]] = []
        measured: list[float | None] = [None] * len(self.quantities)
        for step in STEPS:
            by_step.append(self._central(way, step))
            if len(by_step) < 2:
                continue
            for place, (fine, coarse) in enumerate(zip(by_step[-2], by_step[-1], strict=True)):
                if measured[place] is None and abs(fine - coarse) <= AGREE * max(abs(fine), abs(coarse)):
                    measured[place] = fine
            if all(one is not None for one in measured):
                break
        wide = self._central(way, WIDE) if with_wide else [float("nan")] * len(self.quantities)
        told = [sum(float((each[path] * way[path]).sum()) for path in way if path in each) for each in self.gradients]
        sizes = [abs(here) for here in self.here]
        return [Slopes(*each) for each in zip(told, measured, wide, sizes, strict=True)]

    def _central(self, way: Mapping[str, Tensor], step: float) -> list[float]:
        """Half the change from one side to the other, by the step; nan at a kink, which has no one slope."""
        there, back = self.values_at(way, step), self.values_at(way, -step)
        found = []
        for one, other, here in zip(there, back, self.here, strict=True):
            is_kink = abs(one + other - 2 * here) > max(0.2 * abs(one - other), 1e-12 * abs(here))
            is_rounding = abs(one - other) <= ROUNDING * abs(here)
            slope = 0.0 if is_rounding else (one - other) / (2 * step)
            found.append(float("nan") if is_kink and step < WIDE else slope)
        return found


@contextmanager
def ignore_cuts() -> Iterator[None]:
    """Inside, detach(), .data and no_grad() do nothing: gradients go wherever numbers go.

    >>> weight = torch.ones(1, requires_grad=True)
    >>> with ignore_cuts(), torch.no_grad():
    ...     made = weight.detach() * 2
    >>> torch.autograd.grad(made, weight)
    (tensor([2.]),)
    """
    data = torch.Tensor.data.__get__  # type: ignore[attr-defined]

    def handle(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if function in (torch.Tensor.detach, torch.detach, data):
            return arguments[0].view_as(arguments[0])
        if function is torch._C._set_grad_enabled:
            return None
        return function(*arguments, **named)

    with InterceptFunctions(handle):
        yield
