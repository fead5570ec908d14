"""A batch or instance norm takes the mean away, and with it whatever a bias before it added: that bias never learns.

Shown twice in float64: its gradient is 0 up to rounding, and shifting it moves no output while training.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.perturbation import draw_zero_matrices, perturb, relative_change
from pellucid.inspection.instrument.recording import ModuleCall, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen


def check(specimen: Specimen) -> Findings:
    # A norm that is frozen on purpose, in a module that trains, stays so.
    double = perturb(specimen, draw_zero_matrices, "" if specimen.model.training else "training").double()
    if (seen := record(double, with_loss=specimen.has_loss)) is None or (outputs := main_tensor(seen.outputs)) is None:
        return
    n_norms = sum(_takes_the_mean(call.module) for call in seen.modules)
    useless = [
        (call, shift)
        for call in _calls_with_bias(seen.modules)
        if (shift := _shift_of_outputs(double, call.path, outputs.detach())) is not None
        and shift < 1e5 * torch.finfo(outputs.dtype).eps
    ]
    if useless:
        first, shift = useless[0]
        n = sum(_bias(call.module).numel() for call, _ in useless)
        yield Finding.note(
            ", ".join(call.path for call, _ in useless),
            f"shifting the bias of {first.path} by 1 moves the outputs by {shift:.1g}"
            + _gradient(first.path, seen.gradients),
            f"the norm behind takes the mean away again: {n} numbers that cannot learn",
            "write bias=False there; the norm has a bias of its own",
        )
    elif n_norms:
        seen_text = f"of {n_norms} norms over the batch or the picture none undoes a bias before it"
        yield Finding.sound("the model", seen_text, "every bias can learn")


def _takes_the_mean(module: nn.Module) -> bool:
    """Of each channel by itself; a layer norm takes the mean over all, and leaves the differences of biases."""
    if isinstance(module, nn.GroupNorm):
        return module.num_groups == module.num_channels
    return isinstance(module, _BatchNorm | _InstanceNorm) and module.training


def _bias(module: nn.Module) -> Tensor:
    assert isinstance(module.bias, Tensor)
    return module.bias


def _calls_with_bias(calls: Sequence[ModuleCall]) -> Iterator[ModuleCall]:
    norms = [call for call in calls if _takes_the_mean(call.module)]
    for call in calls:
        has_bias = call.is_leaf and isinstance(getattr(call.module, "bias", None), nn.Parameter)
        if has_bias and not _takes_the_mean(call.module) and any(call.feeds(norm) for norm in norms):
            yield call


def _shift_of_outputs(double: Specimen, path: str, outputs: Tensor) -> float | None:
    """How far the outputs move, by their size, when the bias does."""
    shifted = perturb(double, lambda model: _bias(model.get_submodule(path)).add_(1)).main_output()
    return None if shifted is None else relative_change(outputs, shifted)


def _gradient(path: str, gradients: dict[str, Tensor]) -> str:
    of_bias, of_weight = gradients.get(f"{path}.bias"), gradients.get(f"{path}.weight")
    if of_bias is None or of_weight is None or not of_weight.any():
        return ""
    return f", and its gradient is {(of_bias.norm() / of_weight.norm()).item():.1g} of its weight's"


RULE = DoctorRule(
    name="bias-before-norm",
    proves="that a bias can never learn, because the norm behind it takes its effect away",
    how="shifts the bias in a float64 copy that trains, and compares what the whole puts out",
    check=check,
    cannot_see="biases that are wasted for other reasons",
    again="model(x).square().sum().backward(); print([(n, p.grad.norm()) for n, p in model.named_parameters()])",
)
