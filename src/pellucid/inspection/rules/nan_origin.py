"""One number that is none makes all behind it none: told is where the first one began, of which row and which value.

The call that shows it first is often not to blame: where a weight is far larger than weights are, or no number itself,
that weight is named, for it stands before.

Infinite scores are usual in masks, and a module may well put them out. What counts is whether the loss, its gradients
or, where there is no loss, the outputs are still numbers.
"""

from __future__ import annotations

import re
import statistics
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng, isolate, try_or_none
from pellucid.inspection.instrument.nests import main_tensor, tensors_in
from pellucid.inspection.instrument.recording import (
    InterceptFunctions,
    ModuleCall,
    Recorder,
    function_name,
    gradients_of,
    part_name,
)
from pellucid.inspection.instrument.weight_growth import USUAL
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

# They write what they are told to, as masks do.
_TOLD = frozenset({"masked_fill", "where", "fill", "full_like", "new_full", "full", "masked_scatter", "setitem"})
# They compute nothing: what memory held before stands there until somebody writes.
_UNWRITTEN = frozenset({"empty_like", "new_empty", "new_empty_strided"})
# Of these the whole of what they were given counts, not the one number at the same place.
_WHOLE = ("softmax", "norm", "matmul", "linear", "attention", "conv", "lstm", "gru", "rnn", "bmm", "einsum", "cum")
_FIX_OF_WEIGHT = "go back to weights from before, and lower the rate or clip the gradient"
FAR = 1e6  # times as large as weights usually are
_MEANS = "whatever is computed from it is not a number either, and so is every weight after one step"


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy()
    if (specimen.n_rows == 0 and specimen.inputs) or (
        run := try_or_none(lambda: _run_and_find_origins(copied))
    ) is None:
        return
    outputs, loss, origins, modules = run
    final = main_tensor(outputs)
    if loss is not None and not bool(loss.isfinite().all()):
        yield _forward(specimen, f"the loss is {loss.item():g}", origins)
    elif loss is None and final is not None and bool(final.isnan().any()):
        yield _forward(specimen, f"{int(final.isnan().sum())} of {final.numel()} outputs are nan", origins)
    elif loss is not None and loss.requires_grad:
        gradients = try_or_none(lambda: gradients_of(copied.model, loss))
        if gradients is None:
            return
        bad = [path for path, gradient in gradients.items() if _is_bad(gradient)]
        hidden = next((origin for origin in origins if origin.kind == "nan"), None)
        if bad:
            yield _backward(specimen, bad, origins, [call for call in modules if _is_bad(call.gradient)])
        elif hidden is not None:
            seen = f"{hidden.description}, and it is taken out again before the loss, which is {loss.item():.4g}"
            means = "the gradients happen to be finite, too; with other inputs they may not be"
            yield Finding.note(part_name(hidden.path), seen, means, _fix(hidden))
        else:
            seen = f"the loss is {loss.item():.4g}, and all gradients of {len(gradients)} parameters are finite"
            yield Finding.sound("the model", seen, "every number is one")


def _is_bad(gradient: Tensor | None) -> bool:
    return gradient is not None and not bool(gradient.to_dense().isfinite().all())


def _forward(specimen: Specimen, outcome: str, origins: Sequence[NanOrigin]) -> Finding:
    if (came := _came_with(specimen)) is not None:
        where, seen, fix = came
        return Finding.broken(where, f"{outcome}: {seen}", _MEANS, fix)
    if not origins:
        means = "it began where no call of torch was seen, as in compiled code"
        return Finding.broken("the model", outcome, means, "look at each part's output")
    nan = next((origin for origin in origins if origin.kind == "nan"), None)
    # Infinity comes first, and becomes nan where it meets another one: the first of all is the cause.
    first = origins[0]
    seen = f"{outcome}: {first.description}"
    if nan is not None and nan is not first:
        seen += f", from which {nan.function} in {part_name(nan.path)} makes nan"
    # Before the call that shows it stands the weight that made its numbers so large.
    if (huge := find_huge_weight(specimen.model)) is not None:
        return Finding.broken(
            huge.path, f"{seen} in {part_name(first.path)}; {huge.description}", _MEANS, _FIX_OF_WEIGHT
        )
    return Finding.broken(part_name(first.path), seen, _MEANS, _fix(first))


def _came_with(specimen: Specimen) -> tuple[str, str, str] | None:
    """Where the numbers that are none came in with the inputs, the targets or the weights."""
    named = [(f"input {which}", one) for which, one in enumerate(tensors_in(specimen.inputs))]
    named += [("the targets", one) for one in tensors_in(specimen.targets)]
    for name, one in named:
        if one.is_floating_point() and bool(one.isnan().any()):
            at = one.isnan().nonzero()[0].tolist()
            return (
                name,
                f"{int(one.isnan().sum())} values of {name} are nan, the first at {at}",
                "mend or drop these rows",
            )
    for path, parameter in specimen.model.named_parameters():
        if parameter.is_floating_point() and not bool(parameter.isfinite().all()):
            return path, f"{_count_bad(parameter)} of {path} are no numbers already", _FIX_OF_WEIGHT
    # A mask may well be a buffer of infinities; nan is none.
    for path, buffer in specimen.model.named_buffers():
        if buffer.is_floating_point() and bool(buffer.isnan().any()):
            return path, f"{_count_bad(buffer)} of {path} are no numbers already", _FIX_OF_WEIGHT
    return None


def _count_bad(values: Tensor) -> str:
    kinds = {"nan": int(values.isnan().sum()), "infinite": int(values.isinf().sum())}
    told = " and ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
    return f"{told} of {values.numel()} numbers"


class HugeWeight(NamedTuple):
    """A weight with a number that is far from all others, as an update leaves it that went too far."""

    path: str
    largest: float
    usual: float  # the median size of the weights' largest numbers

    @property
    def description(self) -> str:
        return f"{self.path} has numbers up to {self.largest:.3g}, where other weights have {self.usual:.3g}"


def find_huge_weight(model: nn.Module) -> HugeWeight | None:
    """The weight with the largest number, if that is past what training makes of weights; None where none is.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> for weight in model.parameters():
    ...     _ = nn.init.constant_(weight, 0.5)
    >>> find_huge_weight(model) is None
    True
    >>> _ = nn.init.constant_(model[1].weight, -1e20)
    >>> find_huge_weight(model).description
    '1.weight has numbers up to 1e+20, where other weights have 0.5'
    """
    sizes = {
        path: float(one.detach().abs().max())
        for path, one in model.named_parameters()
        if one.is_floating_point() and one.numel()
    }
    if not sizes:
        return None
    usual = statistics.median(sizes.values())
    path = max(sizes, key=sizes.__getitem__)
    # With a single weight, or where all of them flew away together, there is no usual one but what networks have.
    base = min(max(usual, USUAL), 1.0)
    return HugeWeight(path, sizes[path], usual) if sizes[path] > FAR * base else None


def _backward(specimen: Specimen, bad: list[str], origins: Sequence[NanOrigin], calls: Sequence[ModuleCall]) -> Finding:
    function, line = try_or_none(lambda: _backward_origin(specimen.copy())) or ("", "")
    seen = f"the loss is finite, the gradients of {len(bad)} parameters are not ({bad[0]} first)"
    # The last part whose output already gets a bad one: what is wrong lies behind it, and behind the whole is the loss.
    path = (calls[-1].path or "loss") if calls else ""
    if origins:
        seen += f"; on the way forward {origins[0].description} and was hidden"
        path = origins[0].path
    if function:
        seen += f"; the way back through {function}{f' in `{line}`' if line else ''} gives nan"
    if (huge := find_huge_weight(specimen.model)) is not None:
        means = "numbers so large go past all others on the way back, and the next step makes the weights nan"
        return Finding.broken(huge.path, f"{seen}; {huge.description}", means, _FIX_OF_WEIGHT)
    means = "a slope is infinite there, and the first step makes the weights nan"
    fix = "keep what it is given away from that point: add a small number inside the root or norm, or clamp before it"
    return Finding.broken(part_name(path), seen, means, fix)


def _fix(origin: NanOrigin) -> str:
    if origin.function.startswith("log"):
        return "give the logarithm something above 0: add a small number, or use log_softmax or log1p"
    if origin.function in ("exp", "pow", "square", "softmax"):
        return "take the largest value off before exp (logsumexp does), or leave half precision"
    if origin.function in ("div", "truediv", "rtruediv", "rsqrt", "reciprocal"):
        return "add a small number to what is divided by"
    return "keep what it is given inside its domain, or leave out rows that have nothing to give"


class NanOrigin(NamedTuple):
    """A call that was given numbers and gave back nan or infinity."""

    path: str  # of the part that called it; "loss" for the loss
    function: str
    kind: str  # nan or inf
    row: int | None  # of the batch; None where what it made has no rows
    given: str  # the value that it was given there

    @property
    def description(self) -> str:
        return f"{self.function}({self.given}) is {self.kind}" + ("" if self.row is None else f" in row {self.row}")


def find_origin(name: str, path: str, before: list[Tensor], out: Tensor) -> NanOrigin | None:
    """What made this output nan or infinite, of what was given before; None where it only hands infinity on.

    >>> find_origin("log", "head", [torch.tensor([4.0, 0.0])], torch.tensor([4.0, 0.0]).log()).description
    'log(0) is -inf in row 1'
    """
    is_nan = bool(out.isnan().any())
    if not is_nan and any(bool(one.isinf().any()) for one in before):
        return None
    at = (out.isnan() if is_nan else out.isinf()).nonzero()[0].tolist()
    kind = "nan" if is_nan else f"{out[tuple(at)].item():g}"
    # Torch's own attention runs with time before rows.
    row = None if not at else at[1] if name == "multi_head_attention_forward" else at[0]
    is_whole = any(part in name for part in _WHOLE)
    given = _ends(before[0]) if is_whole else ", ".join(_value(one, out, at) for one in before[:2])
    return NanOrigin(path, name, kind, row, given)


class _Run(NamedTuple):
    outputs: Any
    loss: Tensor | None
    origins: list[NanOrigin]
    modules: list[ModuleCall]


def _run_and_find_origins(copied: Specimen) -> _Run:
    """Outputs, the loss where there is one, and every origin on the way."""
    origins: list[NanOrigin] = []
    is_loss = False

    def call(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given = [one for one in tensors_in((args, named)) if one.is_floating_point() and one.numel()]
        had_nan = any(bool(one.isnan().any()) for one in given)
        before = [one.detach().clone() if _is_in_place(function, named) else one.detach() for one in given]
        made = function(*args, **named)
        name = function_name(function)
        if before and name not in _TOLD | _UNWRITTEN and not had_nan:
            for out in tensors_in(made):
                if out.is_floating_point() and not bool(out.isfinite().all()):
                    origin = find_origin(name, "loss" if is_loss else recorder.running, before, out.detach())
                    origins.extend([origin] if origin is not None else [])
        return made

    with isolate(), Recorder(copied.model) as recorder, InterceptFunctions(call):
        outputs = copied.outputs()
        is_loss = True
        loss = copied.loss_of(outputs) if copied.has_loss else None
    return _Run(outputs, loss, origins, recorder.modules)


def _is_in_place(func: Callable[..., Any], named: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or bool(named.get("inplace"))


def _value(before: Tensor, out: Tensor, at: list[int]) -> str:
    """What it was given where it went wrong; where places do not correspond, the ends of what it was given."""
    is_alike = all(mine in (1, its) for mine, its in zip(before.shape[::-1], out.shape[::-1], strict=False))
    if is_alike and before.dim() <= out.dim():
        return f"{before.expand(out.shape)[tuple(at)].item():.6g}"
    row = before[at[0]] if at and before.dim() and len(before) == len(out) else before
    return _ends(row)


def _ends(values: Tensor) -> str:
    return f"{values.min().item():.4g} to {values.max().item():.4g}"


def _backward_origin(copied: Specimen) -> tuple[str, str]:
    """The function whose way back gives nan first, and the line that called it; empty where torch cannot tell."""
    before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(True, check_nan=True)
    try:
        with warnings.catch_warnings(record=True) as heard, fixed_rng(), torch.enable_grad():
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


RULE = DoctorRule(
    name="nan-origin",
    proves="which call made the first number that is none, of which row and value",
    how="watches every call of torch on the way forward, and lets torch name the one on the way back",
    check=check,
    cannot_see="numbers that become none only for other batches or after more steps",
    again="with torch.autograd.detect_anomaly(): loss(model(x), y).backward()",
)
