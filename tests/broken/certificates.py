"""What each rule's certificate rules out: kinds of edit, and promises that a mutant was proven to break.

A certificate is what a rule says is sound. It survives on a mutant where the rule says so and nothing else; on a mutant
that the rule claims to exclude, it may not. What is claimed is written down from what `proves` of the rule says, not
from what it was seen to find.
"""

from tests.broken.mutants import Mutant

from pellucid.inspection.doctor import diagnose
from pellucid.records import Diagnosis, Finding

EXCLUDES: dict[str, tuple[str, ...]] = {
    # promises, as the proof of a mutant names them
    "future-leak": ("causality",),
    "batch-mixing": ("independence of rows",),
    "detached-path": ("gradient is the slope",),
    # kinds of edit
    "no-gradient": ("weight frozen", "gradient zeroed by a hook"),
    "not-in-optimizer": ("left out of the optimizer", "another model in the optimizer"),
    "still-weights": (
        "another model in the optimizer",
        "step: optimizer.step left out",
        "step: zero_grad after backward",
    ),
    "own-step": (
        "step: zero_grad left out",
        "step: zero_grad after backward",
        "step: optimizer.step left out",
        "step: climbs",
    ),
    "learning-rate": ("rate × 1000", "rate ÷ 10⁴"),
    "update-ratio": ("rate × 1000", "rate ÷ 10⁴"),
    "bottomless-loss": ("loss negated",),
    "eval-unlike-training": ("statistics that never move",),
    "wrong-mode": ("norm left in eval", "part never in eval"),
    "duplicated-inputs": ("inputs all one row",),
    "inputs-unnormalised": ("inputs × 1000",),
    "target-broadcast": ("targets (N) for (N, 1)",),
    "shifted-targets": ("targets shifted in time",),
    "accumulation": ("loss asks the first row alone", "step: zero_grad left out"),
    "unasked-targets": ("loss asks the first row alone",),
    "weight-decay": ("weight decay",),
    "cannot-overfit": ("loss negated", "inputs all one row"),
    "symmetry": ("units equal",),
    "misaligned-targets": ("targets rolled",),
    "constant-targets": ("targets all one",),
}
"""Rules that are not named claim nothing that an edit of these kinds would break."""


# Of a promise: kinds of edit that may break it.
PROMISES = {
    "causality": ("hook that shows the future", "hook that turns positions round", "flag or mask inverted", "index"),
    "independence of rows": ("hook that mixes rows", "axis", "transposed"),
    "gradient is the slope": ("hook that detaches", "detach"),
}


# Certificates that are known to survive, each with the reason: gaps of the rules, and no licence.
SURVIVING: dict[tuple[str, str], str] = {}


def kinds_to_try(excluded: tuple[str, ...]) -> list[str]:
    """The kinds of edit by which a patient is made that a rule claims to exclude."""
    return list(dict.fromkeys(kind for one in excluded for kind in PROMISES.get(one, (one,))))


def is_excluded(rule: str, mutant: Mutant) -> bool:
    """Whether a rule's certificate claims that there is no such bug."""
    return not mutant.is_harmless and any(one in EXCLUDES.get(rule, ()) for one in (mutant.kind, mutant.proof))


def surviving_certificates(rule: str, mutant: Mutant, diagnosis: Diagnosis | None = None) -> list[Finding]:
    """What a rule calls sound of a mutant that it claims to exclude; nothing where it found something there."""
    diagnosis = diagnosis or diagnose(mutant.patient(), [rule])
    said = [one for one in diagnosis.findings if one.rule == rule]
    return [] if any(one.severity != "sound" for one in said) else said
