"""A loss "with logits" takes the sigmoid itself. Given probabilities, a perfect answer still costs 0.31 to 0.69 nats.

Between 0 and 1 its own sigmoid only reaches from 0.5 to 0.73: a 0 that is answered with 0 costs ln 2, and nothing below
one half can ever be said.
"""

from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.perturbation import outputs_under_other_weights
from pellucid.inspection.instrument.recording import output_part
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

SURE = 40.0  # a score whose sigmoid is 0 or 1 to the last bit of float32


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    targets = None if view is None else yes_or_no(specimen, view)
    if view is None or targets is None or view.kind not in ("other", "probabilities"):
        return
    reach = f"outputs reach from {view.tensor.min():.3g} to {view.tensor.max():.3g}"
    perfect = view.value(targets)
    if view.kind == "probabilities":
        means = "the loss wants probabilities, and these are"
        yield Finding.sound("loss", f"{reach}; perfect ones cost {perfect:.3g}", means)
        return
    sure, wrong = view.value(SURE * (2 * targets - 1)), view.value(-SURE * (2 * targets - 1))
    if not (perfect > 0.1 and sure < 1e-3 < wrong):
        return  # no loss with logits: 0 and 1 are its best answers, or sure ones are no better
    if not is_within_0_and_1(specimen, view.tensor):
        seen = f"{reach}; the loss is {sure:.3g} for sure and right scores of ±{SURE:g}"
        yield Finding.sound("loss", seen, "the loss wants scores, and these are not squashed before")
        return
    yield Finding.broken(
        output_part(specimen),
        f"{reach}, and stay within 0 and 1 with other weights; the loss is {perfect:.4f} where they equal the targets, "
        f"and {sure:.3g} for scores of ±{SURE:g}",
        f"the loss takes a second sigmoid, so it cannot fall below {perfect:.4f}",
        "take the sigmoid out of the model, and use it only where probabilities are read",
        again="print(model(x).min(), model(x).max(), loss(y.float().view_as(model(x)), y))",
    )


def yes_or_no(specimen: Specimen, view: LossView) -> Tensor | None:
    """The targets in the shape of the outputs, where there is one of 0 or 1 for each and both occur; else None."""
    targets = specimen.target
    if targets is None or targets.numel() != view.tensor.numel():
        return None
    shaped = targets.reshape(view.tensor.shape).to(view.tensor)
    is_yes, is_no = shaped == 1, shaped == 0
    return shaped if bool((is_yes | is_no).all()) and bool(is_yes.any()) and bool(is_no.any()) else None


def is_within_0_and_1(specimen: Specimen, outputs: Tensor) -> bool:
    """Whether outputs lie between 0 and 1 by construction: with these weights, and with all others that were tried."""
    tried = [outputs, *outputs_under_other_weights(specimen)] if bool(((outputs >= 0) & (outputs <= 1)).all()) else []
    return len(tried) > 1 and all(bool(((one >= 0) & (one <= 1)).all()) for one in tried)


RULE = DoctorRule(
    name="sigmoid-before-logits",
    proves="a loss that takes the sigmoid itself is given outputs that went through one",
    how="compares the loss of outputs that equal the targets with that of large scores, and tries whether outputs "
    "leave 0 to 1 with other weights",
    check=check,
    cannot_see="a sigmoid that is undone before the loss",
    needs=("targets", "loss"),
)
