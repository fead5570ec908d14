"""What was learned must still be there in eval: after real steps the loss in both modes is compared.

Batch norms whose statistics never move, a dropout that is only undone in one mode, a branch that eval leaves out: in
training all is well, and what is used afterwards is another function.
"""

import math

from pellucid.inspection.instrument.real_run import real_run
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LEARNED = 0.2  # of the first loss: less is too little to lose
LOST = 0.5  # of what was learned


def check(specimen: Specimen) -> Findings:
    run = real_run(specimen)
    if run is None or run.raised or not run.losses or specimen.more:
        return  # of several batches, one alone tells too little
    first, training, in_eval = run.losses[0], run.in_training, run.in_eval
    if not all(map(math.isfinite, (first, training, in_eval))) or not first - training > LEARNED * abs(first):
        return
    lost = (in_eval - training) / (first - training)
    still = [
        path for path, far in run.statistics.items() if far == 0 and path.endswith(("running_mean", "running_var"))
    ]
    seen = (
        f"after {run.n_steps} real steps the loss of the same batch, {first:.4g} at first, is {training:.4g} in "
        f"training and {in_eval:.4g} in eval"
    )
    again = "model.train(); print(loss(model(x), y)); model.eval(); print(loss(model(x), y))"
    if lost > LOST:
        cause = f"; {len(still)} running statistics did not move, as {still[0]}" if still else ""
        yield Finding.suspicious(
            "the model",
            seen + cause,
            f"in eval {min(lost, 1):.0%} of what was learned is gone: it is another function than the one that learns",
            "give batch norms a momentum above 0" if still else "look at what training and eval do differently",
            again=again,
        )
    else:
        yield Finding.sound("the model", seen, "what is learned in training is there in eval", again=again)


RULE = DoctorRule(
    name="eval-unlike-training",
    proves="what real steps of training learn is gone in eval",
    how="makes 30 real steps on the batch in a forked process, and compares its loss in both modes",
    check=check,
    cannot_see="what differs between the modes without costing anything on this batch",
    needs=("targets", "loss", "optimizer"),
    follows=("wrong-mode", "dropout-odd", "batch-mixing", "non-determinism"),
)
