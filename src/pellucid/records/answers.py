"""What a network answered about rows, images and pairs, beside what is true."""

from collections.abc import Mapping
from typing import NamedTuple


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
    """The kept network on dev, and once on test."""

    n: int  # examples of dev
    metrics: Mapping[str, float]  # on dev, by name: accuracy, log loss; R², MAE; exact match, tokens right
    test_metrics: Mapping[str, float]  # empty where there is no test side
    confusion: Confusion | None = None
    calibration: Calibration | None = None
    examples: tuple[AnsweredExample, ...] = ()  # a few, wrong ones first
    points: tuple[tuple[float, float], ...] = ()  # of a regression: truth and answer
    latent: tuple[LatentPoint, ...] = ()
    n_unknown: int = 0  # cells of dev and test with a category that train does not have


class Prediction(NamedTuple):
    """What a network says about one new example."""

    what: str
    answer: str
    probability: float | None
    ranked: tuple[tuple[str, float], ...] = ()  # the likeliest classes
    notes: tuple[str, ...] = ()


class Predictions(NamedTuple):
    """What a run's network says about new examples."""

    run: str
    network: str
    target: str
    task: str
    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()


class SizeRung(NamedTuple):
    """One network, or one simple model, trained on so many examples."""

    name: str
    n_train: int
    metric: float  # on dev
    test_metric: float | None
    seconds: float
    parameters: int
    is_counted: bool


class SizeLadder(NamedTuple):
    """Networks at several sizes of the training side, on the same dev and test."""

    source: str
    metric: str
    sizes: tuple[int, ...]
    rungs: tuple[SizeRung, ...]
    notes: tuple[str, ...] = ()
