"""Decay is for matrices: on norms and biases it pulls to 0 what no one wants small, and on embeddings rare tokens fade.

Measured by one step without any gradient on a copy. As most optimizers are given all parameters, a little of it is no
finding; what counts is how much is lost in a thousand steps.
"""

from collections import Counter

from torch import nn

from pellucid.inspection.instrument.recording import parameter_role
from pellucid.inspection.instrument.short_run import shares_left_by_decay
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LITTLE, MUCH = 0.05, 0.5  # of itself that a parameter loses in a thousand steps
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


def _roles(model: nn.Module) -> dict[str, str]:
    """What each parameter is. A tied one is what it is first."""
    named = model.named_parameters()
    return {path: parameter_role(model.get_submodule(path.rpartition(".")[0]), one) for path, one in named}


RULE = DoctorRule(
    name="weight-decay",
    proves="that decay pulls norms, biases or embeddings to 0, and how fast",
    how="takes one step without any gradient on a copy and measures what is left of each parameter",
    check=check,
    cannot_see="penalties that are added to the loss",
    again="[(g['weight_decay'], len(g['params'])) for g in optimizer.param_groups]",
    needs=("optimizer",),
)
