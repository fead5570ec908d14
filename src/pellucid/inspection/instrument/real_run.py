"""The patient itself in training: its own weights, hooks, optimizer and step, in a process that is forked for it.

A copy may behave better than what it was made of: it loses hooks, closures over weights, compiled and scripted parts.
A forked process has the original, and whatever happens in it happens to nobody. Where a process cannot be forked, or
the weights are not on the CPU, there is no such run, and what it would have shown is not known.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pellucid.inspection.instrument.isolation import first_line, fixed_rng, isolate, own_inputs
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.perturbation import largest_change, size_of
from pellucid.inspection.instrument.specimen import Specimen

STEPS = 30
MOST_SECONDS = 20.0
ENOUGH_SECONDS = 4.0  # after which it ends early, with the steps that it has
FEWEST_STEPS = 5
SAME = 1e-4  # of their size, by which two ways to the same sum may differ


class RealRun(NamedTuple):
    """What happened in a few steps of the patient's own training."""

    losses: tuple[float, ...]  # of each step, before its update; nan where a step of their own tells none
    moved: Mapping[str, float]  # how far each parameter went, by its own size; 0: not a bit of it changed
    gradients: Mapping[str, tuple[float, ...]]  # norms that an optimizer was given at each update; nan: none was there
    statistics: Mapping[str, float]  # how far each buffer went, by its own size
    n_updates: int  # calls of step() of any optimizer
    in_training: float  # the loss of the batch after the last step, in training mode; nan without a loss
    in_eval: float
    raised: str  # what it raised, and at which step; "" where nothing
    warned: tuple[str, ...]  # what torch warned of meanwhile, each once

    @property
    def n_steps(self) -> int:
        return len(self.losses)


def real_run(specimen: Specimen, steps: int = STEPS, *, forget_gradients: bool = False) -> RealRun | None:
    """So many steps as the patient itself makes them; None where there is nothing to make them with.

    forget_gradients: clear them before every step, which changes nothing where the loop does so itself.

    >>> line = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(line.weight, 3.0)
    >>> optimizer = torch.optim.SGD(line.parameters(), lr=0.25)
    >>> specimen = Specimen(line, (torch.ones(2, 1),), torch.zeros(2, 1), nn.MSELoss(), optimizer)
    >>> run = real_run(specimen, steps=2)
    >>> run.losses, run.moved["weight"], line.weight.item()
    ((9.0, 2.25), 0.75, 3.0)
    """
    has_own_step = specimen.step is not None
    if not has_own_step and (specimen.optimizer is None or not specimen.has_loss):
        return None
    name = f"real run of {steps}{' without old gradients' * forget_gradients}"
    if name not in specimen.known:
        found = measure_in_fork(specimen.model, lambda: _train(specimen, steps, forget_gradients))
        specimen.known[name] = None if found is None else _as_run(found)
    run: RealRun | None = specimen.known[name]
    return run


def copy_differs(specimen: Specimen) -> str:
    """How a copy differs from the patient, in a line; "" where it gives the same outputs and the same gradients.

    >>> from dataclasses import replace
    >>> model = nn.Linear(2, 1)
    >>> _ = model.register_forward_hook(lambda module, given, out: 2 * out)
    >>> specimen = Specimen(model, (torch.ones(1, 2),))
    >>> copy_differs(specimen).startswith("outputs"), copy_differs(replace(specimen, keeps_hooks=True))
    (True, '')
    """
    return str(measure_in_fork(specimen.model, lambda: _difference(specimen)) or "")


def _difference(specimen: Specimen) -> str:
    """In the child: the patient itself twice, to know what it does not repeat, and a copy."""
    copied, again = specimen.copy(), specimen.copy()
    own, mirrored = _measured(specimen), _measured(copied)
    repeated = _measured(again)
    for what in ("outputs", "gradients"):
        apart, noise = (_farthest(one[what], mirrored[what]) for one in (own, repeated))
        if apart > max(SAME, 10 * noise):
            return f"{what} of a copy are {apart:.2g} of their size apart from those of the model itself"
    return ""


def _measured(specimen: Specimen) -> dict[str, list[Tensor]]:
    """What it puts out for the batch, and the gradients that backward leaves, with the same random numbers."""
    parameters = [one for one in specimen.model.parameters() if one.requires_grad]
    for one in parameters:
        one.grad = None
    with isolate():
        outputs = specimen.model(*own_inputs(specimen.inputs))
        floats = [one for one in tensors_in(outputs) if one.is_floating_point()]
        loss = specimen.loss_of(outputs) if specimen.has_loss else sum([one.double().square().sum() for one in floats])
        if isinstance(loss, Tensor) and loss.requires_grad:
            loss.sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    gradients = [torch.zeros_like(one) if one.grad is None else one.grad.to_dense() for one in parameters]
    return {"outputs": [one.detach() for one in floats], "gradients": gradients}


def _farthest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest distance of two tensors of the same place, by their size; infinite where their shapes differ."""
    if [one.shape for one in ours] != [one.shape for one in theirs]:
        return math.inf
    return max(
        [largest_change(one, other) / (size_of(one) + 1e-12) for one, other in zip(ours, theirs, strict=True)],
        default=0.0,
    )


def measure_in_fork(model: nn.Module, measure: Callable[[], object], seconds: float = MOST_SECONDS) -> Any:
    """What a function gives, as plain values, when it is called in a forked process; None where it gives nothing.

    >>> layer = nn.Linear(2, 1)
    >>> measure_in_fork(layer, lambda: layer.weight.data.zero_().sum().item()), bool(layer.weight.any())
    (0.0, True)
    """
    if not hasattr(os, "fork") or any(one.device.type != "cpu" for one in model.parameters()):
        return None
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads: those of torch are not used there
        child = os.fork()
    if child == 0:
        _answer(measure, write_end)
    os.close(write_end)
    try:
        text = _read_until(read_end, time.monotonic() + seconds)
    finally:
        os.close(read_end)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return json.loads(text) if text else None


def _answer(measure: Callable[[], object], write_end: int) -> None:
    """The child's whole life. It leaves by _exit: nothing of the parent's is to be closed or flushed here."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        # The parent's threads are not here, and a second one would wait for them for ever.
        torch.set_num_threads(1)
        with os.fdopen(write_end, "w") as pipe:
            json.dump(measure(), pipe)
    finally:
        os._exit(0)


def _read_until(end: int, deadline: float) -> str:
    """All that is written before the deadline; "" where the end does not come."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            part = os.read(end, 1 << 16)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    return ""


def _as_run(plain: Mapping[str, Any]) -> RealRun:
    gradients = {path: tuple(norms) for path, norms in plain["gradients"].items()}
    return RealRun(
        **{**plain, "losses": tuple(plain["losses"]), "gradients": gradients, "warned": tuple(plain["warned"])}
    )


def _train(specimen: Specimen, steps: int, forget_gradients: bool) -> dict[str, object]:
    """In the child: the steps, and what was seen of them, as plain values."""
    model = specimen.model
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    before = {path: one.detach().clone() for path, one in {**parameters, **buffers}.items()}
    gradients: dict[str, list[float]] = {path: [] for path in parameters}
    losses: list[float] = []
    n_updates, raised = 0, ""

    def note(optimizer: object, *_: object) -> None:
        nonlocal n_updates
        n_updates += 1
        for path, one in parameters.items():
            gradients[path].append(
                math.nan if one.grad is None else float(one.grad.detach().to_dense().double().norm())
            )

    hook = register_optimizer_step_pre_hook(note)
    batches = list(specimen.batches())
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            for step in range(steps):
                if forget_gradients:
                    for one in parameters.values():
                        one.grad = None
                with fixed_rng(step):
                    losses.append(_step(specimen, batches[step % len(batches)]))
                if time.monotonic() - began > ENOUGH_SECONDS and step + 1 >= FEWEST_STEPS:
                    break
        except Exception as error:
            raised = f"{type(error).__name__} at step {len(losses) + 1}: {first_line(error)}"
        hook.remove()
        in_training, in_eval = (_loss_in(specimen, mode) for mode in (True, False))
    return {
        "losses": losses,
        "moved": {path: _distance(before[path], one) for path, one in parameters.items()},
        "gradients": gradients,
        "statistics": {path: _distance(before[path], one) for path, one in buffers.items()},
        "n_updates": n_updates,
        "in_training": in_training,
        "in_eval": in_eval,
        "raised": raised,
        "warned": list(dict.fromkeys(str(one.message).splitlines()[0] for one in warned if str(one.message))),
    }


def _step(specimen: Specimen, batch: Specimen) -> float:
    """One step of training, their own or the usual one, and the loss that it began with."""
    if specimen.step is not None:
        return _number_of(specimen.step())
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


def _number_of(told: object) -> float:
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


def _loss_in(specimen: Specimen, is_training: bool) -> float:
    """The loss of the first batch in one of the modes; nan where there is none."""
    if not specimen.has_loss:
        return math.nan
    try:
        specimen.model.train(is_training)
        with fixed_rng(), torch.no_grad(), _statistics_kept(specimen.model):
            return float(specimen.loss_of(specimen.model(*own_inputs(specimen.inputs))))
    except Exception:
        return math.nan


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
