"""Units that begin with the same weights and get the same gradient stay the same for ever: a layer of them is one unit.

Weights that are filled with one number do that. Zeros in the last layer do not: each class gets a gradient of its own.
"""

from torch import Tensor, nn

from pellucid.inspection.instrument.recording import record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy()
    if (seen := record(copied, with_loss=True)) is None:
        return
    n_layers = 0
    for path, module in copied.model.named_modules():
        if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) or len(module.weight) < 2:
            continue
        own = [name for name in ("weight", "bias") if getattr(module, name) is not None]
        gradients = [seen.gradients.get(f"{path}.{name}".lstrip(".")) for name in own]
        if any(gradient is None or not bool(gradient.any()) for gradient in gradients):
            continue
        n_layers += 1
        pairs = [(getattr(module, name), gradient) for name, gradient in zip(own, gradients, strict=True)]
        if all(gradient is not None and _is_one(one, 0.0) and _is_one(gradient, 1e-5) for one, gradient in pairs):
            n, first = len(module.weight), module.weight.flatten()[0].item()
            yield Finding.suspicious(
                path or "the model",
                f"all {n} units have the same weights ({first:.3g} first) and get the same gradient",
                f"they stay the same for ever: {n} units do the work of one",
                "draw the weights (reset_parameters, or nn.init.kaiming_normal_), do not fill them in",
            )
            return
    if n_layers:
        seen_text = f"in each of {n_layers} layers units differ in their weights or in what they are taught"
        yield Finding.sound("the model", seen_text, "units can become different")


def _is_one(rows: Tensor, slack: float) -> bool:
    """Whether all rows are the first one, up to a share of the largest number."""
    apart = (rows.detach() - rows.detach()[:1]).abs().max().item()
    return apart <= slack * rows.detach().abs().max().item()


RULE = DoctorRule(
    name="symmetry",
    proves="that all units of a layer are one unit, and will stay so",
    how="compares the weights of units, and the gradients that the loss gives them",
    check=check,
    cannot_see="units that are alike only in pairs",
    again="(layer.weight == layer.weight[:1]).all(), (layer.weight.grad - layer.weight.grad[:1]).abs().max()",
    needs=("targets", "loss"),
)
