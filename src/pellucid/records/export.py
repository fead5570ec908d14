"""What was written for another tool, and what it was checked with; and a model of others that was opened."""

from typing import NamedTuple

from pellucid.records.statements import Statement

EXPORT_FORMATS = ("hf", "onnx", "gguf", "torch")


class ExportCheck(NamedTuple):
    """What the other tool answered beside the network itself."""

    tool: str  # and its version
    n_inputs: int
    largest_difference: float  # of the numbers that both put out
    allowed: float
    reads_the_same: bool | None = None  # whether it cuts texts into the same tokens, where it reads texts
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


class OpenedModel(NamedTuple):
    """A model that others made, as a run."""

    run: str
    folder: str
    architecture: str
    parameters: int
    vocab_size: int
    context: int  # tokens of one pass; 0 where there is no limit
    n_bytes: int  # of its weights in the run
    leak: float  # by which other later tokens move earlier scores, of scores of about 1
    stepwise: float  # between reading at once and token by token
    is_cached: bool  # whether what was read is kept; else all is read again for each token
