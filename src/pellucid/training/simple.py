"""What simple models reach on the same sides: the bar that a network for rows, images or pairs has to clear.

Each is the usual one, made by scikit-learn where it has one, and no setting was chosen for these data.
"""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.examples import Examples, ExampleSides, PairSides

Floats = NDArray[Any]
Reader = Callable[[Examples], Floats]  # examples -> (n, features)

MOST_ROWS = 20_000  # that logistic regression is fitted on, evenly from all
MOST_FEATURES = 200  # beyond them it reads principal components
COMPONENTS = 100


class Fitted(NamedTuple):
    """A simple model after it has seen train."""

    name: str
    n_parameters: int
    answers: Reader  # probabilities (n, K) of classes, standardised numbers (n,), or rows (n, features)


@dataclass(frozen=True)
class SimpleModel:
    """A simple model, and what it cost."""

    fitted: Fitted
    wanted: Reader  # what the answers should be: classes (n,), standardised numbers (n,) or rows (n, features)
    seconds: float

    @property
    def name(self) -> str:
        return self.fitted.name

    @property
    def n_parameters(self) -> int:
        return self.fitted.n_parameters

    def answers(self, examples: Examples) -> Floats:
        """Probabilities (n, K) of classes, standardised numbers (n,), or for a reconstruction rows (n, features)."""
        return self.fitted.answers(examples)


@dataclass(frozen=True)
class SimplePairModel:
    """A simple model for pairs: from the texts of sources to the texts of targets."""

    name: str
    n_parameters: int
    seconds: float
    answer: Callable[[str], str]

    def answers(self, sources: Sequence[str]) -> list[str]:
        return [self.answer(source) for source in sources]


def simple_models(sides: ExampleSides, latent: int = 2) -> Iterator[SimpleModel]:
    """The simple models for the task, one as soon as it is fitted. latent: how many components PCA may keep.

    >>> from pellucid.data import open_data
    >>> from pellucid.data.examples import table_sides
    >>> [model.name for model in simple_models(table_sides(open_data("penguins"), "species"))]
    ['majority class', 'nearest centroid', 'logistic regression']
    """
    # Loaded before the clock runs: seconds are for fitting.
    import sklearn.decomposition
    import sklearn.linear_model
    import sklearn.pipeline  # noqa: F401

    fits: dict[str, list[Callable[[], Fitted]]] = {
        "classification": [
            lambda: _majority(sides),
            lambda: _nearest_centroid(sides),
            lambda: _logistic_regression(sides),
        ],
        "regression": [lambda: _mean(sides), lambda: _linear_regression(sides)],
        "reconstruction": [lambda: _mean_row(sides), lambda: _principal_components(sides, latent)],
    }
    wanted: Reader = _reader(sides) if sides.task == "reconstruction" else lambda examples: examples.targets
    for fit in fits[sides.task]:
        began = time.perf_counter()
        with warnings.catch_warnings():
            # Fewer classes or rows than a method likes are no news to the user; the loss says how good it is.
            warnings.simplefilter("ignore")
            fitted = fit()
        yield SimpleModel(fitted, wanted, time.perf_counter() - began)


def simple_pair_models(sides: PairSides) -> Iterator[SimplePairModel]:
    """Copying the source, and the target that is the most frequent on train, whatever the source."""
    yield SimplePairModel("copying the source", 0, 0.0, lambda source: source)
    began = time.perf_counter()
    counts = Counter(target for _, target in sides.texts["train"])
    usual = min(counts, key=lambda target: (-counts[target], target))
    yield SimplePairModel("most frequent target", len(usual), time.perf_counter() - began, lambda source: usual)


def one_rows(examples: Examples, category_sizes: tuple[int, ...]) -> Floats:
    """Each example as one row: its numbers, then every category one-hot. (n, features), float32.

    >>> one = Examples(np.array([[0.5]], dtype=np.float32), np.array([[2, 0]]), np.array([0]))
    >>> one_rows(one, (3, 2)).tolist()
    [[0.5, 0.0, 0.0, 1.0, 1.0, 0.0]]
    """
    hot = [np.eye(size, dtype=np.float32)[examples.codes[:, column]] for column, size in enumerate(category_sizes)]
    flat = examples.numbers.reshape(len(examples), math.prod(examples.numbers.shape[1:]))
    return np.concatenate([flat, *hot], axis=1)


def _reader(sides: ExampleSides) -> Reader:
    sizes = sides.preparation.category_sizes
    return lambda examples: one_rows(examples, sizes)


def _majority(sides: ExampleSides) -> Fitted:
    """The most frequent class, as probable as it is on train; each class is counted once more than it occurs."""
    counts = np.bincount(sides.train.targets, minlength=len(sides.classes)) + 1.0
    shares = counts / counts.sum()
    return Fitted("majority class", len(shares), lambda examples: np.tile(shares, (len(examples), 1)))


def _nearest_centroid(sides: ExampleSides) -> Fitted:
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

    return Fitted("nearest centroid", centroids.size + 1, answers)


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


def _logistic_regression(sides: ExampleSides) -> Fitted:
    """Logistic regression with scikit-learn's usual penalty; large data are thinned first, and the name says so."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    read = _reader(sides)
    step = -(-len(sides.train) // MOST_ROWS)
    some = sides.train.rows(slice(None, None, step))
    rows, there = read(some), np.unique(some.targets)
    name, n_inputs, n_parameters = "logistic regression", rows.shape[1], 0
    regression = LogisticRegression(max_iter=200)
    model = regression
    if n_inputs > MOST_FEATURES and len(rows) > COMPONENTS:
        n_parameters, n_inputs = n_inputs * (COMPONENTS + 1), COMPONENTS
        name += f" on {COMPONENTS} components"
        model = make_pipeline(PCA(COMPONENTS, svd_solver="covariance_eigh"), regression)
    if step > 1:
        name += f" of {len(some):,} rows"
    if len(there) < 2:
        return _majority(sides)._replace(name=name)  # one class alone has no boundary to find
    model.fit(rows, some.targets)

    def answers(examples: Examples) -> Floats:
        probabilities = np.zeros((len(examples), len(sides.classes)))
        if len(examples):
            probabilities[:, there] = model.predict_proba(read(examples))
        return probabilities

    return Fitted(name, n_parameters + regression.coef_.size + regression.intercept_.size, answers)


def _mean(sides: ExampleSides) -> Fitted:
    mean = float(sides.train.targets.mean(dtype=np.float64))
    return Fitted("mean predictor", 1, lambda examples: np.full(len(examples), mean))


def _linear_regression(sides: ExampleSides) -> Fitted:
    """Least squares with a small penalty, so that columns which say the same do no harm."""
    from sklearn.linear_model import Ridge

    read = _reader(sides)
    model = Ridge(alpha=1.0).fit(read(sides.train).astype(np.float64), sides.train.targets.astype(np.float64))

    def answers(examples: Examples) -> Floats:
        found: Floats = read(examples) @ model.coef_ + model.intercept_
        return found

    return Fitted("linear regression", model.coef_.size + 1, answers)


def _mean_row(sides: ExampleSides) -> Fitted:
    mean = _reader(sides)(sides.train).mean(axis=0, dtype=np.float64)
    return Fitted("mean of train", mean.size, lambda examples: np.tile(mean, (len(examples), 1)))


def _principal_components(sides: ExampleSides, latent: int) -> Fitted:
    """The best that a linear narrow place of this width can do on train."""
    from sklearn.decomposition import PCA

    read = _reader(sides)
    rows = read(sides.train)
    kept = min(latent, *rows.shape)
    model = PCA(kept, svd_solver="covariance_eigh").fit(rows)

    def answers(examples: Examples) -> Floats:
        rows = read(examples) - model.mean_
        found: Floats = rows @ model.components_.T @ model.components_ + model.mean_
        return found

    return Fitted(f"PCA with {kept} components", model.mean_.size + model.components_.size, answers)
