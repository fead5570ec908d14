"""A trained network that is no better than the best constant has learned how often each label occurs, and nothing else.

The loss falls for a while and lies flat at the entropy of the labels; for numbers, at their variance. Inputs that do
not arrive, dead units or a rate that is far off all end there.
"""

import math

from pellucid.inspection.instrument.loss_view import loss_view
from pellucid.inspection.instrument.specimen import steps_taken, was_trained
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen

EARNED = 0.02  # of the best constant's loss; less than this is nothing


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen) if was_trained(specimen) else None
    if view is None:
        return
    measured, constant = view.loss_now, view.best_constant()
    if not math.isfinite(measured) or not constant > 1e-6:
        return
    spread = float(view.tensor.std(dim=0).mean()) if len(view.tensor) > 1 else math.nan
    steps = steps_taken(specimen.optimizer)
    counted = f"after {steps} steps" if steps else "after training"
    seen = f"{counted} the loss is {measured:.4f}, and {constant:.4f} for the best answer that ignores its input"
    if measured < (1 - EARNED) * constant:
        yield Finding.sound("loss", seen, "it has learned something from its inputs")
        return
    is_constant = spread < 1e-3
    yield Finding.suspicious(
        "loss",
        f"{seen}; outputs differ by {spread:.2g} from row to row",
        "every input gets the same answer: what was learned is how often each label occurs"
        if is_constant
        else "its answers differ from row to row, and earn nothing on this batch",
        "look whether the inputs arrive: dead units, a constant layer, a path that is cut"
        if is_constant
        else "try a rate ten times smaller, and look whether inputs and labels still belong together",
        again="print(loss(model.eval()(x), y), y.unique(return_counts=True))",
    )


RULE = DoctorRule(
    name="chance-plateau",
    proves="trained weights earn nothing over the best answer that ignores its input",
    how="compares the loss with the least that constant outputs can have, for weights that were trained",
    check=check,
    cannot_see="models that were hardly trained, and batches of one answer",
    needs=("targets", "loss"),
    follows=ANY,
)
