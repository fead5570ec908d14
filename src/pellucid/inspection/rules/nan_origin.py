"""One number that is none makes all behind it none: told is where the first one began, of which row and which value.

Infinite scores are usual in masks, and a module may well put them out. What counts is whether the loss, its gradients
or, where there is no loss, the outputs are still numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pellucid.inspection.births import Birth, backward_origin, run_with_births, tensors_in
from pellucid.inspection.copies import attempt, copy_of
from pellucid.inspection.measurements import ModuleCall, gradients_of, place
from pellucid.inspection.patient import Patient, tensor_of, unchanged_randomness
from pellucid.inspection.rule import Rule
from pellucid.records import Finding

_AGAIN = "torch.autograd.set_detect_anomaly(True); loss(model(*inputs), targets).backward()"
_MEANS = "whatever is computed from it is not a number either, and so is every weight after one step"


def check(patient: Patient) -> Iterator[Finding]:
    copied = copy_of(patient)
    if (
        copied is None
        or (patient.n_rows == 0 and patient.inputs)
        or (run := attempt(lambda: run_with_births(copied))) is None
    ):
        return
    outputs, loss, births, watch = run
    final = tensor_of(outputs)
    if loss is not None and not bool(loss.isfinite().all()):
        yield _forward(patient, f"the loss is {loss.item():g}", births)
    elif loss is None and final is not None and bool(final.isnan().any()):
        yield _forward(patient, f"{int(final.isnan().sum())} of {final.numel()} outputs are nan", births)
    elif loss is not None and loss.requires_grad:
        gradients = attempt(lambda: gradients_of(copied.model, loss))
        if gradients is None:
            return
        bad = [path for path, gradient in gradients.items() if _is_bad(gradient)]
        hidden = next((birth for birth in births if birth.kind == "nan"), None)
        if bad:
            yield _backward(patient, bad, births, [call for call in watch.modules if _is_bad(call.gradient)])
        elif hidden is not None:
            seen = f"{hidden.says}, and it is taken out again before the loss, which is {loss.item():.4g}"
            means = "the gradients happen to be finite, too; with other inputs they may not be"
            yield Finding("note", place(hidden.path), seen, means, _fix(hidden), rule=RULE.name, again=_AGAIN)
        else:
            seen = f"the loss is {loss.item():.4g}, and all gradients of {len(gradients)} parameters are finite"
            yield Finding("sound", "the model", seen, "every number is one", "", rule=RULE.name, again=_AGAIN)


def _is_bad(gradient: Tensor | None) -> bool:
    return gradient is not None and not bool(gradient.to_dense().isfinite().all())


def _forward(patient: Patient, outcome: str, births: Sequence[Birth]) -> Finding:
    if (came := _came_with(patient)) is not None:
        where, seen, fix = came
        return Finding("broken", where, f"{outcome}: {seen}", _MEANS, fix, rule=RULE.name, again=_AGAIN)
    if not births:
        means = "it began where no call of torch was seen, as in compiled code"
        return Finding(
            "broken", "the model", outcome, means, "look at each part's output", rule=RULE.name, again=_AGAIN
        )
    nan = next((birth for birth in births if birth.kind == "nan"), None)
    # Infinity comes first, and becomes nan where it meets another one: the first of all is the cause.
    first = births[0]
    seen = f"{outcome}: {first.says}"
    if nan is not None and nan is not first:
        seen += f", from which {nan.function} in {place(nan.path)} makes nan"
    return Finding("broken", place(first.path), seen, _MEANS, _fix(first), rule=RULE.name, again=_AGAIN)


def _came_with(patient: Patient) -> tuple[str, str, str] | None:
    """Where the numbers that are none came in with the inputs, the targets or the weights."""
    named = [(f"input {which}", one) for which, one in enumerate(tensors_in(patient.inputs))]
    named += [] if patient.targets is None else [("the targets", patient.targets)]
    for name, one in named:
        if one.is_floating_point() and bool(one.isnan().any()):
            at = one.isnan().nonzero()[0].tolist()
            return (
                name,
                f"{int(one.isnan().sum())} values of {name} are nan, the first at {at}",
                "mend or drop these rows",
            )
    for path, parameter in (*patient.model.named_parameters(), *patient.model.named_buffers()):
        if parameter.is_floating_point() and bool(parameter.isnan().any()):
            n = int(parameter.isnan().sum())
            fix = "go back to weights from before, and lower the rate or clip the gradient"
            return path, f"{n} of {parameter.numel()} numbers of {path} are nan already", fix
    return None


def _backward(patient: Patient, bad: list[str], births: Sequence[Birth], calls: Sequence[ModuleCall]) -> Finding:
    function, line = attempt(lambda: backward_origin(copy_of(patient) or patient)) or ("", "")
    seen = f"the loss is finite, the gradients of {len(bad)} parameters are not ({bad[0]} first)"
    # The last part whose output already gets a bad one: what is wrong lies behind it, and behind the whole is the loss.
    path = (calls[-1].path or "loss") if calls else ""
    if births:
        seen += f"; on the way forward {births[0].says} and was hidden"
        path = births[0].path
    if function:
        seen += f"; the way back through {function}{f' in `{line}`' if line else ''} gives nan"
    means = "a slope is infinite there, and the first step makes the weights nan"
    fix = "keep what it is given away from that point: add a small number inside the root or norm, or clamp before it"
    return Finding("broken", place(path), seen, means, fix, rule=RULE.name, again=_AGAIN)


def _fix(birth: Birth) -> str:
    if birth.function.startswith("log"):
        return "give the logarithm something above 0: add a small number, or use log_softmax or log1p"
    if birth.function in ("exp", "pow", "square", "softmax"):
        return "take the largest value off before exp (logsumexp does), or leave half precision"
    if birth.function in ("div", "truediv", "rtruediv", "rsqrt", "reciprocal"):
        return "add a small number to what is divided by"
    return "keep what it is given inside its domain, or leave out rows that have nothing to give"


class _Ratio(nn.Module):
    """Divides by the deviation, with or without a small number."""

    def __init__(self, small: float) -> None:
        super().__init__()
        self.head, self.small = nn.Linear(4, 3), small

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x / (x.std(1, keepdim=True) + self.small))  # type: ignore[no-any-return]


def _patient(small: float) -> Patient:
    with unchanged_randomness():
        inputs = torch.randn(8, 4)
        inputs[5] = 2.0  # a row without any deviation
        return Patient(_Ratio(small), (inputs,), torch.randint(3, (8,)), nn.CrossEntropyLoss())


def sick() -> Patient:
    return _patient(small=0.0)


def well() -> Patient:
    # A plain deviation has no slope where it is 0, so the healthy one has no such row.
    patient = _patient(small=1e-5)
    patient.inputs[0][5] = torch.arange(4.0)
    return patient


RULE = Rule(
    name="nan-origin",
    proves="which call made the first number that is none, of which row and value",
    how="watches every call of torch on the way forward, and lets torch name the one on the way back",
    check=check,
    sick=sick,
    well=well,
)
