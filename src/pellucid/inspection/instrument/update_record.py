"""What really reaches an optimizer: gradients as each backward pass gives them, beside those that an update is made of.

Hooks stand on the weights and on every optimizer there is, so that it works for loops that nobody has read. It is for a
forked process, where nobody is disturbed by them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

MOST_WEIGHTS = 3_000_000  # of more, directions are not compared: it would take longer than the training


class Update(NamedTuple):
    """One call of an optimizer's step(), by all weights of the model that it holds."""

    optimizer: int  # which of those that made a step, in the order of their first
    n_backward: int  # backward passes since its last update
    n_fresh: int  # of those, in the same call of the training step
    came: float  # norm of the sum of what these passes gave
    given: float  # norm of what the optimizer was given
    with_sum: float  # cosine of what was given and of that sum; nan where it is not known
    with_last: float  # and of what the last pass alone gave
    rates: tuple[float, ...]  # of its groups
    is_training: bool  # the model's mode in the last backward pass
    has_moved: bool  # whether weights changed between the passes, as in a search along a line


class Settings(NamedTuple):
    """How a training is changed to try something out."""

    factor: float = 1.0  # times the rate
    holds_rates: str = ""  # "first": each group keeps the rate of its first update; "largest": the largest so far
    evens_rates: bool = False  # each group has the largest rate of all
    without_decay: bool = False
    optimizer: str = ""  # another one, of torch.optim, in place of theirs; not for a step of their own
    in_float32: bool = False
    uncut: bool = False  # optimizers are given what backward gave, whatever was done to it in between


USUAL = Settings()  # nothing is changed


class UpdateRecorder:
    """Notes every update of a model's weights between `begin` and `end`.

    >>> line = nn.Linear(1, 1, bias=False)
    >>> optimizer = torch.optim.SGD(line.parameters(), lr=0.5)
    >>> recorder = UpdateRecorder(line)
    >>> recorder.begin()
    >>> for _ in range(2):
    ...     line(torch.ones(1, 1)).sum().backward()
    >>> optimizer.step()
    >>> recorder.end()
    >>> [(one.n_backward, one.came, one.given, one.rates) for one in recorder.made]
    [(2, 2.0, 2.0, (0.5,))]
    """

    def __init__(self, model: nn.Module, settings: Settings = USUAL) -> None:
        self.model = model
        self.parameters = dict(model.named_parameters())
        self.settings = settings
        self.made: list[Update] = []
        self.norms: dict[str, list[float]] = {path: [] for path in self.parameters}  # given at each update; nan: none
        self.ratios: dict[str, list[float]] = {path: [] for path in self.parameters}  # deviation of update by its own
        self.swallowed: dict[str, list[float]] = {path: [] for path in self.parameters}
        self.groups: dict[str, tuple[str, ...]] = {}  # by "optimizer.group" the weights in it
        self.cut: dict[str, list[float]] = {path: [] for path in self.parameters}  # by hooks on it: what is left
        self.n_passes = dict.fromkeys(self.parameters, 0)
        self._keeps = sum(one.numel() for one in self.parameters.values()) <= MOST_WEIGHTS
        self._known: dict[int, int] = {}
        self._rates: dict[tuple[int, int], Any] = {}  # that are held
        self._kept: dict[int, list[dict[str, Any]]] = {}
        self._handles: list[Any] = []
        self._sums: dict[str, Tensor] = {}
        self._last: dict[str, Tensor] = {}
        self._versions: dict[str, list[int]] = {}
        self._at_update = dict(self.n_passes)
        self._step_began = dict(self.n_passes)
        self._before: dict[str, Tensor] = {}
        self._was_training = model.training

    def begin(self) -> None:
        """From here on it listens."""
        for path, one in self.parameters.items():
            if one.requires_grad:
                self._listen(path, one)
        self._handles += [
            register_optimizer_step_pre_hook(self._update_begins),
            register_optimizer_step_post_hook(self._update_ended),
        ]

    def step_begins(self) -> None:
        """A call of the training step: what came before it is old."""
        self._step_began = dict(self.n_passes)

    def end(self) -> None:
        """It listens no more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _listen(self, path: str, parameter: Tensor) -> None:
        hooks: Any = getattr(parameter, "_backward_hooks", None)
        raw = [math.nan]

        def before_theirs(gradient: Tensor) -> None:
            raw[0] = _norm(gradient)

        if hooks:
            first = parameter.register_hook(before_theirs)  # type: ignore[no-untyped-call]  # torch gives no types
            hooks.move_to_end(first.id, last=False)
            self._handles.append(first)

        def after_theirs(gradient: Tensor) -> None:
            self._note_pass(path, parameter, gradient)
            if raw[0] > 0:
                self.cut[path].append(_norm(gradient) / raw[0])

        self._handles.append(parameter.register_hook(after_theirs))  # type: ignore[no-untyped-call]

    def _note_pass(self, path: str, parameter: Tensor, gradient: Tensor) -> None:
        self.n_passes[path] += 1
        self._was_training = self.model.training
        if self._keeps:
            dense = gradient.detach().to_dense().double()
            before = self._sums.get(path)
            self._sums[path] = dense.clone() if before is None else before + dense
            self._last[path] = dense.clone()
        self._versions.setdefault(path, []).append(parameter._version)

    def _forget_passes(self, paths: list[str]) -> None:
        """What came for these weights was used; a new sum begins."""
        for path in paths:
            self._sums.pop(path, None)
            self._last.pop(path, None)
            self._versions.pop(path, None)
            self._at_update[path] = self.n_passes[path]

    def _update_begins(self, optimizer: Optimizer, *_: object) -> None:
        number = self._known.setdefault(id(optimizer), len(self._known))
        rates = tuple(float(group.get("lr", math.nan)) for group in optimizer.param_groups)
        ids = {id(one): place for place, group in enumerate(optimizer.param_groups) for one in group["params"]}
        held = [path for path, one in self.parameters.items() if id(one) in ids]
        for place in range(len(optimizer.param_groups)):
            inside = tuple(path for path in held if ids[id(self.parameters[path])] == place)
            self.groups.setdefault(f"{number}.{place}", inside)
        for path, one in self.parameters.items():
            self.norms[path].append(math.nan if one.grad is None else _norm(one.grad))
        self._before = {path: self.parameters[path].detach().clone() for path in held}
        self.made.append(self._update(number, held, rates))
        if self.settings.uncut:
            self._give_all(held)
        self._forget_passes(held)
        self._adjust(number, optimizer)

    def _give_all(self, paths: list[str]) -> None:
        """The sum of what came, in place of what is there."""
        for path in paths:
            one, came = self.parameters[path], self._sums.get(path)
            if one.grad is not None and came is not None and not one.grad.is_sparse:
                one.grad.copy_(came)

    def _update(self, number: int, held: list[str], rates: tuple[float, ...]) -> Update:
        def flat(tensors: Mapping[str, Tensor | None]) -> Tensor:
            parts = [
                (torch.zeros_like(self.parameters[path], dtype=torch.float64) if one is None else one).flatten()
                for path, one in tensors.items()
            ]
            return torch.cat(parts) if parts else torch.zeros(1, dtype=torch.float64)

        n_backward = max([self.n_passes[path] - self._at_update[path] for path in held], default=0)
        n_fresh = max(
            [self.n_passes[path] - max(self._at_update[path], self._step_began[path]) for path in held], default=0
        )
        grads = {path: self.parameters[path].grad for path in held}
        given_norm = math.hypot(*[_norm(one) for one in grads.values() if one is not None])
        came = with_sum = with_last = math.nan
        if self._keeps:
            given = flat({path: None if one is None else one.to_dense().double() for path, one in grads.items()})
            total, last = (flat({path: kept.get(path) for path in held}) for kept in (self._sums, self._last))
            came, with_sum, with_last = float(total.norm()), _cosine(given, total), _cosine(given, last)
        has_moved = any(len(set(self._versions.get(path, ()))) > 1 for path in held)
        return Update(
            number, n_backward, n_fresh, came, given_norm, with_sum, with_last, rates, self._was_training, has_moved
        )

    def _update_ended(self, optimizer: Optimizer, *_: object) -> None:
        for group, kept in zip(optimizer.param_groups, self._kept.pop(id(optimizer), []), strict=False):
            group.update(kept)
        for path, before in self._before.items():
            after, gradient = self.parameters[path].detach(), self.parameters[path].grad
            size = before.double().std(correction=0)
            if before.dim() >= 2 and size > 0:
                self.ratios[path].append(float((after - before).double().std(correction=0) / size))
            asked = None if gradient is None else gradient.to_dense() != 0
            if asked is not None and bool(asked.any()):
                self.swallowed[path].append(float(((after == before) & asked).sum() / asked.sum()))
        self._before = {}

    def _adjust(self, number: int, optimizer: Optimizer) -> None:
        """Other settings for this one update; its own are put back behind it, for those who plan rates."""
        groups, asked = optimizer.param_groups, self.settings
        for place, group in enumerate(groups):
            if "lr" in group:
                held = self._rates.setdefault((number, place), group["lr"])
                self._rates[number, place] = max(held, group["lr"]) if asked.holds_rates == "largest" else held
        self._kept[id(optimizer)] = [
            {name: group[name] for name in ("lr", "weight_decay") if name in group} for group in groups
        ]
        largest = max([float(group["lr"]) for group in groups if "lr" in group], default=0.0)
        for place, group in enumerate(groups):
            if "lr" in group:
                rate = self._rates[number, place] if asked.holds_rates else group["lr"]
                group["lr"] = (largest if asked.evens_rates else rate) * asked.factor
            if asked.without_decay and "weight_decay" in group:
                group["weight_decay"] = 0 * group["weight_decay"]


class FrozenCopies:
    """Weights that do not learn and begin as others that do, as averages and slow targets: how they follow.

    >>> learning, average = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2), requires_grad=False)
    >>> copies = FrozenCopies({"weight": learning, "average": average})
    >>> learning.data += 1
    >>> average.data += 0.25
    >>> copies.note_step()
    >>> copies.shares()
    {'average': ('weight', 0.25)}
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        learning = {path: one for path, one in parameters.items() if one.requires_grad and one.dim() >= 2}
        self._pairs: dict[str, tuple[str, Tensor, Tensor]] = {}
        for path, one in parameters.items():
            if not one.requires_grad and one.dim() >= 2:
                alike = [other for other in learning if torch.equal(learning[other], one)]
                if alike:
                    self._pairs[path] = (alike[0], one, learning[alike[0]])
        self._before = self._now()
        self._shares: dict[str, list[float]] = {path: [] for path in self._pairs}

    def _now(self) -> dict[str, Tensor]:
        return {path: one.detach().clone() for path, (_, one, _) in self._pairs.items()}

    def note_step(self) -> None:
        """The share of the way that the step took each of them."""
        now = self._now()
        for path, (_, _, other) in self._pairs.items():
            way = (other.detach() - self._before[path]).double()
            if bool(way.any()):
                gone = (now[path] - self._before[path]).double()
                self._shares[path].append(float((gone * way).sum() / way.square().sum()))
        self._before = now

    def shares(self) -> dict[str, tuple[str, float]]:
        """Of each, whose copy it is, and the middle of all steps."""
        return {path: (self._pairs[path][0], statistics.median(each)) for path, each in self._shares.items() if each}


def _norm(tensor: Tensor) -> float:
    return float(tensor.detach().to_dense().double().norm())


def _cosine(one: Tensor, other: Tensor) -> float:
    sizes = float(one.norm() * other.norm())
    return float(one @ other) / sizes if sizes > 0 and math.isfinite(sizes) else math.nan
