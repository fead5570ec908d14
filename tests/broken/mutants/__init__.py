"""Bugs that nobody thought of: small edits of healthy programs, each verified in plain torch to do harm.

`benchmarks/mutants.py` makes and verifies them and writes verified.json; from it the same mutants are made again
without the verification. Those that change nothing measurable are kept as a control group.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.broken.mutants.built_edits import BUILT_EDITS, HARMLESS_EDITS, Change
from tests.broken.mutants.programs import Program, list_programs, name_of_patient
from tests.broken.mutants.source_edits import SOURCE_EDITS, Site, apply_site, list_sites

from pellucid.inspection.instrument.specimen import Specimen

HERE = Path(__file__).parent
__all__ = [
    "BUILT_EDITS",
    "HARMLESS_EDITS",
    "KINDS",
    "SOURCE_EDITS",
    "Mutant",
    "harmful_mutants",
    "known_programs",
    "list_mutants",
    "load_mutants",
    "name_of_patient",
    "patient_mutants",
]
KINDS = (*SOURCE_EDITS, *BUILT_EDITS)  # of edits that may do harm


@dataclass(frozen=True)
class Mutant:
    """One edit of one program. site: where in the source; place: where in what was built."""

    program: str
    kind: str
    place: str = ""
    site: Site | None = None
    is_harmless: bool = False
    proof: str = ""  # what was measured
    before: float = 0.0  # of the healthy program
    after: float = 0.0  # of the mutant

    @property
    def name(self) -> str:
        number = f" at {self.site.node}.{self.site.choice}" if self.site else ""  # the same text may stand there twice
        return f"{self.program} / {self.kind}{number} / {self.says}"

    @property
    def says(self) -> str:
        return self.site.words if self.site else self.place

    def patient(self) -> Specimen:
        """The same at every call."""
        return replace(self.build(0), name=self.program)

    def original(self) -> Specimen:
        """The program before the edit."""
        return replace(known_programs()[self.program](0), name=self.program)

    def build(self, seed: int) -> Specimen:
        return self.edit(known_programs()[self.program](seed))

    def edit(self, fresh: Specimen) -> Specimen:
        """The edit made in a specimen of its program that nobody has used."""
        if self.site is not None:
            return apply_site(fresh, SOURCE_EDITS[self.kind], self.site)
        return built_places(fresh, self.kind)[self.place](fresh)


@cache
def known_programs() -> dict[str, Program]:
    return list_programs()


def built_places(specimen: Specimen, kind: str) -> dict[str, Change]:
    return dict({**BUILT_EDITS, **HARMLESS_EDITS}[kind](specimen))


def list_mutants(specimen: Specimen, program: str, kind: str) -> list[Mutant]:
    """Every edit of a kind that a program allows, none of them verified."""
    if kind in SOURCE_EDITS:
        return [Mutant(program, kind, site=site) for site in list_sites(specimen, SOURCE_EDITS[kind])]
    return [Mutant(program, kind, place) for place in built_places(specimen, kind)]


@cache
def load_mutants() -> tuple[Mutant, ...]:
    """Those of programs that were verified, the harmless ones last."""
    return _read("verified.json")


@cache
def patient_mutants() -> tuple[Mutant, ...]:
    """Those of the well patients of rules, by edits that the rule's certificate claims to exclude."""
    return _read("patients.json")


def harmful_mutants() -> Iterator[Mutant]:
    return (one for one in load_mutants() if not one.is_harmless)


def _read(file: str) -> tuple[Mutant, ...]:
    rows = json.loads((HERE / file).read_text(encoding="utf-8"))
    found = [Mutant(**{**row, "site": Site(**row["site"]) if row["site"] else None}) for row in rows]
    return tuple(sorted(found, key=lambda one: one.is_harmless))
