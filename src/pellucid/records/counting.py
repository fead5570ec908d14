"""What follows what, what smoothing does to it, and what a model makes of a text."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pellucid.records.statements import Statement


class BigramCount(NamedTuple):
    """How often one symbol follows another. The symbols are given by their places in a list."""

    first: int
    second: int
    n: int


class BigramCounts(NamedTuple):
    """Every bigram of some data with its count; those that never occur are left out."""

    source: str  # what was counted, as it stands in a sentence: "32,033 items of names.txt"
    symbols: tuple[str, ...]
    has_boundary: bool  # then symbols[0] is the boundary that opens every item
    bigrams: tuple[BigramCount, ...]  # the most frequent first
    walk: tuple[int, ...] = ()  # of a single word: its symbols in order, with the boundaries
    closing: int = 0  # the place of the boundary that closes every item: the same one, or the last symbol

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


class MeanLoss(NamedTuple):
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
    train: MeanLoss
    dev: MeanLoss | None  # None: there is no dev side
    baselines: tuple[tuple[str, float], ...]  # name and nats on dev
    trials: tuple[Trial, ...] = ()  # where n was chosen on dev


class TrainedFacts(NamedTuple):
    """A network of a run, what it was trained on, and how it does on dev beside counting."""

    name: str
    run: str
    source: str  # the data, in one line
    vocab_size: int
    parameters: int
    step: int  # whose weights these are
    n_train: int  # predicted tokens
    n_dev: int
    train: MeanLoss | None  # at that step; None: not evaluated
    dev: MeanLoss | None
    baselines: tuple[tuple[str, float], ...]  # name and nats on dev; empty until the run is finished
    is_finished: bool = True


class Sample(NamedTuple):
    """One sample and how new it is."""

    text: str
    nats: float  # surprise of all its tokens under the model, the prompt left out
    n_tokens: int  # drawn
    where: str  # "train", "dev", "new" or "not known"; "" for running text
    nearest: str  # the training item with the fewest edits; "" where there are none
    distance: int  # that many edits
    copied: str  # the longest part that stands somewhere in train
    is_cut: bool = False  # it had no end and was stopped


class Samples(NamedTuple):
    """What a model made, with a seed that makes it again."""

    model: ModelFacts | TrainedFacts
    prompt: str
    temperature: float
    seed: int
    samples: tuple[Sample, ...]
    notes: tuple[Statement, ...] = ()
    filters: Mapping[str, float] = MappingProxyType({})  # the sampling filters that were asked for, such as top_k
    beam: int = 0  # 0: drawn by chance
    length_penalty: float = 0.0


class Surprise(NamedTuple):
    """How unexpected one token was: -log of its probability after its context."""

    context: str  # as much of it as the model looks at
    token: str
    probability: float
    nats: float
    rank: int  # 1: the model thought no other token likelier
    expected: str  # the token it thought likeliest
    counted: float | None = None  # its probability by counting alone, where the network starts from that
    gate: float | None = None  # how far the network trusts the counts here; 1 is as they are


class ScoredText(NamedTuple):
    """A text and the surprise of each of its tokens under a model."""

    text: str
    model: ModelFacts | TrainedFacts
    surprises: tuple[Surprise, ...]
    where: str  # "train", "dev" or "new"; "" for running text, or where it is not known
    notes: tuple[Statement, ...] = ()

    @property
    def nats(self) -> float:
        return math.fsum(surprise.nats for surprise in self.surprises)

    @property
    def counted_nats(self) -> float | None:
        """The surprise of all tokens by counting alone; None where the model does not start from it."""
        counted = [one.counted for one in self.surprises]
        if any(share is None for share in counted):
            return None
        return math.fsum(-math.log(share) if share else math.inf for share in counted if share is not None)

    @property
    def loss(self) -> MeanLoss:
        """The mean over the tokens."""
        impossible = sum(surprise.nats == math.inf for surprise in self.surprises)
        return MeanLoss(self.nats / len(self.surprises), len(self.surprises), impossible)
