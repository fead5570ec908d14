"""Baselines: what models that are no network reach on the same split, the bar that a network has to clear.

Sequences are counted; rows and images get the usual models, made by scikit-learn where it has one, and pairs two ways
to answer without reading. No setting was chosen for these data but the order of the best n-gram, by dev.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.prepare import Examples, ExampleSides, PairSides
from pellucid.data.prepare.tokens import Corpus, SequenceSides
from pellucid.models.counting.count_model import CountModel
from pellucid.models.counting.fitting import SIMPLEST_MODELS
from pellucid.models.counting.ngram import NGram
from pellucid.records import Rung
from pellucid.training.tasks.metrics import (
    Units,
    accuracy,
    class_units,
    exact_match,
    log_loss,
    number_units,
    r_squared,
    token_units,
)

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

Floats = NDArray[Any]
Reader = Callable[[Examples], Floats]  # examples -> (n, features)

MOST_ROWS = 20_000  # that logistic regression is fitted on, evenly from all
MOST_FEATURES = 200  # beyond them it reads principal components
COMPONENTS = 100
MOST_EXACT = 1_500  # features whose principal components are computed exactly


class SideResult(NamedTuple):
    """How a model did on a side."""

    loss: float  # nan where it has no probabilities, and so no loss
    metric: float | None = None  # None where the measure has none, or it is not worth its time here
    units: Units | None = None  # the same one by one


@dataclass(frozen=True)
class Baseline:
    """A model that is no network, fitted on train, and what it reached there and on dev."""

    rung: Rung
    evaluate: Callable[[str], SideResult]  # on a side, by its name
    has_test: bool

    def with_test(self) -> Rung:
        """The rung with what it reaches on test, which is read here and not before."""
        if not self.has_test:
            return self.rung
        result = self.evaluate("test")
        return self.rung._replace(test=None if math.isnan(result.loss) else result.loss, test_metric=result.metric)


def _make_baseline(
    name: str,
    n_parameters: int,
    evaluate: Callable[[str], SideResult],
    seconds: float,
    *,
    has_test: bool,
) -> Baseline:
    """evaluate: the model on a side, by its name; seconds: that it took to fit."""
    began = time.perf_counter()
    train, dev = evaluate("train"), evaluate("dev")
    rung = Rung(
        name=name,
        is_counted=True,
        parameters=n_parameters,
        train=train.loss,
        dev=dev.loss,
        test=None,
        bits_per_character=math.nan,
        seconds=seconds + time.perf_counter() - began,
        tokens_per_second=None,
        metric=dev.metric,
    )
    return Baseline(rung, evaluate, has_test)


def sequence_baselines(
    sides: SequenceSides, parts: Mapping[str, Corpus], context: int, best: Callable[[], NGram]
) -> Iterator[Baseline]:
    """Uniform guessing, unigrams, bigrams, and the best Kneser–Ney n-gram by dev, one as soon as it is counted.

    parts: of each side what models are measured on; context: tokens of a window of a text; best: fits that n-gram.
    """
    vocab_size = len(sides.vocabulary)
    for name in (*SIMPLEST_MODELS, ""):
        began = time.perf_counter()
        model: CountModel
        if name:
            model = SIMPLEST_MODELS[name](sides.train, vocab_size)
        else:
            model = counted = best()
            name = f"Kneser–Ney {counted.grams.order}-gram"
        seconds = time.perf_counter() - began

        def evaluate(side: str, model: CountModel = model) -> SideResult:
            losses = -model.of_each(parts[side].tokens)
            nats = float(losses.mean()) + 0.0 if len(losses) else math.nan
            return SideResult(nats, units=token_units(losses, parts[side], context))

        found = _make_baseline(name, model.n_stored, evaluate, seconds, has_test=sides.test.n_predicted > 0)
        rung = found.rung._replace(bits_per_character=bits_per_character(found.rung.dev, sides))
        yield dataclasses.replace(found, rung=rung)


def bits_per_character(nats: float, sides: SequenceSides) -> float:
    """Nats a token on dev as bits a character, where the boundary that closes an item counts as one."""
    return nats / math.log(2) / sides.characters_per_token(sides.dev)


def pair_baselines(sides: PairSides) -> Iterator[Baseline]:
    """Copying the source, and the target that is the most frequent on train. Neither has probabilities, nor a loss."""
    began = time.perf_counter()
    counts = Counter(target for _, target in sides.texts["train"])
    usual = min(counts, key=lambda target: (-counts[target], target))
    seconds = time.perf_counter() - began

    def matches(answer: Callable[[str], str]) -> Callable[[str], SideResult]:
        def evaluate(side: str) -> SideResult:
            if side == "train":
                return SideResult(math.nan)  # the ladder shows the metric on dev and test alone
            pairs = sides.texts[side]
            return SideResult(math.nan, exact_match([answer(source) for source, _ in pairs], [t for _, t in pairs]))

        return evaluate

    has_test = bool(sides.test)
    yield _make_baseline("copying the source", 0, matches(lambda source: source), 0.0, has_test=has_test)
    yield _make_baseline("most frequent target", len(usual), matches(lambda _: usual), seconds, has_test=has_test)


def example_baselines(sides: ExampleSides, train_part: Examples, latent: int = 2) -> Iterator[Baseline]:
    """The simple models for the task. train_part: to measure train on; latent: as many components as PCA keeps."""
    parts = {"train": train_part, "dev": sides.dev, "test": sides.test}
    for model, seconds in fit_simple_models(sides, latent):

        def evaluate(side: str, model: FittedModel = model) -> SideResult:
            answers, examples = model.answers(parts[side]), parts[side]
            if sides.task == "classification":
                units = class_units(answers, examples.targets)
                return SideResult(log_loss(answers, examples.targets), accuracy(answers, examples.targets), units)
            targets = examples.targets
            if sides.task == "reconstruction":
                targets = flatten_examples(examples, sides.preparation.category_sizes)
            units = number_units(answers, targets)
            return SideResult(float(np.mean((answers - targets) ** 2)), r_squared(answers, targets), units)

        yield _make_baseline(model.name, model.n_parameters, evaluate, seconds, has_test=len(sides.test) > 0)


class FittedModel(NamedTuple):
    """A simple model after it has seen train."""

    name: str
    n_parameters: int
    answers: Reader  # probabilities (n, K) of classes, standardised numbers (n,), or rows (n, features)


def fit_simple_models(sides: ExampleSides, latent: int = 2) -> Iterator[tuple[FittedModel, float]]:
    """The simple models for the task and the seconds each took, one as soon as it is fitted.

    >>> from pellucid.data import open_data
    >>> from pellucid.data.prepare import table_sides
    >>> [model.name for model, seconds in fit_simple_models(table_sides(open_data("penguins"), "species"))]
    ['majority class', 'nearest centroid', 'logistic regression']
    """
    # Loaded before the clock runs: seconds are for fitting.
    import sklearn.decomposition
    import sklearn.linear_model
    import sklearn.pipeline  # noqa: F401

    fits: dict[str, list[Callable[[], FittedModel]]] = {
        "classification": [
            lambda: _fit_majority(sides),
            lambda: _fit_nearest_centroid(sides),
            lambda: _fit_logistic_regression(sides),
        ],
        "regression": [lambda: _fit_mean(sides), lambda: _fit_linear_regression(sides)],
        "reconstruction": [lambda: _fit_mean_row(sides), lambda: _fit_principal_components(sides, latent)],
    }
    for fit in fits[sides.task]:
        began = time.perf_counter()
        with warnings.catch_warnings():
            # Fewer classes or rows than a method likes are no news to the user; the loss says how good it is.
            warnings.simplefilter("ignore")
            fitted = fit()
        yield fitted, time.perf_counter() - began


def flatten_examples(examples: Examples, category_sizes: tuple[int, ...]) -> Floats:
    """Each example as one row: its numbers, then every category one-hot. (n, features), float32.

    >>> one = Examples(np.array([[0.5]], dtype=np.float32), np.array([[2, 0]]), np.array([0]))
    >>> flatten_examples(one, (3, 2)).tolist()
    [[0.5, 0.0, 0.0, 1.0, 1.0, 0.0]]
    """
    hot = [np.eye(size, dtype=np.float32)[examples.codes[:, column]] for column, size in enumerate(category_sizes)]
    flat = examples.numbers.reshape(len(examples), math.prod(examples.numbers.shape[1:]))
    return np.concatenate([flat, *hot], axis=1)


def _reader(sides: ExampleSides) -> Reader:
    sizes = sides.preparation.category_sizes
    return lambda examples: flatten_examples(examples, sizes)


def _fit_majority(sides: ExampleSides) -> FittedModel:
    """The most frequent class, as probable as it is on train; each class is counted once more than it occurs."""
    counts = np.bincount(sides.train.targets, minlength=len(sides.classes)) + 1.0
    shares = counts / counts.sum()
    return FittedModel("majority class", len(shares), lambda examples: np.tile(shares, (len(examples), 1)))


def _fit_nearest_centroid(sides: ExampleSides) -> FittedModel:
    """The class whose mean is nearest. Probabilities: a Gaussian around each mean, all round and equally wide."""
    read = _reader(sides)
    rows, classes = read(sides.train), sides.train.targets
    # A class that train does not have is nowhere near.
    there = np.unique(classes)
    centroids = np.stack([rows[classes == label].mean(axis=0, dtype=np.float64) for label in there])
    precision = _likeliest_precision(_squared_distances(rows, centroids), np.searchsorted(there, classes))

    def answers(examples: Examples) -> Floats:
        probabilities = np.zeros((len(examples), len(sides.classes)))
        probabilities[:, there] = _softmin(precision * _squared_distances(read(examples), centroids))
        return probabilities

    return FittedModel("nearest centroid", centroids.size + 1, answers)


def _squared_distances(rows: Floats, centroids: Floats) -> Floats:
    """(n, features), (K, features) -> (n, K)."""
    squares = np.einsum("nf,nf->n", rows, rows, dtype=np.float64)[:, None] + (centroids**2).sum(axis=1)
    distances: Floats = np.maximum(squares - 2 * (rows @ centroids.T), 0)
    return distances


def _softmin(costs: Floats) -> Floats:
    """Probabilities in proportion to exp(−cost), along the last axis."""
    weights = np.exp(costs.min(axis=1, keepdims=True) - costs)
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _likeliest_precision(distances: Floats, classes: NDArray[np.int64]) -> float:
    """The factor of the squared distances under which train's classes are the likeliest.

    Each row is held against the mean of the *others* of its class, or few rows would look far surer than new ones are:
    leaving one of n out moves the mean so that its squared distance grows by (n / (n − 1))². The log loss is convex in
    the factor, and its slope is the mean of d(true class) − Σ p · d, so bisection finds the best one.
    """
    sizes = np.bincount(classes)[classes]
    has_others = sizes > 1
    scale = float(distances.mean()) or 1.0
    if not has_others.any():
        return 1 / scale
    distances, classes, sizes = distances[has_others].copy(), classes[has_others], sizes[has_others]
    own = (np.arange(len(classes)), classes)
    distances[own] *= (sizes / (sizes - 1)) ** 2
    low, high = -6.0, 6.0  # powers of ten, over the mean distance
    for _ in range(40):
        middle = (low + high) / 2
        shares = _softmin(10**middle / scale * distances)
        slope = float((distances[own] - (shares * distances).sum(axis=1)).mean())
        low, high = (low, middle) if slope > 0 else (middle, high)
    return float(10**low / scale)


def _fit_logistic_regression(sides: ExampleSides) -> FittedModel:
    """Logistic regression with scikit-learn's usual penalty; large data are thinned first, and the name says so."""
    from sklearn.linear_model import LogisticRegression

    read, n_parameters, name = _reader(sides), 0, "logistic regression"
    step = -(-len(sides.train) // MOST_ROWS)
    some = sides.train.rows(slice(None, None, step))
    rows, there = read(some), np.unique(some.targets)
    if rows.shape[1] > MOST_FEATURES and len(rows) > COMPONENTS:
        n_parameters = rows.shape[1] * (COMPONENTS + 1)
        name += f" on {COMPONENTS} components"
        read = _component_reader(read, rows)
        rows = read(some)
    if step > 1:
        name += f" of {len(some):,} rows"
    if len(there) < 2:
        return _fit_majority(sides)._replace(name=name)  # one class alone has no boundary to find
    model = LogisticRegression(max_iter=200).fit(rows, some.targets)

    def answers(examples: Examples) -> Floats:
        probabilities = np.zeros((len(examples), len(sides.classes)))
        if len(examples):
            probabilities[:, there] = model.predict_proba(read(examples))
        return probabilities

    return FittedModel(name, n_parameters + model.coef_.size + model.intercept_.size, answers)


def _component_reader(read: Reader, rows: Floats) -> Reader:
    """Examples as principal components of the rows, all in units of the first one's deviation.

    At the scale of a thousand pixels the usual penalty is nothing, and the fit ends at its last iteration: on images of
    28 scripts it had 3.9 nats on dev in place of 2.1, and took five times as long.
    """
    components = _fit_components(rows, COMPONENTS)
    unit = float(components.explained_variance_[0]) ** 0.5 or 1.0
    return lambda examples: components.transform(read(examples)) / unit


def _fit_components(rows: Floats, n_components: int) -> PCA:
    """The principal components of the rows. Of many features they are found by random projections.

    Exactly, those of 5,184 features (48 × 36 pixels in colour) took 65 s of a processor, and so 0.6 s.
    """
    from sklearn.decomposition import PCA

    solver = "covariance_eigh" if rows.shape[1] <= MOST_EXACT else "randomized"
    return PCA(n_components, svd_solver=solver, random_state=0).fit(rows)


def _fit_mean(sides: ExampleSides) -> FittedModel:
    mean = float(sides.train.targets.mean(dtype=np.float64))
    return FittedModel("mean predictor", 1, lambda examples: np.full(len(examples), mean))


def _fit_linear_regression(sides: ExampleSides) -> FittedModel:
    """Least squares with a small penalty, so that columns which say the same do no harm."""
    from sklearn.linear_model import Ridge

    read = _reader(sides)
    model = Ridge(alpha=1.0).fit(read(sides.train).astype(np.float64), sides.train.targets.astype(np.float64))

    def answers(examples: Examples) -> Floats:
        found: Floats = read(examples) @ model.coef_ + model.intercept_
        return found

    return FittedModel("linear regression", model.coef_.size + 1, answers)


def _fit_mean_row(sides: ExampleSides) -> FittedModel:
    mean = _reader(sides)(sides.train).mean(axis=0, dtype=np.float64)
    return FittedModel("mean of train", mean.size, lambda examples: np.tile(mean, (len(examples), 1)))


def _fit_principal_components(sides: ExampleSides, latent: int) -> FittedModel:
    """The best that a linear narrow place of this width can do on train."""
    read = _reader(sides)
    rows = read(sides.train)
    kept = min(latent, *rows.shape)
    model = _fit_components(rows, kept)

    def answers(examples: Examples) -> Floats:
        rows = read(examples) - model.mean_
        found: Floats = rows @ model.components_.T @ model.components_ + model.mean_
        return found

    return FittedModel(f"PCA with {kept} components", model.mean_.size + model.components_.size, answers)
