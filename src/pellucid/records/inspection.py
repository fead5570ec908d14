"""What was seen of a module: its parts, what they cost, where shapes disagree, and what the doctor proved."""

from typing import NamedTuple

from pellucid.records.training import Finding, Health, Step


class ModuleRow(NamedTuple):
    """One module of a network, in the order of its first call."""

    path: str  # "" for the whole
    kind: str
    inputs: tuple[str, ...]  # shapes with names where they can be told, as "(batch 8, time 16)"
    outputs: tuple[str, ...]
    parameters: int  # its own, those of its parts left out; tied ones count where they come first
    tied: tuple[str, ...]  # parameters of it that are the same as another: "weight = embedding.weight"
    flops_by_formula: int | None  # of its own calls; None: there is no formula for it
    flops_by_operation: int  # dispatched while it ran, those of its parts included
    activation_bytes: int  # of what it put out
    seconds: float  # of a real forward, those of its parts included
    share_of_time: float  # of the whole forward
    n_calls: int
    note: str = ""


class Repair(NamedTuple):
    """A change that was tried, and works."""

    says: str  # "nn.Linear(144, 10) in place of nn.Linear(120, 10)"
    path: str


class ShapeXray(NamedTuple):
    """Why shapes do not fit together, and where each number comes from."""

    path: str  # of the module in which it failed
    kind: str
    where: str  # the line of the user's file, as "model.py:12"; "" where it is not known
    error: str  # the first line of what torch said
    fed: str  # the shape that came, with how it was made: "144 = 16·3·3 features"
    wanted: str
    chain: tuple[str, ...]  # "conv1: (batch 2, 1, 32, 32) -> (batch 2, 8, 28, 28)" up to the failing one
    repairs: tuple[Repair, ...]
    says: str  # the whole in one sentence


class Mistake(NamedTuple):
    """A mistake in what was written, that was named and read over."""

    says: str
    excerpt: str  # the line, and a caret under the place
    fix: str


class CostScaling(NamedTuple):
    """How the cost of one forward grows with the length of the input."""

    lengths: tuple[int, ...]
    flops: tuple[int, ...]
    says: str


class Inspection(NamedTuple):
    """A whole module, looked at once."""

    name: str
    kind: str
    rows: tuple[ModuleRow, ...]
    parameters: int  # each counted once; equal to the sum over the rows
    parameters_with_ties: int  # as they would be without ties
    trainable: int
    buffers: int
    parameter_bytes: int
    flops_by_formula: int | None
    flops_by_operation: int
    activation_bytes: int
    seconds: float  # the median of a few forwards
    sequential_depth: int  # modules with parameters that wait for one another
    failure: ShapeXray | None = None
    broadcasts: tuple[str, ...] = ()  # silent ones
    receptive_field: str = ""
    cache_bytes_per_token: int | None = None
    scaling: CostScaling | None = None
    notes: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()  # in the expression or the file, as missing commas
    mended: str = ""  # the whole expression as it works, where it did not

    @property
    def has_found_something_wrong(self) -> bool:
        return self.failure is not None or bool(self.mistakes)


class Versus(NamedTuple):
    """Two modules side by side."""

    left: Inspection
    right: Inspection
    rows: tuple[tuple[str, str, str, str], ...]  # what, left, right, ratio
    says: tuple[str, ...]


class RuleTime(NamedTuple):
    """How long a rule took, and why it gave nothing, where it did not."""

    rule: str
    seconds: float
    passed_over: str = ""


class Diagnosis(NamedTuple):
    """Everything that the doctor proved of one module."""

    name: str
    findings: tuple[Finding, ...]  # the gravest first, those that are sound last
    rules: tuple[RuleTime, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def is_ill(self) -> bool:
        return any(finding.severity == "broken" for finding in self.findings)


class Watched(NamedTuple):
    """A loop of someone's own, as a watch saw it."""

    name: str
    steps: tuple[Step, ...]  # their losses are nan: only the loop knows them
    health: tuple[Health, ...]
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()  # layers that there was no room for
