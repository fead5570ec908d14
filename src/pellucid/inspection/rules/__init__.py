"""The doctor's rules, one file each; a rule's sick and well patients stand in tests/contracts/rule_patients.

What every rule is written with is imported from here; what it measures with, from `inspection/instrument/`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pellucid.cards import cards
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.records import Finding

__all__ = ["ANY", "DoctorRule", "Finding", "Findings", "Specimen", "rules"]

Findings = Iterator[Finding]
ANY = ("any",)  # of what else is found: for rules that see that something is wrong, and not what


@dataclass(frozen=True)
class DoctorRule:
    """One thing that can be proven about a module, and how.

    `check` gives findings, also those that say what is sound, each with its numbers; nothing at all means that the rule
    does not apply to this specimen. It works on `specimen.copy()` wherever it runs backward, trains or hooks.
    """

    name: str
    proves: str  # one sentence: what a finding of it proves
    how: str  # one sentence: what is done to the module
    check: Callable[[Specimen], Iterable[Finding]]
    cannot_see: str  # one clause: what a certificate of it does not rule out
    again: str = ""  # code that shows it again; for findings that have none of their own
    needs: tuple[str, ...] = ()  # of: targets, loss, optimizer, step; without them the rule is passed over
    follows: tuple[str, ...] = ()  # rules whose findings explain one of this; ANY for a symptom that has many causes

    def missing(self, specimen: Specimen) -> list[str]:
        """What the rule needs and the specimen has not."""
        return [need for need in self.needs if getattr(specimen, need) is None]


def rules() -> dict[str, DoctorRule]:
    """Every rule by its name."""
    return cards("pellucid.inspection.rules", "RULE", DoctorRule)
