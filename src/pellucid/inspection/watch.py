"""A watch over someone's own loop: some of its steps are looked at, and at the end it is told what was seen.

The optimizer says when a step ends, so the loop itself stays as it is. A look costs about as much as one or two steps;
with the looks rare enough, the whole loop is hardly slower. Which steps are looked at depends on their number alone:
the same loop is seen the same way every time.
"""

from __future__ import annotations

import math
from array import array
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from pellucid.errors import PellucidError
from pellucid.inspection.health import HealthProbe
from pellucid.inspection.instrument.isolation import require_initialized
from pellucid.inspection.instrument.weight_growth import WeightSizes
from pellucid.inspection.judgements import (
    PICTURED,
    is_more_than_rounding,
    judge_health,
    judge_old_gradients,
    judge_statistics,
    judge_still_weights,
)
from pellucid.records import Finding, Health, Step, Watched, gravest_first

FIRST = (1, 2, 5)  # looked at however short the loop is
EVERY = 20  # steps from one look to the next, at first
FEWEST_STILL = 3  # looks at which a weight stands still, before it is told
MOST_LOOKS = 40  # kept; with more, every second one is given up and the looks become rarer


class Watch:
    """What was seen of a loop, once it is left; made by `pellucid.watch`.

    health: the looks, of at most `MOST_LOOKS` steps. norms: of all gradients together at every step, as the optimizer
    got them, and rates: the first group's.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with Watch(model, optimizer) as watch:
    ...     for _ in range(30):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> [look.step for look in watch.health], watch.n_steps
    ([1, 2, 5, 20], 30)
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        _require_watchable(model, optimizer)
        self.model = model
        self.optimizer = optimizer
        self.health: list[Health] = []
        self.norms = array("d")
        self.rates = array("d")
        self._sizes = WeightSizes(dict(model.named_parameters()))
        self._largest = ("", 0.0)  # the largest number in all weights where gradients first were none, and whose
        self._every = EVERY
        self._probe = HealthProbe(model)
        self._statistics: dict[str, list[float]] = {}  # the size of each running statistic at every look
        self._first_statistics = {path: one.detach().clone() for path, one in _running_statistics(model)}
        self._look: AbstractContextManager[None] | None = None
        self._handles: list[RemovableHandle] = []

    @property
    def n_steps(self) -> int:
        """How many steps were made so far."""
        return len(self.norms)

    def __enter__(self) -> Watch:
        if self._handles:
            raise PellucidError("this watch is already going on", fix="Make a new one with pellucid.watch")
        self._handles = [
            self.optimizer.register_step_pre_hook(self._step_begins),
            self.optimizer.register_step_post_hook(self._step_ended),
        ]
        self._prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """However the loop ended: nothing of the watch stays on the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._give_up()

    def findings(self) -> list[Finding]:
        """What the looks mean, the gravest first."""
        # Of a module that nobody knows, a sample of a few steps is no proof: a layer may get no gradient on purpose.
        seen = [
            finding._replace(
                severity="suspicious" if finding.severity == "broken" else finding.severity,
                again=f'watch.draw("{PICTURED[finding.rule]}", "{PICTURED[finding.rule]}.svg")',
            )
            for finding in judge_health(self._finite_looks())
        ]
        found = [
            *(finding._replace(rule="not-finite") for finding in self._not_finite()),
            *(finding._replace(rule="own-step") for finding in self._old_gradients()),
            *(finding._replace(rule="still-weights") for finding in self._still_weights()),
            *(finding._replace(rule="eval-unlike-training") for finding in self._drifting()),
            *seen,
        ]
        return gravest_first(found)

    def report(self) -> Watched:
        """All of it as a record, which can be drawn and stored."""
        steps = [
            Step(step, math.nan, 0, rate, norm)
            for step, (rate, norm) in enumerate(zip(self.rates, self.norms, strict=True), start=1)
        ]
        left_out = self._probe.left_out
        return Watched(type(self.model).__name__, tuple(steps), tuple(self.health), tuple(self.findings()), left_out)

    def _step_begins(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Before an update: how large the gradients are. One pass over them, little beside the one that made them."""
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and not parameter.grad.is_sparse
        ]
        norms = torch._foreach_norm(gradients) if gradients else ()
        self.norms.append(math.hypot(*[norm.item() for norm in norms]))
        if self._broke_at() == self.n_steps:
            self._largest = self._sizes.largest()
        self.rates.append(float(optimizer.param_groups[0].get("lr", math.nan)))

    def _step_ended(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """After an update: a look that was open is finished, and the next is opened where it is its turn."""
        if self._broke_at() is None:
            self._sizes.note(self.n_steps)
        if self._look is not None:
            look, self._look = self._look, None
            look.__exit__(None, None, None)
            self._keep(*self._probe.take_looks())
            for path, one in _running_statistics(self.model):
                self._statistics.setdefault(path, []).append(torch.linalg.vector_norm(one).item())
        self._prepare()

    def _keep(self, look: Health) -> None:
        """The maps of units stay with the first look and the last alone."""
        self.health[1:] = [one._replace(maps=()) for one in self.health[1:]]
        self.health.append(look)
        if len(self.health) > MOST_LOOKS:
            self._every *= 2
            self.health = [one for one in self.health if one.step in FIRST or one.step % self._every == 0]

    def _prepare(self) -> None:
        step = self.n_steps + 1
        if step in FIRST or step % self._every == 0:
            # Which look is the last is not known before the end, so that each has maps until another comes.
            self._look = self._probe.watch(step, with_maps=True)
            self._look.__enter__()

    def _give_up(self) -> None:
        """An open look at a step that never ended."""
        if self._look is not None:
            look, self._look = self._look, None
            look.__exit__(_Unfinished, _Unfinished(), None)

    @property
    def _held(self) -> set[int]:
        """The ids of what the optimizer moves, and clears."""
        return {id(one) for group in self.optimizer.param_groups for one in group["params"]}

    def _old_gradients(self) -> list[Finding]:
        """Whether gradients of earlier steps lay there when those of a step came; of the look where it shows most."""
        paths = {path for path, one in self.model.named_parameters() if id(one) in self._held}
        both = {
            step: tuple(math.hypot(*[pair[place] for path, pair in first.items() if path in paths]) for place in (0, 1))
            for step, first in self._probe.old_gradients.items()
            if step > 1
        }
        both = {step: pair for step, pair in both.items() if pair[1] > 0 and all(map(math.isfinite, pair))}
        if not both:
            return []
        step = max(both, key=lambda step: abs(both[step][0] - both[step][1]) / both[step][1])
        with_old, without = both[step]
        seen = (
            f"at step {step} gradients have a norm of {with_old:.4g}, and {without:.4g} without what lay there before"
        )
        again = "print([p.grad for p in model.parameters()])  # before backward()"
        return [judge_old_gradients("the loop", seen, with_old, without)._replace(again=again, step=step)]

    def _still_weights(self) -> list[Finding]:
        """Weights that get a gradient at the last looks, and do not move."""
        looks = self._finite_looks()[-FEWEST_STILL:]
        if len(looks) < FEWEST_STILL or not any(self.rates[look.step - 1] for look in looks):
            return []
        asked = [path for path, one in self.model.named_parameters() if one.requires_grad and id(one) in self._held]
        tables = [{weight.path: weight for weight in look.weights} for look in looks]
        norms = [[weight.gradient_norm for weight in table.values()] for table in tables]

        def is_still(path: str) -> bool:
            return all(
                path in table
                and table[path].update_ratio == 0
                and table[path].gradient_norm > 0
                and is_more_than_rounding(table[path].gradient_norm, each)
                for table, each in zip(tables, norms, strict=True)
            )

        still = [path for path in asked if is_still(path)]
        steps = ", ".join(str(look.step) for look in looks)
        if not still:
            seen = f"of {len(asked)} parameters all that got a gradient moved at step {steps}"
            return [Finding.sound("all weights", seen, "none has stopped")._replace(step=looks[-1].step)]
        largest = max(table[path].gradient_norm for table in tables for path in still)
        found = judge_still_weights(still, len(asked), len(looks), largest, f" (step {steps})")
        again = "before = p.detach().clone(); optimizer.step(); print(torch.equal(p, before))"
        return [found._replace(severity="suspicious", again=again, step=looks[-1].step)]

    def _drifting(self) -> list[Finding]:
        """Running statistics that run away, or never move."""
        sizes = {path: each for path, each in self._statistics.items() if len(each) > 1}
        now = dict(_running_statistics(self.model))
        unmoved = [path for path in sizes if path in now and torch.equal(now[path], self._first_statistics[path])]
        again = "print(dict(model.named_buffers()))"
        found = judge_statistics(sizes, self.n_steps, unmoved)
        return [one._replace(again=again, step=self.n_steps) for one in found]

    def _finite_looks(self) -> list[Health]:
        broke = self._broke_at()
        return [look for look in self.health if broke is None or look.step < broke]

    def _broke_at(self) -> int | None:
        """The first step whose gradients were no numbers any more."""
        return next((step for step, norm in enumerate(self.norms, start=1) if not math.isfinite(norm)), None)

    def _not_finite(self) -> list[Finding]:
        step = self._broke_at()
        if step is None:
            if not self.norms:
                return []
            seen = f"the norm of all gradients was at most {max(self.norms):.3g} over {self.n_steps:,} steps"
            return [Finding.sound("gradients", seen, "every update was made of numbers")]
        before = self.norms[max(0, step - 6) : step - 1]
        came = ", ".join(f"{norm:.3g}" for norm in before)
        seen = f"the norm of all gradients is {self.norms[step - 1]}" + (f" after {came}" if came else "")
        growth = self._sizes.find_growth()
        name, largest = self._largest
        told = f"no update made a weight much larger, and the largest number was {largest:.3g} in {name}"
        seen += f"; {told if growth is None else growth.description}"
        return [
            Finding.broken(
                "gradients",
                seen,
                "from this update on the weights are no numbers, and nothing is learned any more",
                "lower the rate or clip the gradients, and look for divisions, logarithms and roots near 0",
                step=step,
                again=f"torch.autograd.set_detect_anomaly(True), up to step {step}",
            )
        ]


class _Unfinished(Exception):
    """Says to a look that its step did not end, so that nothing is kept of it."""


def _running_statistics(model: nn.Module) -> list[tuple[str, Tensor]]:
    """What norms keep of all batches, with its paths."""
    return [
        (f"{path}.{name}" if path else name, one)
        for path, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._NormBase)
        for name, one in module.named_buffers(recurse=False)
        if one.is_floating_point()
    ]


def _require_watchable(model: nn.Module, optimizer: Optimizer) -> None:
    if not isinstance(model, nn.Module):
        raise PellucidError(f"the model is a {type(model).__name__}, not a module", fix="Give a torch.nn.Module")
    if isinstance(optimizer, list | tuple | dict):
        raise PellucidError(
            f"{len(optimizer)} optimizers came, and a watch follows one",
            fix="Watch each part of the model with its own optimizer",
        )
    if not isinstance(optimizer, Optimizer):
        raise PellucidError(f"the optimizer is a {type(optimizer).__name__}", fix="Give a torch.optim.Optimizer")
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not any(id(parameter) in moved for parameter in model.parameters()):
        raise PellucidError(
            "the optimizer has none of the model's parameters", fix="Make the optimizer from model.parameters()"
        )
    require_initialized(model)
