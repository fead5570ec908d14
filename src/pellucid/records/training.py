"""What was planned and what was seen while a network trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from pellucid.records.answers import Answers, CrossValidation, Gain
from pellucid.records.counting import Sample
from pellucid.records.splitting import Leak, SplitChoice
from pellucid.records.statements import Statement

WORTH_GROWING = 0.1  # of a plan's steps: with time for fewer it does not grow


class Replan(NamedTuple):
    """Where the number of steps was changed on the way, and why."""

    step: int  # after which
    steps: int  # that there are in all from then on
    why: str = "clock"  # which went faster or slower than was planned; "dev": it was still falling

    @property
    def spelled(self) -> str:
        """As the option that makes a run again has it.

        >>> Replan(340, 500).spelled, Replan(340, 900, "dev").spelled
        ('340:500', '340:900:dev')
        """
        return f"{self.step}:{self.steps}" + (f":{self.why}" if self.why != "clock" else "")


class Plan(NamedTuple):
    """What a run will do, fixed before its first step but for the number of steps, which may follow clock and dev."""

    steps: int
    batch_size: int  # items of a list, or windows of a text, in one step
    context: int  # tokens in a window of a text; for a list the longest item and its boundary
    optimizer: str  # muon, adamw or sgd
    learning_rate: float  # the peak
    matrix_learning_rate: float  # the peak for hidden matrices, of Muon; 0 where it is not used
    momentum: float  # of SGD
    weight_decay: float  # on matrices alone
    clip: float  # the largest norm of all gradients together; 0 clips nothing
    warmup: int  # steps over which the learning rate climbs
    schedule: str  # of the learning rate: linear, cosine, step or constant
    evaluate_every: int
    probe_every: int
    sample_every: int
    save_every: int
    threads: int
    seed: int
    seconds: float = 0.0  # that the steps were expected to take; 0: not measured
    reasons: tuple[Statement, ...] = ()  # how it was chosen
    size: str = ""  # of the network
    loss: str = "cross-entropy"  # what is made small; the penalty comes on top of it
    penalty: str = ""  # on the weights: l1, l2 or linf2; "" for none
    strength: float = 0.0  # of the penalty
    shift: int = 0  # pixels by which images are moved at random
    start: str = "scratch"  # or "counts": the network learns on top of what was counted
    evaluated: int = 0  # predictions of dev, and of train, that an evaluation is the mean of; 0: of the whole side
    folds: int = 0  # parts of the cross-validation after it; 0: none
    class_weights: str = "none"  # or "balanced": every class counts the same, however frequent it is
    replans: tuple[Replan, ...] = ()  # where steps were changed on the way; the first is how many there were before any
    available: float = 0.0  # seconds that steps may take, where epochs and not the time decided how many; else 0
    is_mixed: bool = False  # whether all items of a list but the longest meet in its batches
    is_fair: bool = False  # whether each batch of a list is a fair sample of it, whatever lengths meet
    device: str = "cpu"  # or cuda, mps
    precision: str = "fp32"  # of matrix products: fp32, bf16 or fp16
    is_compiled: bool = False  # by torch.compile
    processes: int = 1  # that share every batch
    shard: bool = False  # weights, gradients and optimizer are divided over the processes
    accumulate: int = 1  # pieces that a process works on its share of a batch in

    def changed_by(self, change: Replan) -> Plan:
        """The plan from that step on. With twice the steps it is looked at half as often: that costs time.

        >>> plan = Plan(900, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 45, 5, 5, 5, 1, 1)
        >>> [(change.step, change.steps) for change in plan.changed_by(Replan(340, 500)).replans]
        [(0, 900), (340, 500)]
        >>> plan.changed_by(Replan(540, 1800, "dev")).evaluate_every
        90
        """
        replans = self.replans or (Replan(0, self.steps),)
        times, before = (max(1, steps // replans[0].steps) for steps in (change.steps, self.steps))
        return self._replace(
            steps=change.steps,
            replans=(*replans, change),
            evaluate_every=self.evaluate_every // before * times,
            probe_every=self.probe_every // before * times,
            sample_every=self.sample_every // before * times,
        )


class Step(NamedTuple):
    """One step of training."""

    step: int  # the first is 1
    loss: float  # of this batch before the update, in nats a token
    n_tokens: int  # predicted
    learning_rate: float
    gradient_norm: float  # of all gradients together, before clipping


class Evaluation(NamedTuple):
    """The loss over the whole dev side, and over as much of train, after a step; 0 is before the first."""

    step: int
    train: float
    dev: float  # nan where nothing was held out
    metric: float | None = None  # on the side that is judged; None: there is none, or it is only measured at the end

    @property
    def judged(self) -> float:
        """The loss that weights are chosen by: that on dev, or on train where nothing was held out."""
        return self.train if math.isnan(self.dev) else self.dev


class Histogram(NamedTuple):
    """How many values fell into each of the equal parts between two numbers."""

    low: float
    high: float
    counts: tuple[int, ...]


class LayerStats(NamedTuple):
    """What one layer put out on one batch, and the gradient that came back to it."""

    path: str  # as "blocks.0.attention"
    kind: str  # as "Tanh"
    width: int  # units
    examples: int  # values seen of each unit
    mean: float
    deviation: float
    saturated: float | None  # share of values where the slope is nearly 0; None: it cannot saturate
    always_zero: int | None  # units that were flat on every example; None: they cannot be
    gradient_mean: float
    gradient_deviation: float
    values: Histogram
    gradients: Histogram


class WeightStats(NamedTuple):
    """One parameter, its gradient and its last update."""

    path: str
    shape: tuple[int, ...]
    deviation: float
    gradient_norm: float
    update_ratio: float  # deviation of the update over that of the data; about 1e-3 is usual; nan: the data are alike


class UnitMap(NamedTuple):
    """One layer on one batch: a row for each example, a letter for each unit.

    values: "9" where the unit is saturated or flat on that example, "0" where it is not.
    gradients: those that the layer passes on, "0" to "9" by the root of the size, where "9" is the largest.
    """

    path: str
    kind: str
    values: tuple[str, ...]
    gradients: tuple[str, ...]


class Health(NamedTuple):
    """All layers and parameters at one step."""

    step: int
    layers: tuple[LayerStats, ...]
    weights: tuple[WeightStats, ...]
    maps: tuple[UnitMap, ...] = ()  # of the first and the last look alone


SEVERITIES = ("broken", "suspicious", "note", "sound")  # the gravest first


class Finding(NamedTuple):
    """One thing that was seen, what it means, and what to try.

    >>> Finding.sound("the model", "3 of 3 runs agree", "what is seen once can be seen again").severity
    'sound'
    """

    severity: str  # one of SEVERITIES
    where: str
    seen: str
    means: str
    try_next: str
    step: int = 0
    rule: str = ""  # of the doctor that found it; the doctor fills it in
    again: str = ""  # how to see it again
    cause: str = ""  # the rule whose finding this one follows from; "" where it stands for itself

    @classmethod
    def broken(cls, where: str, seen: str, means: str, try_next: str, again: str = "", step: int = 0) -> Finding:
        """Proven: it cannot work as it is."""
        return cls("broken", where, seen, means, try_next, step, again=again)

    @classmethod
    def suspicious(cls, where: str, seen: str, means: str, try_next: str, again: str = "", step: int = 0) -> Finding:
        """Measured, and mostly a mistake; it may be meant."""
        return cls("suspicious", where, seen, means, try_next, step, again=again)

    @classmethod
    def note(cls, where: str, seen: str, means: str, try_next: str, again: str = "", step: int = 0) -> Finding:
        """Worth knowing; it does no harm."""
        return cls("note", where, seen, means, try_next, step, again=again)

    @classmethod
    def sound(cls, where: str, seen: str, means: str, again: str = "", step: int = 0) -> Finding:
        """Looked at, and as it should be."""
        return cls("sound", where, seen, means, "", step, again=again)


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by how grave they are, those of one kind in their order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


class InitialLoss(NamedTuple):
    """The loss before the first step beside what it should be."""

    measured: float
    uniform: float  # ln of the vocabulary's size; of numbers, what 0 for everything costs
    label_entropy: float  # of the targets: the least without context; of numbers, what the mean of train costs
    is_as_expected: bool
    start: str  # unsure, sure and wrong, informed, too informed, from counting, from a run, not finite or counted
    vocab_size: int = 0  # 0: numbers are predicted
    expected: float | None = None  # over all first weights of their kind, where that can be computed


class Timing(NamedTuple):
    """How fast it went up to a step. Kept apart from what was learned, which is the same on every run."""

    step: int
    seconds: float
    tokens_per_second: float
    stepping: float = 0.0  # of the seconds, those inside steps: not while it was evaluated, sampled or saved


class Resumption(NamedTuple):
    """Where a stopped run goes on, and what is not as it was."""

    step: int  # after which it goes on; 0: it was stopped before its first checkpoint
    unused: Mapping[int, str] = MappingProxyType({})  # steps of newer checkpoints, and what is wrong with each
    new_data: str = ""  # what was inferred of them, in one line
    threads: tuple[int, int] | None = None  # before and now, where they differ
    processes: tuple[int, int] | None = None  # the same
    device: tuple[str, str] | None = None  # the same
    has_other_versions: bool = False  # of what it was made with, or another machine


class SampledAt(NamedTuple):
    """What the network made after a step."""

    step: int
    texts: tuple[str, ...]


class Ending(NamedTuple):
    """Why the training stopped."""

    reason: str  # budget, plateau, over-fit; counted, where nothing is trained
    step: int
    best_step: int  # whose weights were kept: the best on dev
    gain: float | None = None  # of a plateau: the most that dev could still have fallen by


class Verdict(NamedTuple):
    """How well the network fits, from the curves of train and dev."""

    name: str  # under-fit, good fit or over-fit; not known, where nothing was held out; counted, if nothing is trained
    # dev rose, by heart, solved, rest is random, all right, still falling, behind simple models, nothing learned or by
    reason: str  # heart, at rest, same answer, nothing held out, or counted
    fell: float = 0.0  # by how much dev fell over the last tenth of the run
    harder: float = 0.0  # by how much dev costs the simplest model more than train, where that explains the distance
    random_loss: float = 0.0  # on dev, of what was drawn at random, where next to nothing else is left


class Separability(NamedTuple):
    """Whether some weights of a linear network tell all of train right: then its loss has no minimum."""

    is_separable: bool | None  # None: not known
    n_rows: int  # of train
    n_right: int  # of them, by the kept weights
    loss: float  # nats a row of train, by the kept weights
    doubled: float  # and by twice those weights
    floor: float  # nats a row that no weights get below: 0 where it is separable, nan where it is not known
    decided_by: str  # what keeps the weights finite: weight decay, penalty, or the number of steps
    strength: float  # of the weight decay or penalty; 0: there is none
    steps: int  # that the kept weights made
    decayed: float  # the share that the weight decay takes off weights in so many steps


class ForecastSpan(NamedTuple):
    """Between what and what something lies nine times in ten, and what is usual."""

    low: float
    usual: float
    high: float


class Forecast(NamedTuple):
    """What more steps would bring a run, by its own curve."""

    unknown: str  # why it cannot be told: over-fit, nothing learned or held out, few evaluations, not finite; or ""
    goal: str  # pass: the best simple model, which is better; gain: a little more than it has
    unit: str  # of the loss "", or R²
    wanted: float  # how much it lacks to the goal; nan where the models are judged by something else
    fell: float = 0.0  # by how much dev got better from half of the steps to the end
    doubled: ForecastSpan = ForecastSpan(0.0, 0.0, 0.0)  # what twice the steps would bring
    # How many times the steps to the goal; inf: farther than is known.
    times: ForecastSpan = ForecastSpan(math.inf, math.inf, math.inf)


class Measure(NamedTuple):
    """What the models of a ladder are judged by."""

    loss: str = "nats"  # the unit of the loss; of each `one`, where it is nats
    metric: str = ""  # accuracy, R² or exact match, where more is better; "": the loss says it all
    simple: str = "counting"  # what the models are called that are no networks
    one: str = "token"  # what one prediction is for
    side: str = "dev"  # that they are judged on; train, where nothing was held out


class TokenAccuracy(NamedTuple):
    """How often the likeliest next token is the true one, and how often it is so from beginning to end of a whole."""

    side: str  # dev or test
    share_right: float
    n_tokens: int  # predictions that it is the mean of
    whole: str = ""  # item or word; "": the tokens do not make up such
    n_whole: int = 0
    n_whole_right: int = 0  # of them, those whose every token was the likeliest, of an item its end too

    @property
    def whole_share(self) -> float:
        return self.n_whole_right / self.n_whole if self.n_whole else math.nan


TREES = "gradient boosting"  # what the simple model is called; how much of the data it saw may stand behind


class Rung(NamedTuple):
    """One model of the ladder and what it reached."""

    name: str
    is_counted: bool  # or otherwise so simple that no network is needed
    parameters: int
    train: float  # loss; nats a token unless the ladder's measure says otherwise
    dev: float  # nan where nothing was held out
    test: float | None  # None: not read
    bits_per_character: float  # on dev; nan where there are no characters
    seconds: float
    tokens_per_second: float | None  # None for what only counts
    metric: float | None = None  # on the measure's side; None where the measure has none
    test_metric: float | None = None  # None: not read, or there is none
    # Of a network over the best simple model, on dev and on test; of gradient boosting, the network's over it.
    gains: tuple[Gain, ...] = ()
    accuracies: tuple[TokenAccuracy, ...] = ()  # of lists and texts, on dev and on test

    def accuracy(self, side: str) -> TokenAccuracy | None:
        return next((one for one in self.accuracies if one.side == side), None)

    def gain(self, side: str) -> Gain | None:
        return next((one for one in self.gains if one.side == side), None)


class Ladder(NamedTuple):
    """Models on one split, with one budget."""

    source: str
    rungs: tuple[Rung, ...]  # the best on dev first
    notes: tuple[Statement, ...] = ()
    measure: Measure = Measure()
    cross_validation: CrossValidation | None = None  # of the network of a run on a small table

    @property
    def trees(self) -> Rung | None:
        """Gradient boosting, where it was tried."""
        return next((rung for rung in self.rungs if rung.name.startswith(TREES)), None)

    def loss(self, rung: Rung) -> float:
        """On the side that the models are judged on."""
        return rung.train if self.measure.side == "train" else rung.dev

    def merit(self, rung: Rung) -> float:
        """What the rungs are ranked by, more being better: the metric on dev, or the loss where there is none."""
        if not self.measure.metric:
            return -self.loss(rung)
        return -math.inf if rung.metric is None or math.isnan(rung.metric) else rung.metric

    @property
    def best_count(self) -> Rung | None:
        return max([rung for rung in self.rungs if rung.is_counted], key=self.merit, default=None)

    def gap(self, rung: Rung) -> float:
        """How much the rung earns over the best simple model, in nats or in the metric; nan where there is none."""
        best = self.best_count
        return self.merit(rung) - self.merit(best) if best else math.nan


class DataFacts(NamedTuple):
    """The data of a run."""

    source: str  # the word that opens it again
    description: str  # what was inferred, in one line
    kind: str  # list, text, pairs, table or images
    tokens: str  # characters, words, bytes or bpe; "" where there are none
    fingerprint: str
    vocab_size: int  # of tokens, or how many classes there are; 0 where a number is predicted
    symbols: tuple[str, ...]  # or the classes
    items: Mapping[str, int]  # of each side; of a text 0
    n_tokens: Mapping[str, int]  # predicted, of each side: tokens, classes or numbers
    notes: tuple[Statement, ...] = ()
    first: tuple[str, ...] = ()  # a few items of train, or how the text begins
    first_pairs: tuple[tuple[str, str], ...] = ()  # a few sources of train with their targets
    class_counts: tuple[int, ...] = ()  # of train, for each of the classes in `symbols`
    task: str = ""  # classification, regression or reconstruction of a table or of images
    target: str = ""  # the column that is predicted
    about: tuple[str, ...] = ()  # what the network reads, in sentences
    is_file: bool = False  # and no set that comes with pellucid, so that it could be read as another kind
    split: SplitChoice | None = None  # of a table: how its rows were divided, and why
    leaks: tuple[Leak, ...] = ()  # columns that give the target away
    dev_of_train: float = (
        0.0  # the part of train that became dev, where the data were divided into train and test alone
    )
    random_loss: float | None = None  # on dev, of what was drawn at random, in nats a token; None: not known

    @property
    def name(self) -> str:
        """What people call the data: the last part of a path, which `source` is whole."""
        return self.description.split(": ")[0]


class NetworkFacts(NamedTuple):
    """The network of a run."""

    name: str
    summary: str
    config: Mapping[str, object]
    parameters: int
    layers: tuple[tuple[str, tuple[int, ...]], ...]  # each parameter and its shape


class CountedParts(NamedTuple):
    """What of the predictions of a network that starts from counting is counted, and what learned, on tokens of dev."""

    n_tokens: int
    gate: float  # how far the counts are trusted, on average; 1 is as they are
    counted: float  # nats a token by counting alone
    both: float  # and by counts and network together
    alone: float  # and by the network without counts
    changed: float  # share of the tokens before which another token is the likeliest than by counting


class FineTuning(NamedTuple):
    """What a training began from: another run, and how that did on the new data before a step was made."""

    run: str
    model: str
    dev: float  # nats a token
    test: float | None
    gains: tuple[Gain, ...] = ()  # of the trained network over it, on each side


@dataclass(frozen=True)
class TrainingReport:
    """A whole run: what was asked, seen and reached."""

    name: str
    folder: str
    seed: int
    threads: int
    versions: Mapping[str, str]
    data: DataFacts
    network: NetworkFacts
    plan: Plan
    start: InitialLoss
    steps: Sequence[Step]
    evaluations: Sequence[Evaluation]
    health: Sequence[Health]
    findings: Sequence[Finding]
    timings: Sequence[Timing]
    sampled: Sequence[SampledAt]
    samples: Sequence[Sample]  # of the kept weights
    ladder: Ladder
    ending: Ending
    verdict: Verdict
    command: tuple[str, ...] = ()  # the words that make it again, bit by bit
    answers: Answers | None = None  # of a table, images or pairs: what it said, beside what is true
    parts: CountedParts | None = None  # of a network that starts from counting
    forecast: Forecast | None = None  # None where nothing is trained
    separability: Separability | None = None  # of logistic regression on classes
    fine_tuning: FineTuning | None = None  # of a run that began from another's weights

    @property
    def is_counted(self) -> bool:
        """Whether its model only counts, so that there was nothing to train."""
        return self.plan.steps == 0

    @property
    def rung(self) -> Rung:
        """The place of its own model on the ladder."""
        if self.is_counted:
            return next(rung for rung in self.ladder.rungs if rung.name == self.network.name)
        return next(rung for rung in self.ladder.rungs if not rung.is_counted)


class LearningRateTrial(NamedTuple):
    """The loss at one learning rate of a sweep."""

    learning_rate: float
    loss: float
    smoothed: float
    slope: float  # of the smoothed loss by log10 of the learning rate
    rate_slope: float = 0.0  # of the smoothed loss by the learning rate itself


class SweepFailure(NamedTuple):
    """Why a sweep has no answer."""

    kind: str  # blew-up, no-fall or still-falling
    n_steps: int
    learning_rate: float  # the last one
    first_loss: float = 0.0
    fall: float = 0.0
    noise: float = 0.0


class LearningRateSearch(NamedTuple):
    """Sweeps over the learning rate, one for each seed, and what each rule makes of them; None: no answer."""

    source: str
    network: str
    sweeps: tuple[tuple[LearningRateTrial, ...], ...]
    seeds: tuple[int, ...]
    by_percentile: tuple[float | None, ...]  # one for each seed
    by_valley: tuple[float | None, ...]
    answers: tuple[float | None, ...]  # by the rule
    failures: tuple[SweepFailure | None, ...]
    suggestion: float | None  # None: the seeds do not agree or there is nothing to find
    spread: float  # the largest answer over the smallest; nan where there is none
    by_flatness: tuple[float | None, ...] = ()  # one for each seed, as the other rules
    rule: str = "middle"  # that the answers are by: middle, steepest, valley or flattest
    percentile: float = 10.0  # of the slopes, up to which they are the steepest or the flattest
    spacing: str = "exponential"  # or linear
