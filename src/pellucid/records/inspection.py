"""What was seen of a module: its parts, what they cost, where shapes disagree, and what the doctor proved."""

from typing import NamedTuple

from pellucid.records.statements import Statement
from pellucid.records.training import Finding, Health, Step


class NamedShape(NamedTuple):
    """The sizes of a tensor, each with a name where it can be told.

    >>> str(NamedShape((8, 16, 3), ("batch", "time", ""))), str(NamedShape((), ()))
    ('(batch 8, time 16, 3)', '()')
    """

    sizes: tuple[int, ...]
    names: tuple[str, ...]  # "batch", "time", "features", ...; "" where it cannot be told

    def __str__(self) -> str:
        return f"({', '.join(f'{name} {size}'.strip() for name, size in zip(self.names, self.sizes, strict=True))})"


class ModuleRow(NamedTuple):
    """One module of a network, in the order of its first call."""

    path: str  # "" for the whole
    kind: str
    inputs: tuple[NamedShape, ...]
    outputs: tuple[NamedShape, ...]
    parameters: int  # its own, those of its parts left out; tied ones count where they come first
    tied: tuple[tuple[str, str], ...]  # parameters of it that are another's too: ("weight", "embedding.weight")
    flops_by_formula: int | None  # of its own calls; None: there is no formula for it
    own_flops: int  # dispatched while it ran, those of its parts left out
    flops_by_operation: int  # those of its parts included
    activation_bytes: int  # of what it put out
    seconds: float  # of a real forward, those of its parts included
    share_of_time: float  # of the whole forward
    n_calls: int
    readers: tuple[str, ...] = ()  # of a module that was never called: who reads its parameters; "" is the whole


class RepairChange(NamedTuple):
    """One change to a module, to what it is given or to how it is run."""

    path: str  # of the module; "" for the whole
    change: Statement
    writes: tuple[
        str, ...
    ] = ()  # the layers that stand in an expression in its place; none: it cannot be written there
    reason: Statement | None = None


class Repair(NamedTuple):
    """Changes that were tried together, and after which the whole forward ran."""

    changes: tuple[RepairChange, ...]


class SizeOrigin(NamedTuple):
    """How a size in a shape was made."""

    factors: tuple[int, ...]  # 16, 3 and 3, or 8 and 16; () where it is one size of a shape
    is_sum: bool = False  # of the factors, or their product
    shape: tuple[int, ...] = ()  # that it is of; () where it is of several
    layer: str = ""  # that puts the shape out, or is given it; "": the shape is an input's
    is_given: bool = False
    is_both_directions: bool = False  # of a recurrent layer


class ShapeStep(NamedTuple):
    """One step on the way of the shapes up to where they disagree."""

    kind: str  # input, layer, between (what a forward did between two layers) or operation (of torch)
    name: str = ""  # of the layer
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    is_failed: bool = False


class ShapeXray(NamedTuple):
    """Why shapes do not fit together, and where each number comes from."""

    path: str  # of the module in which it failed
    kind: str
    where: str  # the line of the user's file, as "model.py:12"; "" where it is not known
    error: str  # the first line of what torch said, behind the name of the error
    layer: str = ""  # the module as it is written, "Linear(120, 10)"; "": its kind and path
    hook: str = ""  # of the module, where that raised
    fed: Statement | None = None
    origin: SizeOrigin | None = None  # of the number that came
    wanted: Statement | None = None
    chain: tuple[ShapeStep, ...] = ()  # up to the failing one
    repairs: tuple[Repair, ...] = ()


class Mistake(NamedTuple):
    """A mistake in what was written, that was named and read over."""

    description: str
    excerpt: str  # the line, and a caret under the place
    fix: str


class CostScaling(NamedTuple):
    """How the cost of one forward grows with the length of the input."""

    lengths: tuple[int, ...]
    flops: tuple[int, ...]
    polynomial: tuple[float, float, float] | None  # a, b and c of a + b·n + c·n² for one sequence; None: it is no such
    overtakes: int | None  # the length from which c·n² is more than the rest; None: it never is


class ReceptiveField(NamedTuple):
    """What one place of the last convolution's or pooling's output sees of the input, along each dimension."""

    n_windows: int  # convolutions and poolings
    reach: tuple[int, ...] | None  # by formula; None: something is enlarged, which is no window over the input
    step: tuple[int, ...]  # from one place to the next
    middle: tuple[int, ...] | None  # what the place in the middle sees by formula, padding left out
    measured: tuple[int, ...] | None  # what it sees by gradients; None: there are none


class SilentBroadcast(NamedTuple):
    """An operation that stretches both of its sides, so that each row meets all others: (n, 1) against (n)."""

    path: str  # of the module in whose forward it is; "" for the whole
    line: str  # of a file, as "model.py:12"; "" where it is not known
    operation: str  # a sign, as "-", or the name of a function
    left: tuple[int, ...]
    right: tuple[int, ...]


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
    refused_guess: ShapeXray | None = None  # why it did not run on inputs that were guessed, which proves nothing
    broadcasts: tuple[SilentBroadcast, ...] = ()
    receptive_field: ReceptiveField | None = None
    cache_bytes_per_token: int | None = None
    scaling: CostScaling | None = None
    uncounted: tuple[str, ...] = ()  # operations with products that no rule counts
    notes: tuple[Statement, ...] = ()
    mistakes: tuple[Mistake, ...] = ()  # in the expression or the file, as missing commas
    mended: str = ""  # the whole expression as it works, where it did not

    @property
    def has_found_something_wrong(self) -> bool:
        return self.failure is not None or bool(self.mistakes)


class VersusRow(NamedTuple):
    """One quantity of two modules; None where it is not known."""

    quantity: str
    left: float | None
    right: float | None

    @property
    def ratio(self) -> float | None:
        """How many times the left the right is; None where that has no meaning."""
        return self.right / self.left if self.left and self.right is not None else None


class Versus(NamedTuple):
    """Two modules side by side."""

    left: Inspection
    right: Inspection
    rows: tuple[VersusRow, ...]

    @classmethod
    def of(cls, left: Inspection, right: Inspection) -> "Versus":
        """What each has and costs; FLOPs at the lengths at which both were counted."""
        flops = [
            dict(zip(one.scaling.lengths, one.scaling.flops, strict=True)) if one.scaling else {}
            for one in (left, right)
        ]
        rows = [
            VersusRow("parameters", left.parameters, right.parameters),
            VersusRow("bytes of parameters", left.parameter_bytes, right.parameter_bytes),
            VersusRow("FLOPs by formula", left.flops_by_formula, right.flops_by_formula),
            VersusRow("FLOPs by operation", left.flops_by_operation, right.flops_by_operation),
            *(VersusRow(f"FLOPs at n = {n:,}", one, flops[1][n]) for n, one in flops[0].items() if n in flops[1]),
            VersusRow("sequential depth", left.sequential_depth, right.sequential_depth),
            VersusRow("activation bytes", left.activation_bytes, right.activation_bytes),
            VersusRow("cache bytes a token", left.cache_bytes_per_token, right.cache_bytes_per_token),
            VersusRow("milliseconds", left.seconds * 1e3 or None, right.seconds * 1e3 or None),
        ]
        return cls(left, right, tuple(rows))


class RuleTime(NamedTuple):
    """How long a rule took, and why it gave nothing, where it did not."""

    rule: str
    seconds: float
    passed_over: str = ""


class RuleExplanation(NamedTuple):
    """What a rule of the doctor proves, how, and what it cannot see."""

    name: str
    proves: str
    how: str
    cannot_see: str
    needs: tuple[str, ...]
    follows: tuple[str, ...]  # rules whose findings explain one of this


class Diagnosis(NamedTuple):
    """Everything that the doctor proved of one module."""

    name: str
    findings: tuple[Finding, ...]  # the gravest first, those that are sound last
    rules: tuple[RuleTime, ...]
    seconds: float
    notes: tuple[Statement, ...] = ()

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
