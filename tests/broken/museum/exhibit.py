"""What stands in the museum: programs with a bug that people really wrote, and others that only look odd."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.records import Diagnosis


@dataclass(frozen=True)
class Exhibit:
    """A broken program, and the rules of which any one finds its bug.

    Most bugs make what is learned wrong, or nothing is learned; then the finding has to be broken or suspicious. Those
    that are slight only waste something, and a note is enough for them.
    """

    build: Callable[[], Specimen]
    expected: tuple[str, ...]
    says: str  # what the bug is, in one sentence
    is_slight: bool = False

    @property
    def name(self) -> str:
        return self.build.__name__

    def patient(self) -> Specimen:
        """The same at every call."""
        return _made(self.build, self.name)

    def found_by(self, diagnosis: Diagnosis) -> list[str]:
        """The expected rules that found it."""
        grave = ("broken", "suspicious", "note") if self.is_slight else ("broken", "suspicious")
        spoke = {finding.rule for finding in diagnosis.findings if finding.severity in grave}
        return [rule for rule in self.expected if rule in spoke]


@dataclass(frozen=True)
class Healthy:
    """A program in which nothing is broken, however odd it looks."""

    name: str
    build: Callable[[], Specimen]
    says: str  # why it is right

    def patient(self) -> Specimen:
        """The same at every call."""
        return _made(self.build, self.name)


def _made(build: Callable[[], Specimen], name: str) -> Specimen:
    with fixed_rng(0):
        return replace(build(), name=name)
