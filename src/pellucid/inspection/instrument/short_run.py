"""A copy in training: what it makes smaller, its gradients, and a few steps on its one batch.

All steps have the same random numbers, so that the loss differs by what was learned and by nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.recording import InterceptOperators, gradients_of, operator_name
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.instrument.weight_growth import WeightGrowth, WeightSizes

MOST_STEPS = 150
FEWEST_STEPS = 40  # with fewer, one that did not learn says nothing
RATES = (1e-2, 1e-3, 1e-1)
WORK = 2e10  # operations for all rates together, which is a second or two; counted, since a clock is no two times alike
CALL = 1e5  # what calling one operation costs, in operations of arithmetic
FEWEST_ROWS = 4
# Networks that are meant to follow another, and not to be trained, are usually called so.
_FOLLOWING = re.compile(r"(^|[._])(target|teacher|ema|momentum|slow|frozen)", re.IGNORECASE)


def runs_in_training(specimen: Specimen) -> bool:
    """Whether the batch goes through in training mode: a single row does not go through a batch norm."""

    def run() -> bool:
        with isolate(), torch.no_grad():
            specimen.copy("training").outputs()
        return True

    return try_or_none(run) is not None


def copy_in_training(specimen: Specimen) -> Specimen:
    """A copy in training mode; in eval where the batch only goes through there."""
    return specimen.copy("training" if runs_in_training(specimen) else "eval")


def objective(specimen: Specimen) -> Tensor | None:
    """The number that is made smaller: the loss, or where there is none a mixture of all outputs; None without either.

    The specimen must be a copy, and this must run inside `isolate`.
    """
    outputs = specimen.model(*own_inputs(specimen.inputs))
    if specimen.has_loss:
        loss = specimen.loss_of(outputs)
        return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None
    rng = torch.Generator().manual_seed(0)
    floats = [one for one in tensors_in(outputs) if one.is_floating_point()]
    parts = [(one * torch.randn(one.shape, generator=rng).to(one)).sum() for one in floats]
    return torch.stack(parts).sum() if parts else None


def objective_gradients(specimen: Specimen, parameters: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The gradients of a copy's parameters by their paths, of those that the objective leads to; None without one."""
    with isolate():
        loss = objective(specimen)
        if loss is None or not loss.isfinite():
            return None
        if not loss.requires_grad or not parameters:
            return {}
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {path: one.to_dense() for path, one in zip(parameters, found, strict=True) if one is not None}


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that ask for a gradient."""
    return {path: one for path, one in model.named_parameters() if one.requires_grad and one.numel()}


def is_kept_from_learning(specimen: Specimen, path: str) -> bool:
    """Whether a parameter is likely kept from learning on purpose: by its name, or since the optimizer has it not."""
    if _FOLLOWING.search(path):
        return True
    return specimen.optimizer is not None and id(specimen.model.get_parameter(path)) not in specimen.held_by_optimizer


def objective_value(specimen: Specimen) -> float:
    """The loss of a copy as a number, with the random numbers of every other run; nan where there is none."""
    with isolate(), torch.no_grad():
        found = objective(specimen)
    return float("nan") if found is None else float(found)


class ShortRun(NamedTuple):
    """What a few steps did. It ends early where the loss is no number, or low enough."""

    losses: tuple[float, ...]  # before the first step, and after each
    updates: dict[str, tuple[float, ...]]  # of each matrix at each step: the update's deviation by its own
    growth: WeightGrowth | None = None  # of the weight that grew past all measure, where one did


def short_run(specimen: Specimen, steps: int, *, factor: float = 1.0) -> ShortRun | None:
    """So many steps of a copy of its own optimizer, at so many times its rate; None where the copy cannot be trained.

    >>> line = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(line.weight, 3.0)
    >>> optimizer = torch.optim.SGD(line.parameters(), lr=0.25)
    >>> specimen = Specimen(line, (torch.ones(2, 1),), torch.zeros(2, 1), nn.MSELoss(), optimizer)
    >>> short_run(specimen, steps=2).losses  # each step halves the weight
    (9.0, 2.25, 0.5625)
    """
    copied = specimen.copy_with_optimizer()

    def run() -> ShortRun:
        assert copied.optimizer is not None
        for group in copied.optimizer.param_groups:
            group["lr"] = group["lr"] * factor
        # A matrix that begins with one number everywhere has no size of its own yet to move by.
        matrices = {
            path: one for path, one in copied.model.named_parameters() if one.dim() >= 2 and bool(one.std(correction=0))
        }
        return _steps(copied, copied.optimizer, steps, matrices)

    return try_or_none(run)


def overfit_run(specimen: Specimen, learning_rate: float, steps: int, enough: float) -> ShortRun | None:
    """A copy trained with Adam until its loss is below `enough`; None where the loss is no number from the start.

    Without dropout, which would keep it from knowing the batch by heart.
    """
    copied = copy_in_training(specimen)
    for module in copied.model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    optimizer = torch.optim.Adam(trainable_parameters(copied.model).values(), lr=learning_rate)
    run = try_or_none(lambda: _steps(copied, optimizer, steps, {}, enough, is_ours=True))
    return run if run is not None and math.isfinite(run.losses[0]) else None


def _steps(
    copied: Specimen,
    optimizer: torch.optim.Optimizer,
    steps: int,
    matrices: dict[str, nn.Parameter],
    enough: float = -math.inf,
    is_ours: bool = False,
) -> ShortRun:
    """The loop. matrices: those whose updates are measured; is_ours: the optimizer is Adam, which takes no sparse
    gradient, and a run that the loss no longer takes is over.
    """
    losses: list[float] = []
    updates: dict[str, list[float]] = {path: [] for path in matrices}
    sizes = WeightSizes(dict(copied.model.named_parameters()))

    def take_gradients() -> Tensor:
        with isolate():
            loss = objective(copied)
            assert loss is not None, "there is nothing to make smaller"
            gradients = gradients_of(copied.model, loss)
        for path, parameter in copied.model.named_parameters():
            gradient = gradients.get(path)
            parameter.grad = gradient.to_dense() if is_ours and gradient is not None else gradient
        return loss.detach()

    for step in range(steps + 1):
        try:
            loss = take_gradients()
        except (RuntimeError, ValueError):  # outputs have left what the loss takes
            if step == 0 or not is_ours:
                raise
            loss = torch.tensor(math.nan)
        losses.append(float(loss))
        if step == steps or not math.isfinite(losses[-1]) or losses[-1] < enough:
            break
        before = {path: each.detach().clone() for path, each in matrices.items()}
        optimizer.step(_answer_first(loss, take_gradients))  # type: ignore[arg-type]  # torch's own give a tensor, too
        for path, each in matrices.items():
            size = before[path].double().std(correction=0)
            update = (each.detach() - before[path]).double().std(correction=0)
            updates[path].append((update / size).item() if size > 0 else 0.0)
        sizes.note(step + 1)
    growth = None if math.isfinite(losses[-1]) else sizes.find_growth()
    return ShortRun(tuple(losses), {path: tuple(each) for path, each in updates.items()}, growth)


def _answer_first(known: Tensor, ask: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """What an optimizer may call, some several times: the gradients of the first call are in place already."""
    answers = [known]
    return lambda: answers.pop() if answers else ask()


def shares_left_by_decay(specimen: Specimen) -> dict[str, float] | None:
    """How much of each parameter's size is left after one step without any gradient: less than 1 is decay.

    >>> line = nn.Linear(3, 1, bias=False)
    >>> decayed = torch.optim.SGD(line.parameters(), lr=0.1, weight_decay=0.5)
    >>> round(shares_left_by_decay(Specimen(line, (), optimizer=decayed))["weight"], 6)
    0.95
    """
    copied = specimen.copy_with_optimizer()

    def measure() -> dict[str, float]:
        assert copied.optimizer is not None
        copied.optimizer.state.clear()  # momentum of earlier steps is not decay
        before = {}
        for path, parameter in copied.model.named_parameters():
            with torch.no_grad():
                if not parameter.any():
                    parameter.fill_(1.0)  # a bias of zeros shows no decay yet
            before[path] = torch.linalg.vector_norm(parameter.detach())
            parameter.grad = torch.zeros_like(parameter)
        with isolate():
            copied.optimizer.step()
        return {
            path: (torch.linalg.vector_norm(parameter.detach()) / before[path]).item()
            for path, parameter in copied.model.named_parameters()
        }

    return try_or_none(measure)


class Allowance(NamedTuple):
    """What there is time for: a specimen with perhaps fewer rows, steps at each rate, and rates."""

    specimen: Specimen
    steps: int
    rates: tuple[float, ...]


def overfit_allowance(specimen: Specimen) -> Allowance | None:
    """As many rates and steps as the work allows, on as many rows; None where it is too large for even a few."""
    n_rows, chosen = specimen.n_rows, specimen
    total = _affordable_steps(specimen)
    while total < FEWEST_STEPS and n_rows > FEWEST_ROWS:
        n_rows = max(FEWEST_ROWS, n_rows // 2)
        fewer = _first_rows(specimen, n_rows)
        if fewer is None:
            return None
        chosen, total = fewer, _affordable_steps(fewer)
    if total < FEWEST_STEPS:
        return None
    steps = min(MOST_STEPS, max(FEWEST_STEPS, total // len(RATES)))
    return Allowance(chosen, steps, RATES[: max(1, total // steps)])


def _affordable_steps(specimen: Specimen) -> int:
    """How many steps of training the work is enough for; backward costs twice what forward does."""
    calls: list[str] = []  # each costs time however small it is
    seen = InterceptOperators(lambda operator, *_: calls.append(operator_name(operator)))
    ours = specimen.copy("eval")
    ours.model.requires_grad_(False)  # or torch's counter looks for a graph of what was made of weights without one
    with isolate(), torch.no_grad(), FlopCounterMode(display=False) as counter, seen:
        ours.outputs()
    return int(WORK / (3 * (counter.get_total_flops() + CALL * len(calls))))


def _first_rows(specimen: Specimen, n_rows: int) -> Specimen | None:
    """The same with the first rows alone; None where it does not go through so."""
    whole = specimen.n_rows

    def cut(one: object) -> object:
        return one[:n_rows] if isinstance(one, Tensor) and one.dim() and len(one) == whole else one

    def cut_targets(one: Tensor) -> Tensor:
        return one[: len(one) * n_rows // whole] if one.dim() else one

    targets = map_tensors(cut_targets, specimen.targets)
    fewer = replace(specimen, inputs=tuple(map(cut, specimen.inputs)), targets=targets)

    def measure() -> Tensor | None:
        with isolate(), torch.no_grad():
            return objective(fewer.copy("eval"))

    # A stranger's module or loss may not take fewer rows.
    return fewer if try_or_none(measure) is not None else None
