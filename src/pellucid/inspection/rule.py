"""What every rule of the doctor is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pellucid.cards import cards
from pellucid.inspection.patient import Patient
from pellucid.records import Finding

SEVERITIES = ("broken", "suspicious", "note", "sound")


@dataclass(frozen=True)
class Rule:
    """One thing that can be proven about a module, and how.

    `check` gives findings, also those that say what is sound, each with its numbers; nothing at all means that the rule
    does not apply to this patient. It works on `patient.copied()` wherever it runs backward, trains or hooks.
    `sick` and `well` make the patients that it must find, and must pass.
    """

    name: str
    proves: str  # one sentence: what a finding of it proves
    how: str  # one sentence: what is done to the module
    check: Callable[[Patient], Iterable[Finding]]
    sick: Callable[[], Patient]
    well: Callable[[], Patient]
    needs: tuple[str, ...] = ()  # of: targets, loss, optimizer; without them the rule is passed over


def rules() -> dict[str, Rule]:
    """Every rule by its name."""
    return cards("pellucid.inspection.rules", "RULE", Rule)


def is_ready(rule: Rule, patient: Patient) -> bool:
    """Whether the patient has what the rule needs."""
    return all(getattr(patient, need) is not None for need in rule.needs)
