"""Where a loss is flat and not least, it can't tell a wrong answer which way to go.

A clamp before a logarithm, a threshold, a score cut to a range: beyond the edge the slope at a row's outputs is exactly
0, and the row stays wrong. Such rows are given other answers; where one of these costs less, the row was not done. A
hinge that is satisfied is flat as well, and nothing costs less than that.
"""

from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST_ROWS = 12  # flat ones that are given other answers
FEWEST_ROWS = 4
SHARE = 0.05  # of the rows, below which flat ones are of no account
AGAIN = (
    "o = model(x).detach().requires_grad_(); loss(o, y).backward(); print((o.grad.flatten(1) == 0).all(1).nonzero())"
)


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or not view.tensor.dim() or len(view.tensor) < FEWEST_ROWS:
        return
    slope = view.slope_at(view.tensor) if view.kind != "log-likelihood" else None
    if slope is None or not bool(slope.isfinite().all()) or not bool(slope.any()):
        return  # without any slope at all there is a rule that says so
    n_rows = len(slope)
    flat = (slope.reshape(n_rows, -1) == 0).all(dim=1).nonzero().reshape(-1).tolist()
    asked = flat[:MOST_ROWS]
    better = [(row, cost) for row in asked if (cost := _least_elsewhere(view, row)) < view.loss_now]
    slack = 1e-5 * abs(view.loss_now)
    stuck = [(row, view.loss_now - cost) for row, cost in better if view.loss_now - cost > slack]
    if stuck and len(flat) >= SHARE * n_rows:
        gain = sum(one for _, one in stuck) / len(stuck)
        rows = ", ".join(str(row) for row, _ in stuck[:5])
        yield Finding.suspicious(
            "loss",
            f"{len(flat)} of {n_rows} rows have a slope of exactly 0 at their outputs; {len(stuck)} of {len(asked)} "
            f"that were tried cost less with other outputs, by {gain:.3g} of a loss of {view.loss_now:.4g}: {rows}",
            "these rows are wrong, and nothing tells them which way to go",
            "take the clamp or threshold out of the loss, or use a loss that takes logits",
            again=AGAIN,
        )
    elif not stuck:
        seen = f"{n_rows - len(flat)} of {n_rows} rows have a slope at their outputs"
        seen += f"; {len(asked)} of the others were given other outputs, and none costs less" if flat else ""
        yield Finding.sound("loss", seen, "where the loss can be lowered it has a slope, at these outputs", again=AGAIN)


def _least_elsewhere(view: LossView, row: int) -> float:
    """The least loss with other outputs for one row: those of other rows, and some nearer and further ones."""
    tensor = view.tensor
    middle, spread = tensor.mean(0), tensor.std(0, correction=0) + 0.1 * (tensor.abs().mean() + 1e-3)
    others: list[Tensor] = [middle, middle + spread, middle - spread, 0 * middle]
    # None that lies beyond all outputs: the module may not be able to give it.
    others = [one.clamp(float(tensor.min()), float(tensor.max())) for one in others]
    others += [tensor[(row + by) % len(tensor)] for by in (1, 2, 3)]
    found = []
    for other in others:
        changed = tensor.clone()
        changed[row] = other
        found.append(view.value(changed))
    return min([one for one in found if one == one], default=view.loss_now)


RULE = DoctorRule(
    name="flat-loss",
    proves="the loss has no slope at rows that other outputs would make cheaper",
    how="reads the slope at each row's outputs, and gives other outputs to the rows where all of it is 0",
    check=check,
    cannot_see="flat places that the outputs of this batch do not reach, and outputs beside the main one",
    needs=("targets", "loss"),
)
