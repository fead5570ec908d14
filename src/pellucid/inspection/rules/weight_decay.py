"""Decay is for matrices: on norms and biases it pulls to 0 what no one wants small, and on embeddings rare tokens fade.

Measured by one step without any gradient on a copy, and over real steps beside the same without decay. As most
optimizers are given all parameters, a little of it is no finding; what counts is how much is lost in 1000 steps.
"""

from collections import Counter
from collections.abc import Mapping

from torch import nn

from pellucid.inspection.instrument.real_run import real_run, trial_run
from pellucid.inspection.instrument.recording import parameter_role
from pellucid.inspection.instrument.short_run import shares_left_by_decay
from pellucid.inspection.instrument.update_record import Settings
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LITTLE, MUCH = 0.05, 0.5  # of itself that a parameter loses in a thousand steps
WORN = 0.7  # of a weight that decay would leave after the run
BETTER = 0.05  # of the first loss, by which it learns better without
AT_ONCE = 0.1  # in a single step, whatever it is


def check(specimen: Specimen) -> Findings:
    if (left := shares_left_by_decay(specimen)) is None:
        return
    roles = _roles(specimen.model)
    lost = {path: 1 - share for path, share in left.items() if share < 1 - 1e-9}
    worst = max(lost, key=lambda path: lost[path], default="")
    if worst and lost[worst] > AT_ONCE:
        seen = f"without any gradient a step takes {100 * lost[worst]:.0f} % of it"
        means = "decay takes away faster than anything can be learned"
        yield Finding.suspicious(worst, seen, means, "lower weight_decay; 0.01 to 0.1 is usual for AdamW, 1e-4 for SGD")
        return
    over_run = list(_over_the_run(specimen, left))
    yield from over_run
    if over_run:
        return
    spared = {path: share for path, share in lost.items() if roles[path] != "matrix"}
    if not spared:
        seen = f"of {len(left)} parameters {len(lost) or 'none'} decay, and no norm, bias or embedding"
        yield Finding.sound("the optimizer", seen, "decay is where it belongs")
        return
    worst = max(spared, key=lambda path: spared[path])
    in_thousand = 1 - (1 - spared[worst]) ** 1000
    counts = Counter(roles[path] for path in spared)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))
    seen = (
        f"{kinds} parameters decay: without gradient {worst} loses {spared[worst]:.1e} a step, "
        f"{100 * in_thousand:.0f} % in 1000"
    )
    if in_thousand < LITTLE:
        yield Finding.sound("the optimizer", seen, "so little of it does no harm")
        return
    yield Finding(
        "suspicious" if in_thousand > MUCH else "note",
        "the optimizer",
        seen,
        "decay pulls scales and offsets to 0, where they mean something else than a small matrix",
        "make two groups: matrices with weight_decay, everything of one dimension and embeddings with 0",
    )


def _over_the_run(specimen: Specimen, left: Mapping[str, float]) -> Findings:
    """Decay that takes more of a weight in real steps than gradients give it back, where it learns better without."""
    run = real_run(specimen)
    if run is None or run.raised or not run.losses:
        return
    by_decay = {path: share**run.n_updates for path, share in left.items() if path in run.shrunk}
    worn = [path for path, share in by_decay.items() if share < WORN and run.shrunk[path] < (1 + WORN) / 2]
    spared = trial_run(specimen, Settings(without_decay=True)) if worn else None
    if spared is None or not spared.losses:
        return
    n_steps = min(run.n_steps, spared.n_steps)
    if not spared.fall(n_steps) > run.fall(n_steps) + max(BETTER, 2 * run.noise):
        return
    worst = min(worn, key=lambda path: run.shrunk[path])
    yield Finding.suspicious(
        worst,
        f"in {run.n_updates} real updates its norm falls to {run.shrunk[worst]:.0%}, and decay alone would take it to "
        f"{by_decay[worst]:.0%}; the loss is {run.ends(n_steps)[1]:.4g} after {n_steps} steps, and "
        f"{spared.ends(n_steps)[1]:.4g} without decay",
        "decay shrinks weights faster than gradients move them",
        "lower weight_decay by a factor of 10 or more",
    )


def _roles(model: nn.Module) -> dict[str, str]:
    """What each parameter is. A tied one is what it is first."""
    named = model.named_parameters()
    return {path: parameter_role(model.get_submodule(path.rpartition(".")[0]), one) for path, one in named}


RULE = DoctorRule(
    name="weight-decay",
    proves="that decay pulls weights to 0 faster than they learn, or norms, biases and embeddings, and how fast",
    how="takes one step without any gradient on a copy, and real steps with decay and without where it takes much",
    check=check,
    cannot_see="penalties that are added to the loss",
    again="[(g['weight_decay'], len(g['params'])) for g in optimizer.param_groups]",
    needs=("optimizer",),
)
