"""What was seen: plain records that every table, picture and page is made from. No torch, no drawing.

A record does not know how to show itself. Whoever makes one for a person hands it a `Pen`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class GraphNode(NamedTuple):
    """One number of a graph and how it was made."""

    place: int  # in the list of nodes, counted from 0; parents stand before it
    name: str  # an input's or a statement's own name, a constant as it is written, else v1, v2, ...
    rule: str  # the name of its row in the table of rules
    symbol: str
    form: str  # infix, prefix, call or given
    parents: tuple[int, ...]
    value: float
    slopes: tuple[float, ...]  # its local derivative toward each parent
    is_heard: tuple[bool, ...]  # whether a change of each parent reaches it at all
    can_move: bool  # whether it depends on any input
    start: int  # the part of the expression it was written as; start == end where there is none
    end: int


class BackwardStep(NamedTuple):
    """One edge of the backward pass: what a node hands on to one of its parents, and why."""

    number: int  # counted from 1
    node: int  # places in the list of nodes, and their names
    parent: int
    node_name: str
    parent_name: str
    rule: str  # the name of the node's row in the table of rules
    position: int  # which of the node's inputs the parent is, counted from 0
    upstream: float  # the gradient of the node
    slope: float  # the node's local derivative toward the parent
    contribution: float  # upstream × slope
    running_sum: float  # the parent's gradient so far
    use: int  # which of the parent's uses this is, and of how many
    uses: int
    because: str


class Path(NamedTuple):
    """One way from an output back to a node, and the part of the gradient that came along it."""

    nodes: tuple[int, ...]  # their places, and their names
    names: tuple[str, ...]
    slopes: tuple[float, ...]
    contribution: float


class Difference(NamedTuple):
    """One way of measuring a slope with steps of h, beside the exact slope."""

    kind: str  # forward, backward or central
    h: float
    slope: float
    error: float  # slope - exact


class Check(NamedTuple):
    """A gradient beside the central difference that measures it. `None`: not measured, so not known."""

    output: str
    variable: str
    exact: float
    measured: float | None
    disagreement: float | None
    h: float
    differences: tuple[Difference, ...] = ()  # forward, backward and central with the same h


class Effect(NamedTuple):
    """What a small change of one input does: as the gradient predicts, and as running it again showed."""

    output: str
    variable: str
    nudge: float
    predicted: float
    measured: float


class Note(NamedTuple):
    """Something a reader should know about one place of the expression. column counts from 1."""

    text: str
    column: int


@dataclass(frozen=True)
class BackwardPass:
    """The way back from one output: every node's gradient, and the steps that gave it."""

    output: str
    place: int  # of the output in the list of nodes
    gradients: Sequence[float]
    steps: Sequence[BackwardStep]


class Pen(Protocol):
    """Shows a derivation: as words in a terminal, as a picture and as a page."""

    def text(self, derivation: "Derivation") -> str: ...

    def picture(self, derivation: "Derivation") -> str: ...

    def page(self, derivation: "Derivation") -> str: ...


@dataclass(frozen=True)
class Derivation:
    """The value of an expression, its gradients, and every step that led to them."""

    text: str
    nodes: Sequence[GraphNode]
    values: Mapping[str, float]  # of the outputs
    inputs: Mapping[str, float]
    passes: Sequence[BackwardPass]
    checks: Sequence[Check]
    effects: Sequence[Effect]
    notes: Sequence[Note]
    pen: Pen | None = field(default=None, repr=False, compare=False)

    @property
    def value(self) -> float:
        """The value of the last output, which is the only one unless several were asked for."""
        return self.values[self.passes[-1].output]

    @property
    def gradients(self) -> dict[str, float]:
        """The gradient of the last output toward each input that was asked for."""
        return self.jacobian[self.passes[-1].output]

    @property
    def jacobian(self) -> dict[str, dict[str, float]]:
        """The gradient of every output toward every input that was asked for."""
        table: dict[str, dict[str, float]] = {back.output: {} for back in self.passes}
        for check in self.checks:
            table[check.output][check.variable] = check.exact
        return table

    @property
    def steps(self) -> Sequence[BackwardStep]:
        """The backward pass of the last output, edge by edge."""
        return self.passes[-1].steps

    def __str__(self) -> str:
        return self.pen.text(self) if self.pen else repr(self)

    def svg(self) -> str:
        """The graph as a picture."""
        return self._pen().picture(self)

    def html(self) -> str:
        """A page on its own that steps forward and backward through the graph."""
        return self._pen().page(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _pen(self) -> Pen:
        if self.pen is None:
            raise ValueError("this derivation has no pen; pellucid.derive(...) gives one")
        return self.pen


def as_plain(record: object) -> object:
    """The record as dictionaries, lists and numbers that JSON can hold; non-finite numbers become words.

    >>> as_plain(Note("1/0 is infinite", 3))
    {'text': '1/0 is infinite', 'column': 3}
    >>> as_plain([1.0, float("-inf")])
    [1.0, '-inf']
    """
    if isinstance(record, float):
        return record if math.isfinite(record) else str(record)
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return {name: as_plain(item) for name, item in record._asdict().items()}
    if isinstance(record, Mapping):
        return {str(name): as_plain(item) for name, item in record.items()}
    if isinstance(record, list | tuple):
        return [as_plain(item) for item in record]
    return record


# Splits: what was seen of a division into train, dev and test.


class Agreement(NamedTuple):
    """How far one column's distribution on one side is from that on the training side."""

    column: str
    kind: str  # numeric or category
    measure: str  # KS: the Kolmogorov-Smirnov distance; TV: half the summed difference of shares
    side: str
    distance: float
    by_chance: float  # what at most 1 random split in 100 of these sizes exceeds


class Tail(NamedTuple):
    """The upper end of a numeric column on one side. None: not known, as on an empty side."""

    column: str
    side: str  # "all" is the whole table
    q90: float | None
    q99: float | None
    q999: float | None
    largest: float | None
    top_share: float | None  # the part of this side's rows that is among the top 1 % of all rows


class Straddle(NamedTuple):
    """Things that stand on the training side and on another one too."""

    what: str  # such as "equal rows" or "rows equal without seq_no"
    side: str
    n_shared: int  # rows of this side that have such a twin in train
    n_rows: int  # of this side
    is_leak: bool
    examples: tuple[str, ...] = ()


class Drift(NamedTuple):
    """How far one column's distribution moves from the first fifth of the order to the last."""

    order: str
    column: str
    measure: str
    distance: float
    by_chance: float


class Wander(NamedTuple):
    """How far one number about the test side's tail moves over repeated splits that differ by the seed alone."""

    column: str
    statistic: str
    is_share: bool
    whole: float | None  # the same number for all rows
    at_random: tuple[float, ...]  # one for each random split
    stratified: tuple[float, ...]  # one for each stratified split


@dataclass(frozen=True)
class SplitReport:
    """What was asked, what came out, and what is wrong with it."""

    name: str
    kind: str
    said: str
    strategy: str
    settings: Mapping[str, str]  # the options that give this split again
    is_proposed: bool
    because: Sequence[str]
    is_stable: bool  # whether old rows keep their sides when rows are appended
    fractions: tuple[float, ...]
    sizes: Mapping[str, int]
    n_distinct: int
    agreements: Sequence[Agreement]
    tails: Sequence[Tail]
    straddles: Sequence[Straddle]
    drifts: Sequence[Drift]
    wanders: Sequence[Wander]
    notes: Sequence[str]
    verdict: Sequence[str]
    has_found_something_wrong: bool


# Counting: what follows what, and what smoothing does to it.


class Bigram(NamedTuple):
    """How often one symbol follows another. The symbols are given by their places in a list."""

    first: int
    second: int
    n: int


class BigramCounts(NamedTuple):
    """Every bigram of some data with its count; those that never occur are left out."""

    source: str  # what was counted, as it stands in a sentence: "32,033 items of names.txt"
    symbols: tuple[str, ...]
    has_boundary: bool  # then symbols[0] is the boundary that opens and closes every item
    bigrams: tuple[Bigram, ...]  # the most frequent first
    walk: tuple[int, ...] = ()  # of a single word: its symbols in order, with the boundaries

    @property
    def total(self) -> int:
        return sum([bigram.n for bigram in self.bigrams])

    def row_sums(self) -> list[int]:
        """How often each symbol is followed by any."""
        sums = [0] * len(self.symbols)
        for bigram in self.bigrams:
            sums[bigram.first] += bigram.n
        return sums

    def column_sums(self) -> list[int]:
        """How often each symbol follows any."""
        sums = [0] * len(self.symbols)
        for bigram in self.bigrams:
            sums[bigram.second] += bigram.n
        return sums


class SmoothedRow(NamedTuple):
    """The probabilities of the next symbol after one symbol, with s added to every count."""

    s: float
    probabilities: tuple[float, ...]


class SmoothedLoss(NamedTuple):
    """What add-s smoothing does to the loss, in nats per predicted symbol; infinite where the unseen came."""

    s: float
    train: float
    dev: float


class Smoothing(NamedTuple):
    """A bigram model counted on the training side, smoothed by adding ever more to every count."""

    source: str
    symbols: tuple[str, ...]
    has_boundary: bool
    after: int  # the symbol whose row is shown
    n_after: int  # how often it is followed by any in train
    n_train: int  # predicted symbols
    n_dev: int
    n_dev_unseen: int  # of these, those whose bigram never occurs in train
    rows: tuple[SmoothedRow, ...]
    losses: tuple[SmoothedLoss, ...]  # s grows from 0


class Loss(NamedTuple):
    """The mean surprise of a model over every predicted token; infinite as soon as one was impossible."""

    nats: float
    n_tokens: int
    n_impossible: int = 0

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    @property
    def perplexity(self) -> float:
        return math.exp(self.nats) if self.nats < 700 else math.inf


class Trial(NamedTuple):
    """One n-gram that was fitted on train and tried on dev."""

    order: int
    smoothing: str
    dev: float  # nats per token
    n_stored: int


class ModelFacts(NamedTuple):
    """A model, what it was fitted on, and how it does on dev beside the simplest ones."""

    name: str
    source: str  # the data, in one line
    vocab_size: int
    n_train: int  # predicted tokens
    n_dev: int
    n_entries: int  # of a full table
    n_stored: int  # numbers really kept
    train: Loss
    dev: Loss | None  # None: there is no dev side
    baselines: tuple[tuple[str, float], ...]  # name and nats on dev
    trials: tuple[Trial, ...] = ()  # where n was chosen on dev


class Sample(NamedTuple):
    """One sample and how new it is."""

    text: str
    nats: float  # surprise of all its tokens under the model, the prompt left out
    n_tokens: int  # drawn
    where: str  # "train", "dev" or "new"
    nearest: str  # the training item with the fewest edits; "" where there are none
    distance: int  # that many edits
    copied: str  # the longest part that stands somewhere in train
    is_cut: bool = False  # it had no end and was stopped


class Samples(NamedTuple):
    """What a model made, with a seed that makes it again."""

    model: ModelFacts
    prompt: str
    temperature: float
    seed: int
    samples: tuple[Sample, ...]
    notes: tuple[str, ...] = ()


class Surprise(NamedTuple):
    """How unexpected one token was: -log of its probability after its context."""

    context: str  # as much of it as the model looks at
    token: str
    probability: float
    nats: float
    rank: int  # 1: the model thought no other token likelier
    expected: str  # the token it thought likeliest


class ScoredText(NamedTuple):
    """A text and the surprise of each of its tokens under a model."""

    text: str
    model: ModelFacts
    surprises: tuple[Surprise, ...]
    where: str  # "train", "dev" or "new"; "" for running text
    notes: tuple[str, ...] = ()

    @property
    def nats(self) -> float:
        return math.fsum(surprise.nats for surprise in self.surprises)

    @property
    def loss(self) -> Loss:
        """The mean over the tokens."""
        impossible = sum(surprise.nats == math.inf for surprise in self.surprises)
        return Loss(self.nats / len(self.surprises), len(self.surprises), impossible)
