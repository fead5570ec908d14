"""A whole loss: every tensor that it is given, and the terms that it adds up.

While the loss runs, the calls of torch's functions are written down, and what is added, subtracted, scaled by a
constant or averaged is followed back from the one number at the end. Where one is made in another way, it is a term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.recording import InterceptFunctions, function_name
from pellucid.inspection.instrument.specimen import Specimen

MOST_TERMS = 12
MOST_STACKED = 8  # scalars in one list; more are rows, and no terms
_SAME_VALUE = ("squeeze", "unsqueeze", "reshape", "view", "flatten", "clone", "contiguous", "float", "double", "mean")


class LossTerm(NamedTuple):
    """One of the numbers that a loss adds up, with its sign and its weight."""

    value: Tensor  # one number, in the graph where it has one
    made_by: str  # the function of torch that made it; "given" where it came from outside


class _Made(NamedTuple):
    """A number as one function of torch made it, with those that it was made of as they were then."""

    tensor: Tensor
    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    before: dict[int, _Made]


@dataclass
class _Ledger:
    """Which function made which single number."""

    made: dict[int, _Made] = field(default_factory=dict)

    def handle(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name, given = function_name(function), arguments
        if getattr(function, "__name__", "").endswith("_") and _is_number(*arguments[:1]):
            # A number that is changed in place forgets what it was, so that it is kept as it is before.
            given = (arguments[0].clone(), *arguments[1:])
            if id(arguments[0]) in self.made:
                self.made[id(given[0])] = self.made[id(arguments[0])]
        result = function(*arguments, **named)
        if isinstance(result, Tensor) and result.is_floating_point() and result.numel() <= MOST_STACKED:
            parts = [one for one in tensors_in((given, tuple(named.values()))) if id(one) in self.made]
            before = {id(one): self.made[id(one)] for one in parts}
            self.made[id(result)] = _Made(result, name, given, named, before)
        return result


def record_terms(make_loss: Callable[[], Tensor]) -> tuple[Tensor, list[LossTerm]]:
    """A loss, and the terms that add up to it; a single one where they cannot be told apart.

    >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
    >>> loss, terms = record_terms(lambda: x.square().mean() - 0.5 * x.exp().sum().detach() + 2 * x.sum())
    >>> [(round(term.value.item(), 3), term.made_by, term.value.requires_grad) for term in terms]
    [(5.0, 'mean', True), (-11.402, 'detach', False), (8.0, 'sum', True)]
    """
    ledger = _Ledger()
    with InterceptFunctions(ledger.handle):
        loss = make_loss()
    terms: list[LossTerm] = []
    if isinstance(loss, Tensor) and loss.numel() == 1:
        _follow(loss, ledger.made.get(id(loss)), lambda one: one, terms)
        total = sum(float(term.value.detach()) for term in terms)
        is_whole = abs(total - float(loss.detach())) <= 1e-4 * (
            1 + sum(abs(float(one.value.detach())) for one in terms)
        )
        if 0 < len(terms) <= MOST_TERMS and is_whole:
            return loss, terms
    return loss, [LossTerm(loss, "loss")]


def _follow(tensor: Tensor, made: _Made | None, scale: Callable[[Tensor], Tensor], terms: list[LossTerm]) -> None:
    """Goes on to what a number is the sum of. scale: what is done to it on its way to the loss."""

    def go_on(one: Any, then: Callable[[Tensor], Tensor]) -> None:
        if isinstance(one, Tensor):
            before = made.before.get(id(one)) if made is not None else None
            _follow(one, before, lambda each: scale(then(each)), terms)
        elif one:  # a number that was added as it is; the 0 that sum() begins with is none
            terms.append(LossTerm(scale(then(torch.as_tensor(float(one)))), "given"))

    if made is None:
        terms.append(LossTerm(scale(tensor), "given"))
        return
    first, second = (*made.arguments, None, None)[:2]
    is_plain = not made.named
    single = tensor.numel() == 1
    if made.name in ("add", "radd", "sub", "rsub") and is_plain and single and _are_single(first, second):
        sign = {"sub": (1, -1), "rsub": (-1, 1)}.get(made.name, (1, 1))
        go_on(first, lambda one: sign[0] * one)
        go_on(second, lambda one: sign[1] * one)
    elif made.name == "neg" and single:
        go_on(first, lambda one: -one)
    elif made.name in ("mul", "rmul") and is_plain and single and _are_single(first, second):
        inner, factor = (first, second) if _is_variable(first) >= _is_variable(second) else (second, first)
        if not _has_graph(factor):
            go_on(inner, lambda one: one * factor)
        else:
            terms.append(LossTerm(scale(tensor), made.name))
    elif (
        made.name in ("div", "truediv")
        and is_plain
        and single
        and not _has_graph(second)
        and _are_single(first, second)
    ):
        go_on(first, lambda one: one / second)
    elif made.name in _SAME_VALUE and single and isinstance(first, Tensor) and first.numel() == 1:
        go_on(first, lambda one: one.reshape(tensor.shape).to(tensor))
    elif (
        made.name in ("sum", "mean") and single and isinstance(first, Tensor) and _is_stack(made.before.get(id(first)))
    ):
        stack = made.before[id(first)]
        parts = list(stack.arguments[0])
        share = 1.0 if made.name == "sum" else 1 / len(parts)
        for part in parts:
            _follow(part, stack.before.get(id(part)), lambda one: scale(one.reshape(tensor.shape) * share), terms)
    else:
        terms.append(LossTerm(scale(tensor), made.name))


def _is_number(one: Any = None) -> bool:
    return isinstance(one, Tensor) and one.is_floating_point() and one.numel() == 1


def _are_single(*given: Any) -> bool:
    return all(not isinstance(one, Tensor) or one.numel() == 1 for one in given)


def _is_variable(one: Any) -> int:
    """How much a factor is one that may change: a number is not, a tensor may, and one with a graph does."""
    return 2 if _has_graph(one) else int(isinstance(one, Tensor))


def _has_graph(one: Any) -> bool:
    return isinstance(one, Tensor) and one.requires_grad


def _is_stack(made: _Made | None) -> bool:
    """Whether it is a short list of single numbers that were put together."""
    if made is None or made.name not in ("stack", "cat") or not made.arguments:
        return False
    parts = made.arguments[0]
    return isinstance(parts, tuple | list) and 1 < len(parts) <= MOST_STACKED and _are_single(*parts)


@dataclass(frozen=True)
class WholeLoss:
    """A specimen's loss as a function of every floating tensor among its outputs."""

    specimen: Specimen
    outputs: Any  # as the module put them out, without their graph
    tensors: tuple[Tensor, ...]  # the floating ones, in order
    places: tuple[int, ...]  # which of all tensors of the outputs they are

    def at(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """The loss of other outputs; None where it takes none such."""
        loss = try_or_none(lambda: self.specimen.loss_of(self._with(tensors)))
        return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None

    def terms_at(self, tensors: Sequence[Tensor]) -> list[LossTerm]:
        """The terms of the loss of other outputs."""
        return record_terms(lambda: self.specimen.loss_of(self._with(tensors)))[1]

    def value(self, tensors: Sequence[Tensor]) -> float:
        """The loss as a number; nan where it takes none such."""
        with isolate(), torch.no_grad():
            loss = self.at(tensors)
        return float("nan") if loss is None else float(loss)

    def slopes(self, tensors: Sequence[Tensor]) -> list[Tensor | None]:
        """The slope by each tensor; None for one that the graph does not lead to."""
        free = [one.detach().clone().requires_grad_() for one in tensors]
        with isolate():
            loss = self.at(free)
            if loss is None or not loss.requires_grad:
                return [None] * len(free)
            return list(torch.autograd.grad(loss, free, allow_unused=True))

    def with_targets(self, targets: Any) -> WholeLoss:
        """The same loss, asked for other targets."""
        return replace(self, specimen=replace(self.specimen, targets=targets))

    def _with(self, tensors: Sequence[Tensor]) -> Any:
        return replace_tensors(self.outputs, dict(zip(self.places, tensors, strict=True)))


def whole_loss(specimen: Specimen, mode: str = "eval") -> WholeLoss | None:
    """The loss of a specimen with all outputs of the batch; None where there is none, or it does not take them."""
    if not specimen.has_loss:
        return None

    def look() -> WholeLoss:
        with isolate(), torch.no_grad():
            outputs = own_inputs(specimen.copy(mode).model(*own_inputs(specimen.inputs)))
        every = tensors_in(outputs)
        places = tuple(place for place, one in enumerate(every) if one.is_floating_point() and one.numel())
        return WholeLoss(specimen, outputs, tuple(every[place] for place in places), places)

    found = try_or_none(look)
    return found if found is not None and found.tensors and found.at(found.tensors) is not None else None


def replace_tensors(nest: Any, others: dict[int, Tensor]) -> Any:
    """The same nest with other tensors at these places, counted as `tensors_in` counts them.

    >>> replace_tensors({"a": torch.zeros(1), "b": [torch.zeros(1)]}, {1: torch.ones(1)})
    {'a': tensor([0.]), 'b': [tensor([1.])]}
    """
    place = iter(range(len(tensors_in(nest))))
    return map_tensors(lambda one: others.get(next(place), one), nest)


def select_rows(nest: Any, which: Tensor, n_rows: int) -> Any:
    """These rows of every tensor of a nest that has so many; others stay as they are.

    >>> select_rows((torch.arange(3), torch.zeros(())), torch.tensor([2, 0]), 3)
    (tensor([2, 0]), tensor(0.))
    """
    return map_tensors(lambda one: one[which] if one.dim() and len(one) == n_rows else one, nest)
