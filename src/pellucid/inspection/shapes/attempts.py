"""One forward that may fail: how far it came, in which module it stopped, and what that module and torch were given."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs
from pellucid.inspection.instrument.recording import InterceptFunctions, hook_modules
from pellucid.inspection.instrument.specimen import tensors_in

Shape = tuple[int, ...]


class LayerStep(NamedTuple):
    """A module without parts that was called and came back."""

    path: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]

    @property
    def name(self) -> str:
        """What it is called by people: its path, with its kind where that is only a number."""
        last = self.path.rpartition(".")[2]
        return self.kind if not self.path else f"{self.kind} {self.path}" if last.isdigit() else self.path


@dataclass
class Attempt:
    """What happened in one forward."""

    steps: list[LayerStep] = field(default_factory=list)
    error: Exception | None = None
    path: str = ""  # of the module in which it failed
    module: nn.Module | None = None
    args: tuple[Any, ...] = ()  # what that module was given
    operation: str = ""  # of torch that raised, as "view"; "" where none did
    operands: tuple[Any, ...] = ()  # what it was given
    n_calls: int = 0  # of operations that came back

    @property
    def progress(self) -> tuple[int, int]:
        """Grows the farther a forward came."""
        return len(self.steps), self.n_calls

    @property
    def error_line(self) -> str:
        """The first line of the error."""
        return next(iter(str(self.error).strip().splitlines()), type(self.error).__name__)

    def input_shapes(self) -> tuple[Shape, ...]:
        return tuple(tuple(one.shape) for one in tensors_in(self.args))


FunctionHandler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def call_plainly(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return function(*args, **named)


def attempt_forward(model: nn.Module, inputs: tuple[Any, ...], call: FunctionHandler = call_plainly) -> Attempt:
    """Run one forward of a module that may be written on. call: how functions of torch are called.

    >>> attempt = attempt_forward(nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 5)), (torch.ones(1, 2),))
    >>> attempt.path, attempt.steps[0].outputs, attempt.operation
    ('1', ((1, 3),), 'linear')
    """
    attempt = Attempt()
    running: list[tuple[str, nn.Module, tuple[Any, ...]]] = []

    def begins(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append((path, module, (*args, *kwargs.values())))
        attempt.path, attempt.module, attempt.args = running[-1]

    def ends(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        # A call whose error was caught by the one around it began, and never ends.
        while running and running.pop()[1] is not module:
            pass
        attempt.path, attempt.module, attempt.args = running[-1] if running else ("", None, ())
        if not any(module.children()):
            given = tuple(tuple(one.shape) for one in tensors_in((args, kwargs)))
            made = tuple(tuple(one.shape) for one in tensors_in(output))
            attempt.steps.append(LayerStep(path, type(module).__name__, given, made))

    def handle(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Keep the first function that raised since the last one that came back."""
        try:
            made = call(function, args, named)
        except Exception:
            attempt.operation, attempt.operands = getattr(function, "__name__", ""), args
            raise
        attempt.operation, attempt.operands = "", ()
        attempt.n_calls += 1
        return made

    # Behind hooks that change what comes in: what forward is really given is what counts.
    hooks = hook_modules(nn.Module.named_modules(model), begins, ends)
    with hooks, isolate(), torch.no_grad():
        try:
            with InterceptFunctions(handle):
                model(*own_inputs(inputs))
        except Exception as error:
            attempt.error = error
    return attempt


def users_line(error: BaseException | None) -> str:
    """The last line of a traceback that is the user's own, as "model.py:12"; "" where none is."""
    if error is None:
        return ""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
    passed = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in passed if not frame.filename.startswith(("<", *ours))]
    # A line of an installed package is told only where there is no other.
    frames = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def shape_words(shape: Shape) -> str:
    """
    >>> shape_words((2, 16, 3, 3)), shape_words((5,))
    ('(2, 16, 3, 3)', '(5)')
    """
    return f"({', '.join(map(str, shape))})"
