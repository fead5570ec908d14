"""What a loss is, found out by asking it: a loss comes as a function, and its name proves nothing.

It is called with outputs that no module made. One that does not change when a number is added to all scores of a class
axis takes a softmax over it; if it is ln K where all scores are equal, it is a cross-entropy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs
from pellucid.inspection.instrument.nests import main_tensor, with_main_tensor
from pellucid.inspection.instrument.specimen import Specimen

Kind = Literal["cross-entropy", "log-likelihood", "probabilities", "other"]
MOST_NUMBERS = 2_000_000  # of outputs for which the least loss is searched


@dataclass(frozen=True)
class LossView:
    """A specimen's loss as a function of the main output alone."""

    specimen: Specimen
    outputs: Any  # as the module put them out, without their graph
    tensor: Tensor  # the main one
    kind: Kind = "other"
    axis: int = -1  # of the classes, where the kind has classes
    per: float = 1.0  # how many cross-entropies are added up, for those that do not take the mean

    def at(self, tensor: Tensor) -> Tensor | None:
        """The loss of other outputs; None where it takes none such."""
        try:
            loss = self.specimen.loss_of(with_main_tensor(self.outputs, tensor))
        except Exception:  # whatever a stranger's loss raises, it does not take these
            return None
        return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None

    def value(self, tensor: Tensor) -> float:
        """The same as a number; nan where it takes none such."""
        with isolate(), torch.no_grad():
            loss = self.at(tensor)
        return math.nan if loss is None else float(loss)

    def slope_at(self, free: Tensor) -> Tensor | None:
        """The slope of the loss by any numbers, by way of outputs that it may be given; None where there is none."""
        free = free.detach().clone().requires_grad_()
        with isolate():
            loss = self.at(free.log_softmax(self.axis) if self.kind == "log-likelihood" else free)
            if loss is None or not loss.requires_grad:
                return None
            return torch.autograd.grad(loss, free, allow_unused=True)[0]

    def with_targets(self, targets: Tensor) -> LossView:
        """The same loss, asked for other targets."""
        return replace(self, specimen=replace(self.specimen, targets=targets))

    @property
    def loss_now(self) -> float:
        return self.value(self.tensor)

    @property
    def has_classes(self) -> bool:
        return self.kind in ("cross-entropy", "log-likelihood")

    @property
    def n_classes(self) -> int:
        return self.tensor.shape[self.axis]

    def as_outputs(self, free: Tensor) -> Tensor:
        """Outputs that this loss may be given, from any numbers."""
        if self.kind == "log-likelihood":
            return free.log_softmax(self.axis)
        return free.sigmoid() if self.kind == "probabilities" else free

    def wanted_classes(self) -> Tensor | None:
        """The class that the loss asks for at each place, -1 where it asks for none; None unless it has classes.

        Read off the slope at equal scores, which is negative for it alone, so that a loss that shifts its targets or
        leaves some of them out is understood.
        """
        if not self.has_classes:
            return None
        slope = self.slope_at(torch.zeros_like(self.tensor))
        if slope is None:
            return None
        least, classes = slope.min(dim=self.axis)
        return torch.where(least < 0, classes, -1)

    def best_constant(self) -> float:
        """The least loss of outputs that are the same for every input; for classes the entropy of the labels.

        nan where it is not found.
        """
        shape = [1] * self.tensor.dim()
        if self.has_classes:
            shape[self.axis] = self.n_classes
        else:
            shape[1:] = self.tensor.shape[1:]
        return self._least(torch.zeros(shape, dtype=self.tensor.dtype))

    def floor(self) -> float:
        """The least loss of any outputs at all; nan where it is not found."""
        return self._least(torch.zeros_like(self.tensor))

    def _least(self, start: Tensor) -> float:
        free = self.search_least(start)
        if free is None:
            return math.nan
        found = self.value(self.as_outputs(free.expand_as(self.tensor)))
        # A loss without a least value, as one that is linear, runs away from all that is asked for.
        asked = self.specimen.target
        far = 1e5 * (1 + (float(asked.abs().max()) if asked is not None and asked.is_floating_point() else 0))
        return found if math.isfinite(found) and float(free.abs().max()) < far else math.nan

    def search_least(self, start: Tensor, steps: int = 60) -> Tensor | None:
        """Numbers of which the loss is least, searched from these on; None where there is no way down to follow."""
        if self.tensor.numel() > MOST_NUMBERS or not self.tensor.numel():
            return None
        free = start.detach().clone().requires_grad_()
        search = torch.optim.LBFGS([free], max_iter=steps, line_search_fn="strong_wolfe")

        def loss_of_free() -> Tensor:
            search.zero_grad()
            loss = self.at(self.as_outputs(free.expand_as(self.tensor)))
            if loss is None or not loss.requires_grad:
                return torch.tensor(math.nan)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        with isolate():
            try:
                search.step(loss_of_free)  # type: ignore[no-untyped-call]
            except (RuntimeError, OverflowError, IndexError):  # torch's search meets what is not finite
                return None
        return free.detach() if bool(free.detach().isfinite().all()) else None


def loss_view(specimen: Specimen) -> LossView | None:
    """The loss of a specimen, asked; None where there is none, or the batch does not go through it."""
    if specimen.loss is None or specimen.targets is None:
        return None
    with isolate(), torch.no_grad():
        outputs = specimen.copy("eval").model(*own_inputs(specimen.inputs))
        tensor = main_tensor(outputs)
        if tensor is None or not tensor.is_floating_point():
            return None
        view = LossView(specimen, with_main_tensor(outputs, tensor.detach()), tensor.detach())
        if view.at(view.tensor) is None:
            return None
        return _identify_loss(view)


def _identify_loss(view: LossView) -> LossView:
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(view.tensor.shape, generator=rng).to(view.tensor)
    base, zero = view.value(drawn), view.value(torch.zeros_like(drawn))
    if not math.isfinite(base):
        is_for_probabilities = math.isfinite(view.value(drawn.sigmoid()))
        return replace(view, kind="probabilities" if is_for_probabilities else "other")
    for axis in sorted({1 - drawn.dim(), -1} if drawn.dim() > 1 else set(), reverse=True):
        n_classes = drawn.shape[axis]
        if n_classes < 2:
            continue
        shape = [1 if place == drawn.dim() + axis else size for place, size in enumerate(drawn.shape)]
        added = view.value(drawn + 3 * torch.rand(shape, generator=rng).to(drawn) + 1)
        slack = 1e-4 * (1 + abs(base))
        per = zero / math.log(n_classes)
        n_targets = view.tensor.numel() // n_classes
        if abs(added - base) < slack and min(abs(per - 1), abs(per / max(n_targets, 1) - 1)) < 1e-3:
            return replace(view, kind="cross-entropy", axis=axis, per=per)
        is_by_one = abs(zero) < 1e-6 and abs(view.value(drawn + 1) - base + 1) < slack
        if is_by_one and abs(view.value(drawn * 2) - 2 * base) < slack:
            return replace(view, kind="log-likelihood", axis=axis)
    return view


def wanted_classes(specimen: Specimen) -> Tensor | None:
    """The class that a loss asks for at each place, as its view says; None where there are no classes."""
    view = loss_view(specimen)
    return None if view is None else view.wanted_classes()


def sequence_inputs(specimen: Specimen) -> list[int]:
    """Which inputs are sequences: whole numbers (batch, time), or numbers (batch, time, width).

    >>> tokens, mask = torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 5, dtype=torch.bool)
    >>> sequence_inputs(Specimen(torch.nn.Embedding(3, 4), (tokens, mask)))
    [0]
    """
    return [
        place
        for place, one in enumerate(specimen.inputs)
        if isinstance(one, Tensor)
        and one.dim() == (3 if one.is_floating_point() else 2)
        and one.numel()
        and one.dtype is not torch.bool
    ]


def causal_input(specimen: Specimen) -> int | None:
    """The input of which no output may see ahead; None where there is none, or it is not known.

    It is the only sequence of a module that is said to be causal, or the one of which the loss asks, at each position,
    for the token after it: of two sequences, as in translation, that is what the decoder reads.
    """
    places = sequence_inputs(specimen)
    if specimen.is_causal is False or not places:
        return None
    if specimen.is_causal and len(places) == 1:
        return places[0]
    if (wanted := wanted_classes(specimen)) is None:
        return None
    asked = [place for place in places if shift_agreement(specimen.inputs[place], wanted, by=1) == 1]
    return asked[0] if len(asked) == 1 else None


def shift_agreement(tokens: Tensor, wanted: Tensor, by: int) -> float:
    """The share of positions at which the token so many places further on is asked for, of those that are asked.

    0 where it cannot be told: of another shape, too short, or all the same.

    >>> tokens = torch.tensor([[1, 2, 3, 4]])
    >>> shift_agreement(tokens, torch.tensor([[2, 3, 4, 0]]), by=1)
    1.0
    """
    length = tokens.shape[1] if tokens.dim() == 2 else 0
    if tokens.shape != wanted.shape or tokens.is_floating_point() or length < 3:
        return 0.0
    start, end = max(0, -by), min(length, length - by)
    asked, there = wanted[:, start:end], tokens[:, start + by : end + by]
    counted = asked >= 0
    if not bool(counted.any()) or not bool((there[counted] != there[counted][0]).any()):
        return 0.0
    return float((asked == there)[counted].float().mean())
