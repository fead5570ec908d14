"""What a network answered about rows, images and pairs, beside what is true, and what its attention was seen to do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from pellucid.records.statements import Statement

Matrix = tuple[tuple[float, ...], ...]  # by rows
Colours = tuple[tuple[str, ...], ...]  # an image by its rows of colours, such as #ff8800


class Confusion(NamedTuple):
    """How often each class was taken for each."""

    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # a row for each true class, a column for each answer


class ConfidenceBin(NamedTuple):
    """Answers whose confidence fell between two numbers."""

    low: float
    high: float
    n: int
    confidence: float  # the mean of it; nan where there are none
    share_right: float


class Calibration(NamedTuple):
    """Whether the network is as often right as it says."""

    bins: tuple[ConfidenceBin, ...]
    error: float  # the mean distance between confidence and share right, weighted by n ("expected calibration error")


class PredictedToken(NamedTuple):
    """A token of a list or a text, and what a network thought likeliest in its place."""

    token: str
    nats: float  # its surprise
    likeliest: str
    confidence: float  # the probability of the likeliest


class SurprisingPart(NamedTuple):
    """An item of a list, or a stretch of a text, token by token."""

    before: str  # of a text, what stands before it, as far as it is told
    n_before: int  # tokens before it that the network has read
    nats: float  # a token, in the mean over all of its tokens
    n_tokens: int  # that it has
    tokens: tuple[PredictedToken, ...]  # the first of them, where there are very many


class TokenConfusion(NamedTuple):
    """How often one token was the likeliest where another was true."""

    truth: str
    likeliest: str
    n: int
    of: int  # times that the true one stands there at all


class TokenMistakes(NamedTuple):
    """What a network of a list or a text gets wrong on dev, and whether it is as often right as it says."""

    run: str
    network: str
    source: str
    kind: str  # list or text
    n_tokens: int  # of dev that all of this is about
    n_side: int  # that dev has
    n_read_at_once: int  # items, or windows of a text
    nats: float  # in the mean over the tokens
    share_right: float  # of the tokens, those that were the likeliest
    parts: tuple[SurprisingPart, ...]  # the most surprising first
    confusions: tuple[TokenConfusion, ...]  # the most frequent first
    calibration: Calibration  # of the likeliest token


class Gain(NamedTuple):
    """What a model earns over another on the same examples of a side, with its 95 % interval."""

    side: str
    mean: float  # in nats, or in the metric of the ladder's measure
    low: float
    high: float
    n: int  # items, windows, rows or images that were compared one by one

    @property
    def verdict(self) -> str:
        """ahead, behind, or level where the interval holds 0."""
        return "ahead" if self.low > 0 else "behind" if self.high < 0 else "level"


class Cutoff(NamedTuple):
    """Of two classes, from which probability on the rare one is said, chosen on dev; and what is found by it."""

    rare: str
    at: float
    dev: Confusion  # the frequent class first
    test: Confusion | None


class MetricInterval(NamedTuple):
    """Where a metric of other rows like those of a side lies, at 95 %."""

    side: str
    name: str
    low: float
    high: float


class ModelMetrics(NamedTuple):
    """What one model reached by every metric."""

    name: str
    metrics: Mapping[str, float]  # by name
    intervals: tuple[MetricInterval, ...] = ()  # of numbers


class CrossValidation(NamedTuple):
    """All rows in parts, each part answered by models that learned from the others: no row is seen before it is asked.

    The networks are made as the kept one is: the same plan, up to the step whose weights were kept.
    """

    parts: int  # that the rows were divided into
    n_done: int  # parts that were answered; fewer where the time was over
    n_rows: int  # of these
    steps: int  # of each network
    models: tuple[ModelMetrics, ...]  # the network first, then the simple ones, the best first
    gain: Gain  # of the network over the best simple model
    over_trees: Gain | None = None  # and over gradient boosting


class Importance(NamedTuple):
    """What a network loses where a column is shuffled among the rows, in the metric, with its 95 % interval."""

    column: str
    fall: float
    low: float
    high: float
    n_rows: int


class AnsweredExample(NamedTuple):
    """One example: what it is, what is true of it, what was answered."""

    what: str  # "row 17", an image's file or number, a source
    truth: str
    answer: str
    probability: float | None  # of the answer; None: there is none
    is_right: bool
    pixels: tuple[tuple[int, ...], ...] = ()  # of a gray image, 0 to 255; () where it is none or large
    answer_pixels: tuple[tuple[int, ...], ...] = ()  # of a reconstruction


class LatentPoint(NamedTuple):
    """Where an example went in the narrow place of an autoencoder, on its first two principal axes."""

    x: float
    y: float
    label: str


class Answers(NamedTuple):
    """The kept network on dev, and once on test; where nothing was held out, on train."""

    n: int  # examples of dev
    metrics: Mapping[str, float]  # on dev, by name: accuracy, log loss; R², MAE; exact match, tokens right
    test_metrics: Mapping[str, float]  # empty where there is no test side
    confusion: Confusion | None = None
    calibration: Calibration | None = None
    examples: tuple[AnsweredExample, ...] = ()  # a few, wrong ones first
    points: tuple[tuple[float, float], ...] = ()  # of a regression: truth and answer
    latent: tuple[LatentPoint, ...] = ()
    n_unknown: int = 0  # cells of dev and test with a category that train does not have
    intervals: tuple[MetricInterval, ...] = ()  # of a regression
    over_majority: tuple[Gain, ...] = ()  # of accuracy, where one class has most of train
    cutoff: Cutoff | None = None  # the same, of two classes
    simple: Mapping[str, tuple[ModelMetrics, ...]] = MappingProxyType({})  # of each side, the simple models
    importances: tuple[Importance, ...] = ()  # of the columns of a table, the largest first
    importances_on: str = ""  # the rows they were measured on: dev, cross-validation, or train
    side: str = "dev"  # that all of this but the numbers on test is about

    @property
    def says_one_thing(self) -> bool:
        """Whether all answers on dev are the same, where not all truths are."""
        if self.confusion is not None:
            rows, columns = self.confusion.counts, list(zip(*self.confusion.counts, strict=True))
            return sum(map(any, rows)) > 1 and sum(map(any, columns)) == 1
        # A few of many would tell nothing of the others.
        pairs = self.points if len(self.points) == self.n else ()
        return len({truth for truth, _ in pairs}) > 1 and len({answer for _, answer in pairs}) == 1


class Prediction(NamedTuple):
    """What a network says about one new example."""

    what: str
    answer: str
    probability: float | None
    ranked: tuple[tuple[str, float], ...] = ()  # the likeliest classes
    notes: tuple[Statement, ...] = ()
    value: float | None = None  # where the answer is a number: all of its digits


class Predictions(NamedTuple):
    """What a run's network says about new examples."""

    run: str
    network: str
    target: str
    task: str
    predictions: tuple[Prediction, ...]
    notes: tuple[Statement, ...] = ()


class SizeRung(NamedTuple):
    """One network, or one simple model, trained on so many examples."""

    name: str
    n_train: int
    metric: float  # on dev
    test_metric: float | None
    seconds: float
    parameters: int
    is_counted: bool


class SizeInterval(NamedTuple):
    """Where the mean over ever more trainings like these lies, at 95 %: on other examples, from other first weights."""

    name: str  # of the model
    n_train: int
    low: float
    high: float
    trainings: int


class SizeLadder(NamedTuple):
    """Networks at several sizes of the training side, on the same dev and test; each once for every seed."""

    source: str
    metric: str
    sizes: tuple[int, ...]
    rungs: tuple[SizeRung, ...]
    notes: tuple[Statement, ...] = ()
    intervals: tuple[SizeInterval, ...] = ()  # where there were several trainings


class Array(Protocol):
    """A tensor of torch or an array of NumPy."""

    def tolist(self) -> Any: ...


def as_matrix(values: Array) -> Matrix:
    """A tensor of two dimensions as plain numbers, for a record."""
    return tuple(map(tuple, values.tolist()))


class Attended(NamedTuple):
    """One kind of attention in a network: who asks, who is asked, and the weights of every head."""

    name: str  # "self-attention", or of which part
    askers: tuple[str, ...]  # tokens
    asked: tuple[str, ...]
    layers: tuple[tuple[Matrix, ...], ...]  # by layer and head; a row for each asker, which sums to one


class AttentionMaps(NamedTuple):
    """What every head of a network attends to while it reads one input."""

    source: str
    parts: tuple[Attended, ...]


class AttentionGraph(NamedTuple):
    """What is drawn of attention as a graph: which layers and heads, counted from 0, and from which weight on."""

    maps: AttentionMaps
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    least: float


class HeadEffect(NamedTuple):
    """What a network loses without one head of attention, and how widely that head looks."""

    layer: int  # both counted from 0
    head: int
    loss: float  # on dev without it, in nats
    rise: float  # of the loss, and its 95 % interval
    low: float
    high: float
    entropy: float  # of its weights in bits, in the mean over queries that could choose


class HeadStudy(NamedTuple):
    """Every head of a network switched off alone, how widely each looks, and how unlike any two are."""

    source: str
    loss: float  # with all heads
    n_tokens: int  # of dev that the losses are means of
    n_units: int  # items or windows, which are compared one by one
    unit: str
    even_entropy: float  # of weights that are all alike, in bits
    heads: tuple[HeadEffect, ...]  # layer by layer
    distances: Matrix  # Jensen–Shannon divergence in bits of the weights of any two heads, in the order of `heads`


class PatchPositions(NamedTuple):
    """How alike the learned positions of a vision transformer are: cosines, by patch and patch."""

    source: str
    grid: tuple[int, int]
    cosines: Matrix
    neighbours: float  # the mean cosine of patches that touch, above, below or beside
    others: float  # that of all other pairs


class PatchAttention(NamedTuple):
    """What the class token of a vision transformer attends to in one image."""

    source: str
    answer: str  # the class that the network says it is
    probability: float
    truth: str  # "" where it is not known
    pixels: Colours
    grid: tuple[int, int]
    layers: tuple[tuple[tuple[float, ...], ...], ...]  # by layer and head: the weight of the class token, then patches
    rollout: tuple[float, ...]  # through all layers: the class token's share, then that of each patch
