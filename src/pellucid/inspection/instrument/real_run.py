"""The patient itself in training: its own weights, hooks, optimizer and step, in a process that is forked for it.

A copy may behave better than what it was made of: it loses hooks, closures over weights, compiled and scripted parts.
A forked process has the original, and whatever happens in it happens to nobody. Where a process cannot be forked, or
the weights are not on the CPU, there is no such run, and what it would have shown is not known.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.forking import measure_in_fork
from pellucid.inspection.instrument.isolation import first_line, fixed_rng, isolate, own_inputs
from pellucid.inspection.instrument.nests import main_tensor, map_tensors, tensors_in
from pellucid.inspection.instrument.recording import InterceptOperators
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.instrument.step_effects import StoredData, crossed_shapes
from pellucid.inspection.instrument.update_record import USUAL, FrozenCopies, Settings, Update, UpdateRecorder

STEPS = 30
ENOUGH_SECONDS = 4.0  # of CPU time, after which it ends early, with the steps that it has
TRIAL_SECONDS = 1.0
FEWEST_STEPS = 5
UNKNOWN_PERIOD = 5  # steps that are taken together where nobody knows which batches they read
COUNTED = (2, 8, 14, 20)  # steps whose operations are counted, evenly apart


class RealRun(NamedTuple):
    """What happened in a few steps of the patient's own training."""

    losses: tuple[float, ...]  # of each step, before its update; nan where a step of their own tells none
    first: float  # the loss of all batches before the first update; nan for a step of their own
    period: int  # steps of which losses are compared as a mean: the number of batches, several where they are not known
    moved: Mapping[str, float]  # how far each parameter went, by its own size; 0: not a bit of it changed
    shrunk: Mapping[str, float]  # the norm of each at the end by that at first; of zeros, 1
    gradients: Mapping[str, tuple[float, ...]]  # norms that an optimizer was given at each update; nan: none was there
    n_passes: Mapping[str, int]  # backward passes that came to each parameter
    ratios: Mapping[str, tuple[float, ...]]  # of each matrix at each update: the update's deviation by its own
    swallowed: Mapping[str, float]  # of the numbers with a gradient, those that an update left as they were; the mean
    cut: Mapping[str, float]  # of gradients, what hooks on a parameter leave; the middle of all passes
    updates: tuple[Update, ...]  # calls of step() of any optimizer
    groups: Mapping[str, tuple[str, ...]]  # which weights each group of each optimizer has, by "optimizer.group"
    idle: tuple[str, ...]  # weights that an optimizer holds, and none that ever made a step
    follows: Mapping[str, tuple[str, float]]  # frozen copies: of which weights, and how far a step takes them there
    statistics: Mapping[str, float]  # how far each buffer went, by its own size
    operations: tuple[tuple[int, int], ...]  # of some steps their numbers, and how many operations they took
    written: tuple[float, float]  # of stored rows of the data, the share that a step of their own wrote on; how far
    crossed: tuple[str, ...]  # shapes of a column and a row whose difference was taken, each once
    in_training: float  # the loss of the batches after the last step, in training mode; nan without a loss
    in_eval: float
    settled: float  # the loss in eval after as many more passes in training mode, without updates, twice over
    modes_apart: float  # how far the first outputs in eval are from those in training, by their size
    answers_moved: tuple[float, float]  # how far the outputs went, by their size, in training and in eval
    raised: str  # what it raised, and at which step; "" where nothing
    warned: tuple[str, ...]  # what torch warned of meanwhile, each once

    @property
    def n_steps(self) -> int:
        return len(self.losses)

    @property
    def n_updates(self) -> int:
        return len(self.updates)

    def ends(self, steps: int | None = None) -> tuple[float, float]:
        """The loss at first and in the end, or after so many steps: each the mean of a period."""
        losses = self.losses[:steps]
        period = max(1, min(self.period, len(losses) // 2))
        if not losses:
            return math.nan, math.nan
        first = sum(losses[:period]) / period if math.isnan(self.first) else self.first
        return first, sum(losses[-period:]) / period

    def fall(self, steps: int | None = None) -> float:
        """How much of the first loss is gone in the end; nan where a loss is no number."""
        first, last = self.ends(steps)
        return (first - last) / max(abs(first), 1e-12) if all(map(math.isfinite, self.losses[:steps])) else math.nan

    @property
    def noise(self) -> float:
        """How far the mean of a period may be off by chance, of the first loss: for steps that draw their batches.

        From one step to the next, so that what is learned does not count; 0 where batches come again.
        """
        apart = [one - other for one, other in pairwise(self.losses)]
        finite = [one for one in apart if math.isfinite(one)]
        if len(finite) < 2 or not math.isnan(self.first):
            return 0.0
        spread = statistics.stdev(finite) / math.sqrt(2)
        return spread / math.sqrt(self.period) / max(abs(self.ends()[0]), 1e-12)


def real_run(
    specimen: Specimen,
    steps: int = STEPS,
    *,
    forget_gradients: bool = False,
    settings: Settings = USUAL,
    seconds: float = ENOUGH_SECONDS,
) -> RealRun | None:
    """So many steps as the patient itself makes them; None where there is nothing to make them with.

    forget_gradients: clear them before every step, which changes nothing where the loop does so itself.
    settings: what is changed about it to try something out. seconds: after these it ends early.

    >>> line = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(line.weight, 3.0)
    >>> optimizer = torch.optim.SGD(line.parameters(), lr=0.25)
    >>> specimen = Specimen(line, (torch.ones(2, 1),), torch.zeros(2, 1), nn.MSELoss(), optimizer)
    >>> run = real_run(specimen, steps=2)
    >>> run.losses, run.moved["weight"], line.weight.item()
    ((9.0, 2.25), 0.75, 3.0)
    >>> run.ends(), run.fall(), run.updates[0].rates
    ((9.0, 2.25), 0.75, (0.25,))
    """
    has_own_step = specimen.step is not None
    if not has_own_step and (specimen.optimizer is None or not specimen.has_loss):
        return None
    if has_own_step and settings.optimizer:
        return None
    name = f"real run of {steps}{' without old gradients' * forget_gradients} {settings}"
    if name not in specimen.known:
        found = measure_in_fork(specimen.model, lambda: _train(specimen, steps, forget_gradients, settings, seconds))
        specimen.known[name] = None if found is None else _as_run(found)
    run: RealRun | None = specimen.known[name]
    return run


def trial_run(specimen: Specimen, settings: Settings) -> RealRun | None:
    """The same training with something changed, for as many steps as there is time for."""
    return real_run(specimen, settings=settings, seconds=TRIAL_SECONDS)


def _as_run(plain: Mapping[str, Any]) -> RealRun:
    updates = tuple(
        Update._make(tuple(part) if isinstance(part, list) else part for part in one) for one in plain["updates"]
    )
    tables = {
        name: {path: tuple(each) for path, each in plain[name].items()} for name in ("gradients", "ratios", "groups")
    }
    rows: dict[str, Any] = {
        name: tuple(plain[name]) for name in ("losses", "idle", "warned", "answers_moved", "written", "crossed")
    }
    rows["follows"] = {path: tuple(one) for path, one in plain["follows"].items()}
    operations = tuple((step, n) for step, n in plain["operations"])
    return RealRun(**{**plain, **tables, **rows, "updates": updates, "operations": operations})


def _train(
    specimen: Specimen, steps: int, forget_gradients: bool, settings: Settings, seconds: float
) -> dict[str, object]:
    """In the child: the steps, and what was seen of them, as plain values."""
    model = specimen.model
    if settings.in_float32:
        specimen = _in_float32(specimen)
    if settings.optimizer:
        kind = getattr(torch.optim, settings.optimizer)
        trained = [one for one in model.parameters() if one.requires_grad]
        specimen = replace(specimen, optimizer=kind(trained, lr=1e-2))
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    before = {path: one.detach().clone() for path, one in {**parameters, **buffers}.items()}
    first = _loss_in(specimen) if specimen.step is None else math.nan
    answers = [_answer_in(specimen, mode) for mode in (True, False)]
    recorder, copies = UpdateRecorder(model, settings), FrozenCopies(parameters)
    stored = StoredData(specimen.inputs) if specimen.step is not None else None
    crossed: list[str] = []
    losses: list[float] = []
    operations: list[tuple[int, int]] = []
    raised = ""
    batches = list(specimen.batches())
    period = UNKNOWN_PERIOD if specimen.step is not None else len(batches)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        recorder.begin()
        try:
            for step in range(steps):
                if forget_gradients:
                    for one in parameters.values():
                        one.grad = None
                recorder.step_begins()
                n_calls = [0]
                with fixed_rng(step), _counting(n_calls, crossed, step):
                    losses.append(_step(specimen, batches[step % len(batches)]))
                copies.note_step()
                operations += [(step, n_calls[0])] if n_calls[0] else []
                if time.process_time() - began > seconds and step + 1 >= FEWEST_STEPS:
                    break
        except Exception as error:
            raised = f"{type(error).__name__} at step {len(losses) + 1}: {first_line(error)}"
        recorder.end()
        in_training, in_eval = (_loss_in(specimen, mode) for mode in (True, False))
        has_statistics = any(not torch.equal(before[path], one) for path, one in buffers.items())
    moved_answers = [
        _distance_of(one, _answer_in(specimen, mode)) for one, mode in zip(answers, (True, False), strict=True)
    ]
    # Last of all, for it moves them: statistics that follow slowly are not those that never follow.
    settled = _loss_when_settled(specimen, 2 * len(losses), seconds) if has_statistics else in_eval
    return {
        "losses": losses,
        "first": first,
        "period": period,
        "moved": {path: _distance(before[path], one) for path, one in parameters.items()},
        "shrunk": {path: _shrunk(before[path], one) for path, one in parameters.items()},
        "gradients": recorder.norms,
        "n_passes": recorder.n_passes,
        "ratios": recorder.ratios,
        "swallowed": {path: statistics.fmean(each) for path, each in recorder.swallowed.items() if each},
        "cut": {path: statistics.median(each) for path, each in recorder.cut.items() if each},
        "updates": recorder.made,
        "groups": recorder.groups,
        "idle": _idle(parameters, recorder) if specimen.step is not None else [],
        "follows": copies.shares(),
        "statistics": {path: _distance(before[path], one) for path, one in buffers.items()},
        "operations": operations,
        "written": stored.written() if stored is not None else (0.0, 0.0),
        "crossed": list(dict.fromkeys(crossed)),
        "in_training": in_training,
        "in_eval": in_eval,
        "settled": settled,
        "modes_apart": _distance_of(*answers),
        "answers_moved": moved_answers,
        "raised": raised,
        "warned": list(dict.fromkeys(str(one.message).splitlines()[0] for one in warned if str(one.message))),
    }


def _in_float32(specimen: Specimen) -> Specimen:
    """In the child: the very same weights with more digits."""

    def widen(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor

    specimen.model.float()
    inputs, targets = map_tensors(widen, (specimen.inputs, specimen.targets))
    return replace(specimen, inputs=inputs, targets=targets)


@contextmanager
def _counting(n_calls: list[int], crossed: list[str], step: int) -> Iterator[None]:
    """Operations are counted, and looked at, in a few steps; in all of them it would take too long."""
    if step not in COUNTED:
        yield
        return

    def see(operator: Any, given: tuple[Any, ...], _named: object, made: object) -> None:
        n_calls[0] += 1
        if found := crossed_shapes(operator, given, made):
            crossed.append(found)

    with InterceptOperators(see):
        yield


def _idle(parameters: Mapping[str, Tensor], recorder: UpdateRecorder) -> list[str]:
    """Weights in optimizers that are there and never made a step, and in none that did."""
    stepped = {path for inside in recorder.groups.values() for path in inside}
    waiting: set[int] = set()
    for one in gc.get_objects():  # by their types: some pretend to be of another class, and raise when they are asked
        if issubclass(type(one), torch.optim.Optimizer):
            waiting |= {id(each) for group in one.param_groups for each in group["params"]}
    return [path for path, one in parameters.items() if id(one) in waiting and path not in stepped]


def _step(specimen: Specimen, batch: Specimen) -> float:
    """One step of training, their own or the usual one, and the loss that it began with."""
    if specimen.step is not None:
        return number_of_loss(specimen.step())
    assert specimen.optimizer is not None
    specimen.optimizer.zero_grad()

    def closure() -> Tensor:
        loss = batch.loss_of(specimen.model(*own_inputs(batch.inputs)))
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        return loss

    loss = closure()
    answers = [loss]
    ask: Any = lambda: answers.pop() if answers else _again(specimen, closure)  # noqa: E731  # torch types it as a float
    specimen.optimizer.step(ask)
    return float(loss.detach())


def number_of_loss(told: object) -> float:
    """The loss, where a step of someone's own gives one back: a number, or the first single one of several."""
    if isinstance(told, int | float):
        return float(told)
    numbers = [one for one in tensors_in((told,)) if one.numel() == 1]
    return float(numbers[0].detach()) if numbers else math.nan


def _again(specimen: Specimen, closure: Callable[[], Tensor]) -> Tensor:
    """For optimizers that ask for the loss several times in one step, as LBFGS."""
    assert specimen.optimizer is not None
    specimen.optimizer.zero_grad()
    return closure()


def _loss_in(specimen: Specimen, is_training: bool | None = None) -> float:
    """The loss of all batches in one of the modes, or as it is; nan where there is none."""
    if not specimen.has_loss:
        return math.nan
    try:
        if is_training is not None:
            specimen.model.train(is_training)
        with isolate(), torch.no_grad(), _statistics_kept(specimen.model):
            losses = [float(batch.loss_of(specimen.model(*own_inputs(batch.inputs)))) for batch in specimen.batches()]
        return statistics.fmean(losses)
    except Exception:
        return math.nan


def _loss_when_settled(specimen: Specimen, n_passes: int, seconds: float) -> float:
    """The loss in eval after so many passes in training mode, in which statistics follow and weights do not."""
    if not specimen.has_loss:
        return math.nan
    began, batches = time.process_time(), list(specimen.batches())
    try:
        specimen.model.train()
        with torch.no_grad():
            for number in range(n_passes):
                specimen.model(*own_inputs(batches[number % len(batches)].inputs))
                if time.process_time() - began > seconds / 2:
                    break
    except Exception:
        return math.nan
    return _loss_in(specimen, False)


def _answer_in(specimen: Specimen, is_training: bool) -> Tensor | None:
    """What it puts out for the batch in one of the modes; the modes of its parts are as before then."""
    model = specimen.model
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.train(is_training)
        with isolate(), torch.no_grad(), _statistics_kept(model):
            found = main_tensor(model(*own_inputs(specimen.inputs)))
        return None if found is None else found.detach().clone()
    except Exception:
        return None
    finally:
        for module, mode in modes:
            module.training = mode


def _distance_of(before: Tensor | None, after: Tensor | None) -> float:
    if before is None or after is None or before.shape != after.shape:
        return math.nan
    return _distance(before, after)


def _shrunk(before: Tensor, after: Tensor) -> float:
    return float(after.detach().double().norm() / before.double().norm()) if bool(before.any()) else 1.0


@contextmanager
def _statistics_kept(model: nn.Module) -> Any:
    """A look in training mode moves the statistics of batch norms; afterwards they are as before it."""
    kept = [(one, one.clone()) for one in model.buffers()]
    try:
        yield
    finally:
        for one, before in kept:
            one.copy_(before)


def _distance(before: Tensor, after: Tensor) -> float:
    """How far a tensor went, by its own size; of zeros, how large it became. 0 only where it has the same bits."""
    if torch.equal(before, after.detach()):
        return 0.0
    apart = (after.detach().double() - before.double()).norm()
    return float(apart / before.double().norm()) if bool(before.any()) else float(apart)
