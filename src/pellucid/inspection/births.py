"""Where numbers that are none begin: the first call of torch that was given numbers and gave back nan or infinity."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pellucid.inspection.measurements import Watch, gradients_of
from pellucid.inspection.patient import Patient, unchanged_randomness

# They write what they are told to, as masks do.
_WHOLE = ("softmax", "norm", "matmul", "linear", "attention", "conv", "lstm", "gru", "rnn", "bmm", "einsum", "cum")
_TOLD = frozenset({"masked_fill", "where", "fill", "full_like", "new_full", "full", "masked_scatter", "setitem"})


class Birth(NamedTuple):
    """A call that made what is no number, or is infinite, of what was."""

    path: str  # of the part that called it; "loss" for the loss
    function: str
    kind: str  # nan or inf
    row: int | None  # of the batch; None where what it made has no rows
    given: str  # the value that it was given there

    @property
    def says(self) -> str:
        return f"{self.function}({self.given}) is {self.kind}" + ("" if self.row is None else f" in row {self.row}")


class Births(TorchFunctionMode):
    """While it is entered, writes down every birth.

    >>> from torch import nn
    >>> with Watch(nn.Identity()) as watch, Births(watch) as births:
    ...     _ = torch.tensor([4.0, 0.0]).log()
    >>> births.found[0].says
    'log(0) is -inf in row 1'
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self.found: list[Birth] = []
        self.is_loss = False

    def __enter__(self) -> Births:
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        given = [one for one in tensors_in((*args, *named.values())) if one.is_floating_point() and one.numel()]
        had_nan, had_inf = any(bool(one.isnan().any()) for one in given), any(bool(one.isinf().any()) for one in given)
        before = [one.detach().clone() if _is_in_place(func, named) else one.detach() for one in given]
        made = func(*args, **named)
        if before and name not in _TOLD and not had_nan:
            for out in tensors_in((made,)):
                if out.is_floating_point() and not bool(out.isfinite().all()):
                    self._note(name, before, out.detach(), had_inf)
        return made

    def _note(self, name: str, before: list[Tensor], out: Tensor, had_inf: bool) -> None:
        is_nan = bool(out.isnan().any())
        if had_inf and not is_nan:
            return  # infinite before, and handed on
        at = (out.isnan() if is_nan else out.isinf()).nonzero()[0].tolist()
        path = "loss" if self.is_loss else self.watch.here
        kind = "nan" if is_nan else f"{out[tuple(at)].item():g}"
        # Torch's own attention runs with time before rows.
        row = None if not at else at[1] if name == "multi_head_attention_forward" else at[0]
        is_whole = any(part in name for part in _WHOLE)
        given = _ends(before[0]) if is_whole else ", ".join(_value(one, out, at) for one in before[:2])
        self.found.append(Birth(path, name, kind, row, given))


def _is_in_place(func: Callable[..., Any], named: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or bool(named.get("inplace"))


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Every tensor in what a function was given or gave."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors_in(value)


def _value(before: Tensor, out: Tensor, at: list[int]) -> str:
    """What it was given where it went wrong; where places do not correspond, the ends of what it was given."""
    is_alike = all(mine in (1, its) for mine, its in zip(before.shape[::-1], out.shape[::-1], strict=False))
    if is_alike and before.dim() <= out.dim():
        return f"{before.expand(out.shape)[tuple(at)].item():.6g}"
    row = before[at[0]] if at and before.dim() and len(before) == len(out) else before
    return _ends(row)


def _ends(values: Tensor) -> str:
    return f"{values.min().item():.4g} to {values.max().item():.4g}"


def run_with_births(copied: Patient) -> tuple[Any, Tensor | None, list[Birth], Watch]:
    """Outputs, the loss where there is one, and every birth on the way."""
    with unchanged_randomness(), torch.enable_grad(), Watch(copied.model) as watch, Births(watch) as births:
        outputs = copied.outputs()
        births.is_loss = True
        has_loss = copied.loss is not None and copied.targets is not None
        loss = copied.loss_of(outputs) if has_loss else None
    return outputs, loss, births.found, watch


def backward_origin(copied: Patient) -> tuple[str, str]:
    """The function whose way back gives nan first, and the line that called it; empty where torch cannot tell."""
    before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(True, check_nan=True)
    try:
        with warnings.catch_warnings(record=True) as heard, unchanged_randomness(), torch.enable_grad():
            warnings.simplefilter("always")
            try:
                gradients_of(copied.model, copied.loss_of(copied.outputs()))
            except RuntimeError as error:
                name = re.search(r"'(\w+?)Backward\d*'", str(error))
                said = "\n".join(str(each.message) for each in heard)
                frames = re.findall(r'File "(.*)", line \d+, in .*\n\s*(.*)', said)
                code = [line for file, line in frames if "/torch/" not in file and "/pellucid/" not in file]
                return name.group(1) if name else "", code[-1] if code else ""
    finally:
        torch.autograd.set_detect_anomaly(*before)
    return "", ""
