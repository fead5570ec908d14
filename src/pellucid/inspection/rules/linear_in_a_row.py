"""Two linear maps with nothing between them are one linear map: the second adds weights, time, and nothing else.

Proven by doing it: in a copy both are folded into one, W = W₂W₁ and b = W₂b₁ + b₂, and the whole still puts out the
same. A narrow middle is a bottleneck, as in a linear autoencoder or an adapter, and may be meant.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.perturbation import draw_zero_matrices, perturb, relative_change
from pellucid.inspection.instrument.recording import ModuleCall, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

TRANSPARENT = (nn.Dropout, nn.Identity, nn.Flatten, nn.Unflatten)  # give on what they read, while evaluating


def check(specimen: Specimen) -> Findings:
    # In eval: a dropout between them bends nothing where the network is used.
    double = perturb(specimen, draw_zero_matrices, "eval").double()
    if (seen := record(double)) is None or (whole := main_tensor(seen.outputs)) is None:
        return
    n_linear = sum(type(call.module) is nn.Linear for call in seen.modules)
    found = False
    for first, second in _pairs(seen.modules):
        difference = _difference_when_folded(double, first, second, whole.detach())
        if difference is None or difference > 1e4 * torch.finfo(whole.dtype).eps:
            continue
        found = True
        yield _finding(first, second, difference)
    if n_linear > 1 and not found:
        seen_text = f"of {n_linear} linear layers none reads just what another put out"
        yield Finding.sound("the model", seen_text, "each bends what it is given")


def _finding(first: ModuleCall, second: ModuleCall, difference: float) -> Finding:
    assert isinstance(first.module, nn.Linear)
    assert isinstance(second.module, nn.Linear)
    before, middle, after = first.module.in_features, first.module.out_features, second.module.out_features
    is_narrow = middle < min(before, after)
    n_two = before * middle + middle * after
    shapes = f"{before} → {middle} → {after}"
    return Finding(
        "note" if is_narrow else "suspicious",
        f"{first.path} and {second.path}",
        f"folded into one Linear({before}, {after}), the outputs differ by {difference:.1g}; they are {shapes}",
        f"{n_two} weights do what a matrix of rank {min(before, middle, after)} does with {before * after}",
        "leave it if the bottleneck is meant, else put an activation between them"
        if is_narrow
        else f"put an activation between them, or write nn.Linear({before}, {after})",
    )


def _pairs(calls: Sequence[ModuleCall]) -> Iterator[tuple[ModuleCall, ModuleCall]]:
    """Linear layers of which the second reads what the first made; each called once, for others cannot be folded."""
    counted = Counter(call.path for call in calls)
    leaves = [call for call in calls if call.is_leaf and not isinstance(call.module, TRANSPARENT)]
    linear = [call for call in leaves if type(call.module) is nn.Linear and counted[call.path] == 1]
    for first in linear:
        for second in linear:
            if first is not second and first.feeds(second):
                yield first, second


def _difference_when_folded(
    double: Specimen, first: ModuleCall, second: ModuleCall, whole: torch.Tensor
) -> float | None:
    """The largest difference of outputs, relative to their size, when one layer stands for both."""

    def fold(model: nn.Module) -> None:
        one, two = model.get_submodule(first.path), model.get_submodule(second.path)
        assert isinstance(one, nn.Linear)
        assert isinstance(two, nn.Linear)
        both = nn.Linear(one.in_features, two.out_features, dtype=one.weight.dtype)
        both.weight.copy_(two.weight @ one.weight)
        both.bias.copy_(two(one.bias if one.bias is not None else one.weight.new_zeros(one.out_features)))
        model.set_submodule(first.path, nn.Identity())
        model.set_submodule(second.path, both)

    folded = try_or_none(lambda: perturb(double, fold).main_output())
    return None if folded is None else relative_change(whole, folded)


RULE = DoctorRule(
    name="linear-in-a-row",
    proves="that two linear layers do what one would do",
    how="folds both into one in a float64 copy and compares what the whole puts out",
    check=check,
    cannot_see="linear layers with something between them that does nothing on this batch alone",
    again="print([(n, m) for n, m in model.named_modules() if not list(m.children())])  # two nn.Linear in a row",
)
