"""What a loss wants is found out by going downhill on the outputs alone: it must be each row's own target.

No model is asked. Free outputs are moved until the loss is least, and what they became is compared with the targets. In
whatever form the loss wants them (as they are, as logits, as logarithms), a larger target must want a larger output,
and a class must want itself. With a sign that was turned, rows in another order, or a loss that wants the same of every
row, the loss falls, and the wrong thing is learned.
"""

import math

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

STEPS = 80
FEWEST = 8  # answers, of which an order can be told
MOST = 200_000
ALIKE = 0.95  # rank correlation from which on outputs follow their targets
AGAIN = (
    "free = model(x).detach().clone().requires_grad_(); opt = torch.optim.LBFGS([free], max_iter=80); "
    "opt.step(lambda: (opt.zero_grad(), (l := loss(free, y)).backward(), l)[-1]); print(free[:8], y[:8])"
)


def check(specimen: Specimen) -> Findings:
    view, target = loss_view(specimen), specimen.target
    if view is None or target is None or not FEWEST <= target.numel() <= MOST:
        return
    if view.has_classes:
        yield from _of_classes(view, target)
    elif not _asks_for(view, target):
        return  # targets that stand there because something must, as of flows and of pairs
    elif _is_of_shares(view, target):
        yield from _of_shares(view, target.to(view.tensor))
    elif target.is_floating_point() and target.numel() == view.tensor.numel():
        wanted = target.reshape(view.tensor.shape).to(view.tensor)
        cheaper = list(_cheaper_than_perfect(view, wanted))
        yield from cheaper or _of_numbers(view, wanted)


def _of_classes(view: LossView, target: Tensor) -> Findings:
    wanted = view.wanted_classes()
    if wanted is None or target.is_floating_point() or wanted.numel() != target.numel():
        return
    wanted, given = wanted.reshape(-1), target.reshape(-1)
    asked = wanted >= 0
    if not bool(asked.any()) or bool((given[asked] == given[asked][0]).all()):
        return
    share = float((wanted == given)[asked].float().mean())
    seen = f"the loss asks for the class of the target in {share:.1%} of {int(asked.sum())} places"
    if share == 1:
        yield Finding.sound("loss", seen, "what it is least for is the class that the target names", again=AGAIN)
    elif not _is_of_neighbours(view):
        at = int(((wanted != given) & asked).nonzero()[0])
        yield Finding.suspicious(
            "loss",
            f"{seen}: at {at} the target is {int(given[at])} and class {int(wanted[at])} is asked for",
            "it teaches other classes than the targets name",
            "look at how the targets are numbered, cut and shifted on their way into the loss",
            again="print(y[:8], loss)",
        )


def _asks_for(view: LossView, target: Tensor) -> bool:
    """Whether the loss is another one for other targets; where it does not take them, it looks at them."""
    others = 0.7 * target + 0.1 if target.is_floating_point() else target.flip(0)
    return not abs(view.with_targets(others).loss_now - view.loss_now) <= 1e-7 * abs(view.loss_now)


def _is_of_shares(view: LossView, target: Tensor) -> bool:
    """Whether each row has a number for each class, and the loss only knows how they differ, as after a softmax."""
    if not target.is_floating_point() or target.shape != view.tensor.shape or target.dim() != 2 or target.shape[1] < 3:
        return False
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(view.tensor.shape, generator=rng).to(view.tensor)
    raised = drawn + torch.rand(len(drawn), 1, generator=rng).to(drawn) + 1
    base = view.value(drawn)
    return abs(view.value(raised) - base) < 1e-4 * (abs(base) + 1e-6)


def _of_shares(view: LossView, target: Tensor) -> Findings:
    """A loss after a softmax must be least where the outputs are the targets, as scores or as logarithms of shares."""
    found = view.search_least(view.tensor, STEPS)
    answers = {"the targets": target}
    if bool((target >= 0).all()):
        answers["their logarithms"] = target.clamp(min=1e-12).log()
    if found is None:
        return
    start, end = view.loss_now, view.value(found)
    losses = {name: view.value(answer) for name, answer in answers.items()}
    name = min(losses, key=lambda one: losses[one])
    gain, missing = start - end, losses[name] - end
    if not gain > 1e-4 * abs(start):
        return
    spread, wanted = (float(one.std(1).mean()) for one in (found, answers[name]))
    seen = (
        f"the loss is {losses[name]:.4g} where the outputs are {name}, and {end:.4g} for outputs that were moved "
        f"alone, which differ by {spread:.3g} within a row where {name} do by {wanted:.3g}"
    )
    if missing <= 1e-3 * gain:
        yield Finding.sound("loss", seen, "no other outputs are better than the targets", again=AGAIN)
    elif missing > 0.05 * gain and spread > 3 * wanted:
        yield Finding.suspicious(
            "loss",
            seen,
            "it is not least at the targets: it wants far surer answers than they are",
            "look whether the loss is given logarithms where it wants logarithms, and shares where it wants shares",
            again="print(loss(y, y), loss(3 * y, y), loss(y.clamp(min=1e-12).log(), y))",
        )


def _is_of_neighbours(view: LossView) -> bool:
    """Whether the targets are tokens that the loss shifts itself, which has a rule of its own."""
    tokens = view.specimen.tokens
    target = view.specimen.target
    return tokens is not None and target is not None and tokens.shape == target.shape


def _cheaper_than_perfect(view: LossView, target: Tensor) -> Findings:
    """Outputs far from targets to which the loss pulls what is near them, and that cost less than being there."""
    spread = float(target.std(correction=0))
    signs = torch.ones(target.numel())
    signs[::2] = -1
    off = 0.01 * spread * signs.reshape(target.shape).to(target)
    slope = view.slope_at(target + off)
    if not spread > 0 or slope is None or float(((slope * off) > 0).float().mean()) < ALIKE:
        return  # what it wants is not the targets as they are
    near, now = view.value(target + off), view.loss_now
    tried = {
        "as they are": view.tensor,
        "all 0": torch.zeros_like(target),
        "minus the targets": -target,
        "all below 0": -target.abs() - spread,
        "three times the targets": 3 * target,
    }
    if not bool((view.tensor < 0).any()):  # a module that gives sizes or rates gives none below 0
        tried = {name: answer for name, answer in tried.items() if bool((answer > 0).all()) or name == "as they are"}
    losses = {name: view.value(answer) for name, answer in tried.items()}
    known = {name: loss for name, loss in losses.items() if math.isfinite(loss)}
    name = min(known, key=lambda one: known[one], default="")
    if name and known[name] < near - 0.1 * (abs(near) + abs(now)):
        yield Finding.suspicious(
            "loss",
            f"the loss is {near:.4g} where outputs are off their targets by 1 % of these' spread, and "
            f"{known[name]:.4g} where they are {name}",
            "wrong answers cost less than right ones: what is learned runs away from the targets",
            "look for a division by, or a product with, something that may be negative, and for a sign that was turned",
            again="print(loss(y + 1e-3, y), loss(model(x), y), loss(-y.abs(), y))",
        )


def _of_numbers(view: LossView, target: Tensor) -> Findings:
    spread = float(target.std(correction=0))
    # From the outputs that are there; where the loss wants probabilities, from their middle.
    found = view.search_least(view.tensor if view.kind == "other" else torch.zeros_like(view.tensor), STEPS)
    if not spread > 0 or found is None:
        return
    best, start = view.as_outputs(found), view.loss_now
    end = view.value(best)
    if not end < start - 1e-4 * abs(start):
        return  # the outputs are there already, or the search went nowhere
    moved = float((best - view.tensor).abs().max())
    correlation = rank_correlation(best.reshape(-1), target.reshape(-1))
    flat = float(best.std(correction=0))
    seen = (
        f"the loss is least, {end:.4g}, for outputs that follow their targets with a rank correlation of "
        f"{correlation:.3f} ({target.numel()} outputs that were moved alone, by up to {moved:.3g})"
    )
    if correlation >= ALIKE:
        yield Finding.sound("loss", seen, "what it wants of each output is its own target", again=AGAIN)
    elif correlation <= -ALIKE:
        yield Finding.broken(
            "loss",
            seen,
            "it wants small outputs for large targets: what is learned is the opposite",
            "look for a sign that was turned",
            again=AGAIN,
        )
    elif flat < 1e-3 * max(spread, 1e-12) or math.isnan(correlation):
        yield Finding.broken(
            "loss",
            f"the loss is least, {end:.4g}, for outputs that are all about {float(best.mean()):.4g}, while targets "
            f"reach from {float(target.min()):.4g} to {float(target.max()):.4g}",
            "it wants the same of every row, whatever its target is",
            "look for a mean or a broadcast between the outputs and the targets",
            again=AGAIN,
        )


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's, with the mean rank for equal numbers; nan where one of them is all the same.

    >>> round(rank_correlation(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.2, 0.3])), 6)
    1.0
    """
    ranks = torch.stack([_mean_ranks(each) for each in (one, other)])
    if not bool((ranks.std(dim=1) > 0).all()):
        return math.nan
    return float(torch.corrcoef(ranks)[0, 1])


def _mean_ranks(values: Tensor) -> Tensor:
    _, place, counts = torch.unique(values.double(), return_inverse=True, return_counts=True)
    ranks: Tensor = counts.cumsum(0).double() - (counts - 1) / 2
    return ranks[place]


RULE = DoctorRule(
    name="unwanted-answers",
    proves="a loss is least for other answers than the targets, whatever the model is",
    how="moves free outputs downhill until the loss is least, and compares them with the targets",
    check=check,
    cannot_see="losses of several outputs or of pairs of rows, and targets that are nested or that the loss ignores",
    needs=("targets", "loss"),
    follows=("target-broadcast", "scrambled-scores", "bottomless-loss", "missing-log-softmax", "double-softmax"),
)
