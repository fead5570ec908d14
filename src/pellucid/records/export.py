"""What was written for another tool, and what it was checked with; and a model of others that was opened."""

from typing import NamedTuple

from pellucid.records.statements import Statement


class ExportCheck(NamedTuple):
    """What the other tool answered beside the network itself."""

    tool: str  # and its version
    n_inputs: int
    largest_difference: float  # of the numbers that both put out
    allowed: float
    says_the_same: bool | None = None  # of greedy text, where that was compared too
    missing: str = ""  # what would have loaded it, and is not installed


class WrittenFile(NamedTuple):
    """A file of an export."""

    name: str
    n_bytes: int


class Export(NamedTuple):
    """A run as another tool takes it."""

    run: str
    model: str
    to: str
    folder: str
    files: tuple[WrittenFile, ...]
    check: ExportCheck
    use: tuple[str, ...]  # lines to type
    notes: tuple[Statement, ...] = ()
