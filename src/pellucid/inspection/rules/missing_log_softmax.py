"""A negative log-likelihood believes what it is given: scores that are no log-probabilities can be raised without end.

`nll_loss` only picks numbers out. Given raw scores it falls below 0 and goes on falling; given probabilities it is
satisfied at -1 and its gradient never says "wrong" louder than "nearly right".
"""

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.recording import output_part
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

SLACK = 1e-2  # nats by which log-probabilities may be off


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or view.kind != "log-likelihood" or not _asks_for_targets(specimen, view):
        return
    sums = view.tensor.exp().sum(view.axis)
    if not sums.isfinite().all():
        return
    seen = f"probabilities of {view.n_classes} classes, as exp(outputs), add up to {sums.min():.4g} to {sums.max():.4g}"
    if bool(((sums - 1).abs() < SLACK).all()):
        yield Finding.sound("loss", seen, "the likelihood is of log-probabilities, as it should be")
        return
    right = view.value(view.tensor.log_softmax(view.axis))
    yield Finding.broken(
        output_part(specimen),
        f"{seen}; the loss is {view.loss_now:.4f}, and {right:.4f} with a log-softmax between",
        "the loss is no likelihood and has no least value: it rewards raising all scores",
        "end the model with log_softmax(-1), or give its scores to cross_entropy",
        again="print(model(x).exp().sum(-1))",
    )


def _asks_for_targets(specimen: Specimen, view: LossView) -> bool:
    """Whether it is the likelihood of the targets, and not just any loss that is linear in the outputs."""
    wanted, targets = view.wanted_classes(), specimen.target
    if wanted is None or targets is None or wanted.shape != targets.shape:
        return False
    asked = wanted >= 0
    return (
        bool(asked.any()) and bool((wanted == targets)[asked].all()) and bool((targets != targets.reshape(-1)[0]).any())
    )


RULE = DoctorRule(
    name="missing-log-softmax",
    proves="a likelihood is taken of outputs that are no log-probabilities",
    how="asks whether the loss is linear in the outputs and wants the targets, and adds up exp(outputs)",
    check=check,
    cannot_see="scores that happen to be log-probabilities of this batch",
    needs=("targets", "loss"),
)
