"""The proof, in plain torch, that an edit does harm: that less is learned by the same recipe, or a promise is broken.

Less is learned where the loss after a short training, asked by the loss and the targets of the program before the edit,
is clearly outside the spread of three seeds of that program, for two seeds of the mutant. Promises are causality,
independence of rows, determinism in eval, and that the gradient is the slope.
"""

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

STEPS = 40
SEEDS = (0, 1, 2)
SAME = 1e-4  # relative: less than this is rounding
CLEAR = 0.2  # of what the healthy one learns
Builder = Callable[[int], Specimen]


@dataclass(frozen=True)
class Learned:
    """What one training came to."""

    first: float  # the loss that was asked before it, in eval
    last: float  # and after it, in eval
    in_training: float  # and in the mode that it is trained in
    path: tuple[float, ...]  # the losses on the way


@dataclass(frozen=True)
class Harm:
    """What was measured of an edit. verdict: harm, nothing, or unclear."""

    verdict: str
    how: str
    before: float = math.nan
    after: float = math.nan


class Yardstick:
    """What a healthy program learns and promises, measured once for all its mutants."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.promises = measure_promises(build(0))
        self.runs: list[Learned] = []
        self.learns = True
        if build(0).loss is None or build(0).optimizer is None:
            return  # of these the promises alone are held
        self.runs = [train(build(seed), build(seed), seed) for seed in SEEDS]
        learned = self.runs[0].first - sorted(one.last for one in self.runs)[1]
        self.learns = learned > 0.03 * abs(self.runs[0].first) and all(map(math.isfinite, (self.runs[0].last, learned)))

    def judge(self, mutate: Builder) -> Harm:
        """What the edit does; raises what the mutant raises."""
        mutant = mutate(0)
        for name, gap in measure_promises(mutant).items():
            kept = self.promises.get(name, math.inf)
            if kept <= SAME and not gap <= 0.02:
                return Harm("harm", name, kept, gap)
        if not self.runs:
            return Harm("unclear", "every promise is kept")
        own = train(mutate(0), self.build(0), 0)
        for name in ("last", "in_training"):
            healthy = [getattr(one, name) for one in self.runs]
            limit = self._limit(healthy)
            value = getattr(own, name)
            if not value <= limit and not getattr(train(mutate(1), self.build(1), 1), name) <= limit:
                return Harm("harm", f"loss after {STEPS} steps, {name}", max(healthy), value)
        if self._is_same(own):
            return Harm("nothing", "the same outputs, gradients and losses", self.runs[0].last, own.last)
        return Harm("unclear", "another program, and no clear harm", self.runs[0].last, own.last)

    def _limit(self, healthy: list[float]) -> float:
        first = self.runs[0].first
        middle = sorted(healthy)[1]
        return max(healthy) + max(2 * (max(healthy) - min(healthy)), CLEAR * (first - middle), 1e-3 * abs(first))

    def _is_same(self, own: Learned) -> bool:
        ours = self.runs[0]
        pairs = [(own.first, ours.first), (own.last, ours.last), *zip(own.path, ours.path, strict=True)]
        return all(abs(one - other) <= SAME * max(abs(other), 1e-3) for one, other in pairs)


def train(trained: Specimen, asked: Specimen, seed: int) -> Learned:
    """Some steps of a specimen, and what the loss and the targets of another say of it."""
    path = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fixed_rng(seed):
            first = ask(trained, asked, True)
            batches = [(trained.inputs, trained.targets), *trained.more]
            for number in range(STEPS):
                if trained.step is not None:
                    path.append(as_number(trained.step()))
                    continue
                inputs, targets = batches[number % len(batches)]
                trained.optimizer.zero_grad()
                loss = trained.loss(trained.model(*inputs), targets)
                loss.backward()
                trained.optimizer.step()
                path.append(loss.item())
            in_training = ask(trained, asked, False)
            last = ask(trained, asked, True)
    return Learned(first, last, in_training, tuple(path))


def as_number(given: Any) -> float:
    """What a step gives back, if it is its loss."""
    return float(given) if isinstance(given, float | Tensor) else math.nan


def ask(trained: Specimen, asked: Specimen, in_eval: bool) -> float:
    """The mean loss over all batches, by the loss and the targets of the other; nothing is changed by it."""
    model = copy.deepcopy(trained.model)
    if in_eval:
        model.eval()
    losses = []
    with fixed_rng(7), torch.no_grad():
        for (inputs, _), (_, targets) in zip(all_batches(trained), all_batches(asked), strict=True):
            losses.append(float(asked.loss(model(*inputs), targets)))
    return sum(losses) / len(losses)


def all_batches(specimen: Specimen) -> list[tuple[tuple[Any, ...], Any]]:
    return [(specimen.inputs, specimen.targets), *specimen.more]


def measure_promises(specimen: Specimen) -> dict[str, float]:
    """How far each promise is from being kept, relative to what is compared; left out where it cannot be asked."""
    found = {}
    with warnings.catch_warnings(), fixed_rng(3):
        warnings.simplefilter("ignore")
        model = copy.deepcopy(specimen.model).eval()
        out = first_tensor(run(model, specimen.inputs))
        again = first_tensor(run(model, specimen.inputs))
        found["determinism in eval"] = gap_between(out, again)
        changed = change_row(specimen.inputs)
        if changed is not None and out.dim() and out.shape[0] == len(specimen.inputs[0]):
            found["independence of rows"] = gap_between(out[1:], first_tensor(run(model, changed))[1:])
        rows = specimen.inputs[0]
        if specimen.is_causal and len(specimen.inputs) == 1 and out.dim() == 3 and out.shape[:2] == rows.shape[:2]:
            later = rows.clone()
            later[:, -1] = rows[:, -1].roll(1, 0)
            found["causality"] = gap_between(out[:, :-1], first_tensor(run(model, (later,)))[:, :-1])
        if specimen.loss is not None:
            gap = slope_gap(specimen)
            if gap is not None:
                found["gradient is the slope"] = gap
    return found


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    with torch.no_grad():
        return model(*[one.clone() if isinstance(one, Tensor) else one for one in inputs])


def change_row(inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The first row in place of which the second stands, in every input of as many rows."""
    if not isinstance(inputs[0], Tensor) or inputs[0].dim() == 0 or len(inputs[0]) < 3:
        return None
    rows = len(inputs[0])
    changed = []
    for one in inputs:
        if isinstance(one, Tensor) and one.dim() and len(one) == rows:
            one = one.clone()
            one[0] = one[1]
        changed.append(one)
    return tuple(changed)


def slope_gap(specimen: Specimen) -> float | None:
    """How far the gradient is from the slope of the loss along one random direction, in float64."""
    model = copy.deepcopy(specimen.model).double()
    # Hooks of weights belong to them, and a copy loses them: they are taken along.
    for one, other in zip(specimen.model.parameters(), model.parameters(), strict=True):
        for hook in (one._backward_hooks or {}).values():
            if other.requires_grad:
                other.register_hook(hook)

    def double(value: Any) -> Any:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    try:
        inputs, targets = tuple(map(double, specimen.inputs)), double(specimen.targets)

        def loss() -> Tensor:
            with fixed_rng(5):
                return specimen.loss(model(*inputs), targets)

        moved = [one for one in model.parameters() if one.requires_grad]
        gradients = torch.autograd.grad(loss(), moved, allow_unused=True)
    except (RuntimeError, TypeError):
        return None
    directions = [torch.randn_like(one) for one in moved]
    told = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True) if g is not None)
    near, far = (difference_along(loss, moved, directions, distance) for distance in (1e-6, 1e-5))
    if not abs(near - far) <= 0.01 * max(abs(near), abs(far)) + 1e-6:
        return None  # a kink, or more curvature than the distance bears: there is no slope to compare with
    return abs(told - near) / max(abs(near), abs(told), 1e-6)


def difference_along(loss: Callable[[], Tensor], moved: list[Any], directions: list[Tensor], distance: float) -> float:
    """The slope of the loss along directions, by what it is at both sides."""
    values = []
    for way in (distance, -2 * distance, distance):
        with torch.no_grad():
            for one, direction in zip(moved, directions, strict=True):
                one.add_(direction, alpha=way)
            values.append(float(loss()))
    return (values[0] - values[1]) / (2 * distance)


def gap_between(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return math.inf
    one, other = one.double(), other.double()
    scale = float(one.std()) if one.numel() > 1 else 1.0
    gap = float((one - other).abs().max()) / max(scale, 1e-6) if one.numel() else 0.0
    return gap if math.isfinite(gap) else math.inf


def first_tensor(value: Any) -> Tensor:
    """The first tensor of numbers in what a model puts out."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        for one in value:
            try:
                return first_tensor(one)
            except TypeError:
                continue
    if hasattr(value, "__dataclass_fields__"):
        return first_tensor([getattr(value, name) for name in value.__dataclass_fields__])
    raise TypeError("no tensor came out")
