"""Simple models for rows and images: what people would use where no network is needed, made by scikit-learn where it
has it.

Of classes the majority, the nearest centroid, logistic regression and k-nearest neighbours; of numbers the mean, linear
regression and k-nearest neighbours; of tables gradient boosting besides. Each is fitted within seconds: what is too
much for that is thinned first, and the name says so.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.prepare import Examples, ExampleSides, TablePreparation
from pellucid.records import TREES

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

Floats = NDArray[Any]
Reader = Callable[[Examples], Floats]  # examples -> (n, features)

MOST_ROWS = 20_000  # that logistic regression is fitted on, and neighbours are looked for among, evenly from all
MOST_FEATURES = 200  # beyond them both read principal components
COMPONENTS = 100
MOST_EXACT = 1_500  # features whose principal components are computed exactly
NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20, 35, 60)  # of which the best k is chosen
LEFT_OUT = 1_000  # rows of train that k is chosen by
MOST_BOOSTED_ROWS = 100_000
MOST_CODES = 255  # of a category that trees split by its values; beyond them, by the order of its codes
MOST_BOOSTED_COLUMNS = 1_000
ROUNDS, FEWEST_ROUNDS = 300, 20  # of boosting
BOOSTING_WORK = 1.5e9  # cells of histograms, filled or searched: a few seconds
STOPS_EARLY = 2_000  # rows from which on a tenth of train says when boosting is enough; with fewer it makes
USUAL_ROUNDS = 100


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
    ['majority class', 'nearest centroid', 'logistic regression', 'k-nearest neighbours', 'gradient boosting']
    """
    # Loaded before the clock runs: seconds are for fitting.
    import sklearn.decomposition
    import sklearn.ensemble
    import sklearn.linear_model
    import sklearn.neighbors  # noqa: F401

    fits: dict[str, list[Callable[[], FittedModel]]] = {
        "classification": [
            lambda: _fit_majority(sides),
            lambda: _fit_nearest_centroid(sides),
            lambda: _fit_logistic_regression(sides),
            lambda: _fit_nearest_neighbours(sides),
        ],
        "regression": [
            lambda: _fit_mean(sides),
            lambda: _fit_linear_regression(sides),
            lambda: _fit_nearest_neighbours(sides),
        ],
        "reconstruction": [lambda: _fit_mean_row(sides), lambda: _fit_principal_components(sides, latent)],
    }
    if sides.task != "reconstruction" and isinstance(sides.preparation, TablePreparation):
        fits[sides.task].append(lambda: _fit_gradient_boosting(sides))
    for fit in fits[sides.task]:
        began = time.perf_counter()
        with warnings.catch_warnings(), _one_thread():
            # Fewer classes or rows than a method likes are no news to the user; the loss says how good it is.
            warnings.simplefilter("ignore")
            fitted = fit()
        yield fitted._replace(answers=_with_one_thread(fitted.answers)), time.perf_counter() - began


def _one_thread() -> AbstractContextManager[object]:
    """Inside, simple models have one thread: on a machine that is busy, two spend their time waiting.

    There, boosting 3,400 rows took 13 s with two threads and 0.4 s with one, and logistic regression of 13,700 rows
    took 83 s and 0.4 s.
    """
    from threadpoolctl import threadpool_limits

    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited


def _with_one_thread(answers: Reader) -> Reader:
    def answer(examples: Examples) -> Floats:
        with _one_thread():
            return answers(examples)

    return answer


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

    some = _thinned(sides.train, MOST_ROWS)
    there = np.unique(some.targets)
    read, rows, n_parameters, of_what = _few_features(sides, some)
    name = f"logistic regression{of_what}"
    if len(there) < 2:
        return _fit_majority(sides)._replace(name=name)  # one class alone has no boundary to find
    model = LogisticRegression(max_iter=200).fit(rows, some.targets)

    def answers(examples: Examples) -> Floats:
        probabilities = np.zeros((len(examples), len(sides.classes)))
        if len(examples):
            probabilities[:, there] = model.predict_proba(read(examples))
        return probabilities

    return FittedModel(name, n_parameters + model.coef_.size + model.intercept_.size, answers)


def _few_features(sides: ExampleSides, some: Examples) -> tuple[Reader, Floats, int, str]:
    """How examples are read, rows of train so read, the numbers kept for it, and what a model's name says of both.

    Of many features only the principal components are read.
    """
    read, n_kept, of_what = _reader(sides), 0, ""
    rows = read(some)
    if rows.shape[1] > MOST_FEATURES and len(rows) > COMPONENTS:
        n_kept, of_what = rows.shape[1] * (COMPONENTS + 1), f" on {COMPONENTS} components"
        read = _component_reader(read, rows)
        rows = read(some)
    if len(some) < len(sides.train):
        of_what += f" of {len(some):,} rows"
    return read, rows, n_kept, of_what


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


def _fit_nearest_neighbours(sides: ExampleSides) -> FittedModel:
    """The mean target of the k nearest rows of train, k chosen by rows of train that are left out one by one.

    Of classes, what is frequent on train counts as one more neighbour: no class is impossible.
    """
    from sklearn.neighbors import NearestNeighbors

    some = _thinned(sides.train, MOST_ROWS)
    read, rows, n_kept, of_what = _few_features(sides, some)
    name = f"k-nearest neighbours{of_what}"
    is_classes = sides.task == "classification"
    truths = np.eye(len(sides.classes))[some.targets] if is_classes else some.targets[:, None].astype(np.float64)
    search = NearestNeighbors(algorithm="brute").fit(rows)

    def mean_of(nearest: NDArray[np.int64]) -> Floats:
        if is_classes:
            found: Floats = (truths[nearest].sum(axis=1) + truths.mean(axis=0)) / (nearest.shape[1] + 1)
        else:
            found = truths[nearest].mean(axis=1)
        return found

    left_out = np.arange(0, len(rows), -(-len(rows) // LEFT_OUT))
    tried = [k for k in NEIGHBOURS if k < len(rows)] or [1]
    errors = {}
    if len(rows) > 1:
        nearest = search.kneighbors(rows[left_out], min(tried[-1] + 1, len(rows)), return_distance=False)
        # A row is its own nearest one, unless another is equal to it: then any of them is left out, one for each.
        is_itself = nearest == left_out[:, None]
        is_itself[~is_itself.any(axis=1), -1] = True
        nearest = nearest[~is_itself].reshape(len(left_out), -1)
        errors = {k: float(((mean_of(nearest[:, :k]) - truths[left_out]) ** 2).mean()) for k in tried}
    k = min(errors, key=lambda k: errors[k]) if errors else 1

    def answers(examples: Examples) -> Floats:
        if not len(examples):
            return np.zeros((0, len(sides.classes)) if is_classes else 0)
        found = mean_of(search.kneighbors(read(examples), k, return_distance=False))
        return found if is_classes else found[:, 0]

    return FittedModel(name, n_kept + rows.size + len(rows), answers)


def _fit_gradient_boosting(sides: ExampleSides) -> FittedModel:
    """scikit-learn's histogram gradient boosting with its usual settings, which splits by categories and by gaps.

    Where train is large enough, a tenth of it says when to stop; what cannot be done in seconds has fewer rounds.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    assert isinstance(sides.preparation, TablePreparation)
    some, name = _thinned(sides.train, MOST_BOOSTED_ROWS), TREES
    read = _tree_reader(sides.preparation)
    rows, is_classes = read(some), sides.task == "classification"
    there, n_of_each = np.unique(some.targets, return_counts=True) if is_classes else (np.zeros(1, dtype=np.int64), [2])
    if is_classes and len(there) < 2:
        return _fit_majority(sides)._replace(name=name)  # one class alone has no boundary to find
    # The tenth is stratified: a class of one row cannot stand on both sides.
    is_stopped = len(rows) >= STOPS_EARLY and min(n_of_each) > 1 and len(rows) >= 10 * len(there)
    n_numbers = len(sides.preparation.numeric)
    is_category = np.array([False] * n_numbers + [size <= MOST_CODES for size in sides.preparation.category_sizes])
    if rows.shape[1] > MOST_BOOSTED_COLUMNS:
        # Of ten thousand columns 20 rounds took 20 seconds.
        kept = _most_related(rows, some.targets, MOST_BOOSTED_COLUMNS)
        name += f" of {len(kept):,} columns"
        read_all, rows, is_category = read, rows[:, kept], is_category[kept]

        def read(examples: Examples) -> Floats:
            return read_all(examples)[:, kept]

    rounds = boosting_rounds(len(rows), rows.shape[1], n_trees=len(there) if len(there) > 2 else 1)
    rounds = rounds if is_stopped else min(rounds, USUAL_ROUNDS)
    boosting = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    model = boosting(
        max_iter=rounds,
        learning_rate=0.1 * max(1.0, USUAL_ROUNDS / rounds) ** 0.5,
        early_stopping=is_stopped,
        categorical_features=is_category if is_category.any() else None,
        random_state=0,
    ).fit(rows, some.targets)
    if len(some) < len(sides.train):
        name += f" of {len(some):,} rows"
    if rounds < USUAL_ROUNDS:
        name += f", {rounds} rounds"

    def answers(examples: Examples) -> Floats:
        if not is_classes:
            found: Floats = model.predict(read(examples)) if len(examples) else np.zeros(0)
            return found
        probabilities = np.zeros((len(examples), len(sides.classes)))
        if len(examples):
            probabilities[:, there] = model.predict_proba(read(examples))
        return probabilities

    return FittedModel(name, _numbers_of_trees(model), answers)


def _most_related(rows: Floats, targets: Floats, most: int) -> NDArray[np.int64]:
    """The columns that are correlated most with the target, or with whether it is any one class, in their order.

    >>> rows = np.array([[0.0, 1.0, 5.0], [1.0, 1.5, 4.0], [2.0, 0.9, 6.0], [3.0, 1.2, 5.0]])
    >>> _most_related(rows, np.array([1.0, 2.0, 3.0, 4.0]), 2).tolist()
    [0, 2]
    """
    is_class = np.issubdtype(targets.dtype, np.integer)
    truths = np.eye(int(targets.max()) + 1)[targets] if is_class else targets[:, None].astype(np.float64)
    filled = np.nan_to_num(rows - np.nanmean(rows, axis=0)).astype(np.float64)
    truths = truths - truths.mean(axis=0)
    scale = np.linalg.norm(filled, axis=0)[:, None] * np.linalg.norm(truths, axis=0)
    related = np.abs(filled.T @ truths) / np.where(scale > 0, scale, np.inf)
    return np.sort(np.argsort(-related.max(axis=1), kind="stable")[:most])


def boosting_rounds(n_rows: int, n_columns: int, n_trees: int) -> int:
    """How many rounds of so many trees each there is time for.

    Every level of a tree fills a histogram of each column with all rows, and its 31 leaves search 256 bins of each.

    >>> boosting_rounds(500, 10, n_trees=1), boosting_rounds(40_000, 10, n_trees=1), boosting_rounds(16_000, 16, 26)
    (100, 300, 41)
    """
    work = n_trees * n_columns * (5 * n_rows + 31 * 256)
    return min(ROUNDS if n_rows >= STOPS_EARLY else USUAL_ROUNDS, max(FEWEST_ROUNDS, int(BOOSTING_WORK / work)))


def _numbers_of_trees(model: Any) -> int:
    """Of each split its column and its threshold, of each leaf its value."""
    trees = [tree for one_round in model._predictors for tree in one_round]
    return sum(len(tree.nodes) + int((tree.nodes["is_leaf"] == 0).sum()) for tree in trees)


def _tree_reader(preparation: TablePreparation) -> Reader:
    """Numbers with nan where they are missing, then the codes of categories: (n, columns)."""
    n_numbers = len(preparation.numeric)
    with_gaps = [place for place, column in enumerate(preparation.numeric) if column.has_gaps]

    def read(examples: Examples) -> Floats:
        numbers = examples.numbers[:, :n_numbers].copy()
        for gap, place in enumerate(with_gaps, start=n_numbers):
            numbers[examples.numbers[:, gap] > 0, place] = np.nan
        return np.concatenate([numbers, examples.codes.astype(np.float32)], axis=1)

    return read


def _thinned(examples: Examples, most: int) -> Examples:
    """At most so many examples, evenly from all."""
    return examples.rows(slice(None, None, -(-len(examples) // most)))


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
