"""Simple models: the bar is what it says it is."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from threadpoolctl import threadpool_limits

from pellucid.data import PairsData, PixelsData, open_data
from pellucid.data.kinds import ReadOptions
from pellucid.data.prepare import Examples, image_sides, pair_sides, table_sides
from pellucid.data.prepare.table_examples import NumericColumn
from pellucid.data.readers.csv import read_csv
from pellucid.data.readers.sources import MemorySource
from pellucid.data.sets.house_numbers import load
from pellucid.decoding.novelty import edit_distances
from pellucid.models.examples.rows import one_hot_row
from pellucid.training.tasks import simple_models
from pellucid.training.tasks.baselines import TranslationMemory, pair_baselines
from pellucid.training.tasks.metrics import accuracy, log_loss, mean_squared_error, r_squared
from pellucid.training.tasks.simple_models import (
    _fit_components,
    _fit_logistic_regression,
    boosting_rounds,
    fit_simple_models,
    flatten_examples,
)


@pytest.fixture(scope="module")
def penguins():
    return table_sides(open_data("penguins"), "species")


@pytest.fixture(scope="module")
def digits():
    return image_sides(open_data("digits"))


def named(sides, **options):
    return {model.name: model for model, _ in fit_simple_models(sides, **options)}


def table_of(numbers, targets):
    """Rows that train, choose and test alike."""
    penguins = table_sides(open_data("penguins"), "body_mass_g")
    columns = tuple(NumericColumn(f"x{i}", 0.0, 1.0, has_gaps=False) for i in range(numbers.shape[1]))
    train = Examples(numbers, np.zeros((len(numbers), 0), dtype=np.int64), targets)
    preparation = replace(penguins.preparation, numeric=columns, categories=())
    return replace(penguins, train=train, dev=train, test=train, preparation=preparation)


def test_a_row_is_what_the_networks_read(penguins):
    sizes = penguins.preparation.category_sizes
    theirs = one_hot_row(torch.tensor(penguins.dev.numbers), torch.tensor(penguins.dev.codes), sizes)
    assert np.array_equal(flatten_examples(penguins.dev, sizes), theirs.numpy())


def test_classes_have_five_bars_each_with_probabilities(penguins):
    models = named(penguins)
    usual = ["majority class", "nearest centroid", "logistic regression", "k-nearest neighbours"]
    assert list(models) == [*usual, "gradient boosting"]
    for model in models.values():
        shares = model.answers(penguins.dev)
        assert shares.shape == (len(penguins.dev), 3)
        assert np.allclose(shares.sum(1), 1)
        assert shares.min() >= 0
    assert accuracy(models["logistic regression"].answers(penguins.dev), penguins.dev.targets) > 0.95


def test_the_majority_is_as_sure_as_train_allows(penguins):
    model = named(penguins)["majority class"]
    counts = np.bincount(penguins.train.targets)
    assert np.allclose(model.answers(penguins.dev)[0], (counts + 1) / (counts.sum() + 3))
    assert model.n_parameters == 3


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")  # a corner of the digits is always white
def test_the_nearest_centroid_is_scikit_learns(digits):
    model = named(digits)["nearest centroid"]
    rows = [one.numbers.reshape(len(one), -1).astype(np.float64) for one in (digits.train, digits.dev)]
    theirs = NearestCentroid().fit(rows[0], digits.train.targets).predict(rows[1])
    assert np.array_equal(model.answers(digits.dev).argmax(1), theirs)
    assert model.n_parameters == 10 * 64 + 1


def test_no_other_width_of_the_gaussians_is_likelier_for_a_row_that_was_left_out(penguins):
    rows, classes = flatten_examples(penguins.train, penguins.preparation.category_sizes), penguins.train.targets
    distances = np.empty((len(rows), 3))
    for row in range(len(rows)):
        others = np.arange(len(rows)) != row
        means = [rows[others & (classes == label)].mean(0) for label in range(3)]
        # Each row as it would be seen if it were new; the means of other classes stay.
        distances[row] = [((rows[row] - mean) ** 2).sum() for mean in means]
    shares = named(penguins)["nearest centroid"].answers(penguins.train)
    centroids = np.stack([rows[classes == label].mean(0) for label in range(3)])
    seen = ((rows[:, None] - centroids) ** 2).sum(-1)
    # The width that was chosen, from any row: log p(0) − log p(1) = precision · (d(1) − d(0)).
    apart = np.abs(seen[:, 1] - seen[:, 0]).argmin()
    precision = np.log(shares[apart, 0] / shares[apart, 1]) / (seen[apart, 1] - seen[apart, 0])

    def loss(factor):
        weights = np.exp(-factor * (distances - distances.min(1, keepdims=True)))
        return log_loss(weights / weights.sum(1, keepdims=True), classes)

    best = loss(precision)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert loss(factor * precision) > best


def test_of_noise_nobody_is_sure():
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (40, 9, 9), dtype=np.uint8)
    noise = PixelsData("noise", pixels, np.arange(40) % 2, ("a", "b"), because="", fingerprint="")
    sides = image_sides(noise)
    shares = named(sides)["nearest centroid"].answers(sides.dev)
    assert shares.max() < 0.75


def test_logistic_regression_is_scikit_learns(digits):
    model = named(digits)["logistic regression"]
    rows = [one.numbers.reshape(len(one), -1) for one in (digits.train, digits.dev)]
    with threadpool_limits(1):  # the same sums in the same order
        theirs = LogisticRegression(max_iter=200).fit(rows[0], digits.train.targets).predict_proba(rows[1])
    assert np.allclose(model.answers(digits.dev), theirs)
    assert model.n_parameters == 65 * 10


def test_large_images_are_thinned_and_the_name_says_so():
    sides = image_sides(load(n=300))
    model = named(sides)["logistic regression on 100 components"]
    assert model.n_parameters == 1024 * 101 + 101 * 10
    assert model.answers(sides.dev).shape == (len(sides.dev), 10)


def test_many_rows_are_thinned_and_the_name_says_so():
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(30_000, 2)).astype(np.float32)
    sides = replace(
        table_of(numbers, (numbers[:, 0] > 0).astype(np.int64)), task="classification", classes=("no", "yes")
    )
    model = named(sides)["logistic regression of 15,000 rows"]
    assert accuracy(model.answers(sides.train), sides.train.targets) > 0.99


def test_a_class_that_train_lacks_is_never_answered(penguins):
    kept = np.flatnonzero(penguins.train.targets != 1)
    sides = replace(penguins, train=penguins.train.rows(kept))
    for model, _ in fit_simple_models(sides):
        shares = model.answers(penguins.dev)
        assert shares.shape == (len(penguins.dev), 3)
        assert np.isfinite(log_loss(shares, penguins.dev.targets))
        assert not (shares.argmax(1) == 1).any()


def test_the_nearest_neighbours_are_scikit_learns(digits):
    model = named(digits)["k-nearest neighbours"]
    rows = [one.numbers.reshape(len(one), -1) for one in (digits.train, digits.dev)]
    shares, truths = model.answers(digits.dev), np.eye(10)[digits.train.targets]
    found = []
    for k in (1, 2, 3, 5, 8, 12):
        # What is frequent on train counts as one more neighbour.
        theirs = KNeighborsClassifier(k).fit(rows[0], digits.train.targets).predict_proba(rows[1])
        found.append(np.allclose(shares, (k * theirs + truths.mean(0)) / (k + 1)))
    assert sum(found) == 1
    assert model.n_parameters == len(digits.train) * 65


def test_of_noise_many_neighbours_are_asked_and_of_copies_one():
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(400, 2)).astype(np.float32)
    noise = table_of(numbers, draw.normal(size=400).astype(np.float32))
    spread = named(noise)["k-nearest neighbours"].answers(noise.train).std()
    assert spread < 0.25  # the mean of 60 numbers of deviation 1 has one of 0.13; of 12 it would be 0.29
    copied = table_of(numbers, numbers[:, 0])
    assert r_squared(named(copied)["k-nearest neighbours"].answers(copied.train), copied.train.targets) > 0.95


def test_trees_see_what_is_missing_and_categories_as_such():
    """A number that is missing is told from one that is the mean, and equal categories from those beside them."""
    draw = np.random.default_rng(0)
    amounts, towns, is_missing = draw.normal(size=900), draw.integers(0, 12, 900), draw.random(900) < 0.3
    lines = [
        f"{'' if gap else amount},t{town},{'ab'[gap ^ (town % 2)]}"
        for amount, town, gap in zip(amounts, towns, is_missing.astype(int), strict=True)
    ]
    content = "\n".join(["amount,town,y", *lines]).encode()
    sides = table_sides(read_csv(MemorySource("made.csv", content), ReadOptions(), ""), "y")
    models = named(sides)
    assert accuracy(models["gradient boosting"].answers(sides.dev), sides.dev.targets) > 0.97
    assert accuracy(models["logistic regression"].answers(sides.dev), sides.dev.targets) < 0.9


def test_classes_of_one_row_are_boosted_without_an_early_stop(penguins, monkeypatch):
    """As the states of vega's airports: one has a single airport, which cannot stand on both sides of a tenth."""
    monkeypatch.setattr(simple_models, "STOPS_EARLY", 100)
    targets = np.where(penguins.train.targets == 0, 1, penguins.train.targets)
    targets[0] = 0
    one_of_a_kind = replace(penguins, train=replace(penguins.train, targets=targets))
    assert "gradient boosting" in named(one_of_a_kind)


def test_what_takes_long_to_boost_has_fewer_columns_and_rounds_and_the_name_says_so(penguins, monkeypatch):
    assert named(penguins)["gradient boosting"].n_parameters > 0
    monkeypatch.setattr(simple_models, "BOOSTING_WORK", 2.5e8)
    numbers = np.random.default_rng(0).normal(size=(30, 6_000)).astype(np.float32)
    *_, boosting = named(table_of(numbers, numbers[:, 0]))
    # Of trees without a split: 30 rows are too few for one.
    assert boosting == "gradient boosting of 1,000 columns, 30 rounds"
    assert boosting_rounds(30, 1_000, n_trees=1) == 30


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_training_examples(digits, n):
    sides = digits.limited(n)
    for model, _ in fit_simple_models(sides):
        shares = model.answers(digits.dev)
        assert shares.shape == (len(digits.dev), 10)
        assert np.isfinite(shares).all()
        assert len(model.answers(digits.dev.rows(slice(0, 0)))) == 0


def test_numbers_have_four_bars():
    sides = table_sides(open_data("penguins"), "body_mass_g")
    models = named(sides)
    assert list(models) == ["mean predictor", "linear regression", "k-nearest neighbours", "gradient boosting"]
    assert np.allclose(models["mean predictor"].answers(sides.dev), 0, atol=1e-6)
    rows = [flatten_examples(one, sides.preparation.category_sizes) for one in (sides.train, sides.dev)]
    # The normal equations of centred rows, with a penalty of 1 on the square of each weight.
    mean = rows[0].mean(0, dtype=np.float64)
    centred, targets = rows[0] - mean, sides.train.targets.astype(np.float64)
    weights = np.linalg.solve(centred.T @ centred + np.eye(len(mean)), centred.T @ (targets - targets.mean()))
    ours = models["linear regression"].answers(sides.dev)
    assert np.allclose(ours, (rows[1] - mean) @ weights + targets.mean(), atol=1e-6)
    assert r_squared(ours, sides.dev.targets) > 0.5
    assert models["linear regression"].n_parameters == rows[0].shape[1] + 1


def test_a_reconstruction_is_held_against_the_mean_and_pca(digits):
    sides = replace(digits, task="reconstruction")
    models = named(sides, latent=8)
    assert list(models) == ["mean of train", "PCA with 8 components"]
    pca = models["PCA with 8 components"]
    rows = [one.numbers.reshape(len(one), -1) for one in (sides.train, sides.dev)]
    assert np.array_equal(flatten_examples(sides.dev, ()), rows[1])
    theirs = PCA(8).fit(rows[0])
    assert np.allclose(pca.answers(sides.dev), theirs.inverse_transform(theirs.transform(rows[1])), atol=1e-3)
    assert pca.n_parameters == 64 * 9
    assert r_squared(models["mean of train"].answers(sides.train), rows[0]) == pytest.approx(0, abs=1e-6)
    assert mean_squared_error(pca.answers(sides.dev), rows[1]) < 0.5 * mean_squared_error(
        models["mean of train"].answers(sides.dev), rows[1]
    )


def test_pca_keeps_no_more_than_there_is():
    sides = table_sides(open_data("moons"), "moon", task="reconstruction")
    model, _ = list(fit_simple_models(sides, latent=64))[-1]
    assert model.name == "PCA with 2 components"
    assert np.allclose(
        model.answers(sides.dev), flatten_examples(sides.dev, sides.preparation.category_sizes), atol=1e-5
    )


def test_pairs_have_four_bars():
    data = PairsData("pairs", [(f"{i}", "a" if i % 3 else "b") for i in range(100)], because="", fingerprint="")
    sides = pair_sides(data)
    copying, usual, _, _ = pair_baselines(sides)
    assert (copying.rung.name, usual.rung.name) == ("copying the source", "most frequent target")
    assert (copying.rung.metric, copying.rung.parameters) == (0.0, 0)
    for side, found in (("dev", usual.rung.metric), ("test", usual.with_test().test_metric)):
        targets = [target for _, target in sides.texts[side]]
        assert found == targets.count("a") / len(targets)
    assert usual.rung.test_metric is None  # read by with_test alone
    assert usual.with_test().test is None


@pytest.mark.parametrize("n_train", [1, 40, 300])
def test_a_translation_memory_finds_the_nearest_source(n_train):
    """Held against every source by the edit distance: no other is nearer than the one whose answer it gives."""
    draw = np.random.default_rng(n_train)
    sources = list(dict.fromkeys("".join(draw.choice(list("abcd"), draw.integers(3, 9))) for _ in range(n_train)))
    memory = TranslationMemory([(source, source.upper()) for source in sources], otherwise="none")
    for _ in range(30):
        known = sources[draw.integers(len(sources))]
        place = int(draw.integers(len(known) + 1))
        asked = known[:place] + "x" + known[place:]
        [answer] = memory.answers([asked])
        nearest = edit_distances([asked], sources).min()
        assert edit_distances([asked], [answer.lower()]).tolist() == [nearest] == [1]
    assert memory.answers(["xyz", sources[0], "xyz"]) == ["none", sources[0].upper(), "none"]
    assert memory.answers([]) == []


def test_what_a_source_became_most_often_is_remembered():
    memory = TranslationMemory([("ab", "x"), ("ab", "y"), ("ab", "y"), ("zz", "z")], otherwise="")
    assert memory.answers(["ab", "abb"]) == ["y", "y"]
    assert memory.n_stored == 6


def test_endings_tell_what_becomes_of_a_source():
    draw = np.random.default_rng(0)
    stems = ["".join(draw.choice(list("abcdefgh"), 5)) for _ in range(400)]
    pairs = [(stem + end, stem + becomes) for stem in stems for end, becomes in (("y", "ies"), ("x", "xes"))]
    sides = pair_sides(PairsData("plurals", pairs, because="", fingerprint=""))
    *_, endings = pair_baselines(sides)
    assert (endings.rung.name, endings.rung.metric) == ("longest known ending", 1.0)
    pairs = [(stem + end, label) for stem in stems for end, label in ("y1", "x2")]
    *_, endings = pair_baselines(pair_sides(PairsData("labels", pairs, because="", fingerprint="")))
    assert endings.with_test().test_metric == 1.0


def test_nothing_of_scikit_learns_warnings_is_heard(digits):
    # Two classes of one example each, and a regression that does not come to its end.
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        list(fit_simple_models(digits.limited(3)))
        list(fit_simple_models(digits))
    assert not heard


def test_components_of_many_features_span_what_the_exact_ones_do():
    draw = np.random.default_rng(0)
    # Five directions that matter, in 1,600 features.
    rows = draw.normal(size=(150, 5)) * (9, 7, 5, 3, 2) @ draw.normal(size=(5, 1_600))
    rows += 0.01 * draw.normal(size=rows.shape)
    ours = _fit_components(rows, 5)
    theirs = PCA(5, svd_solver="full").fit(rows)
    assert np.allclose(np.abs(ours.components_ @ theirs.components_.T), np.eye(5), atol=1e-3)
    assert np.array_equal(_fit_components(rows, 5).components_, ours.components_)


def test_logistic_regression_on_components_converges():
    sides = image_sides(load(n=300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _fit_logistic_regression(sides)


def test_edit_distances_are_those_of_the_table_by_hand():
    def slow(answer, target):
        before = list(range(len(target) + 1))
        for i, one in enumerate(answer):
            row = [i + 1]
            for j, other in enumerate(target):
                row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + (one != other)))
            before = row
        return before[-1]

    draw = np.random.default_rng(0)
    texts = [["".join(draw.choice(list("abc"), draw.integers(0, 8))) for _ in range(200)] for _ in range(2)]
    assert edit_distances(*texts).tolist() == [slow(*pair) for pair in zip(*texts, strict=True)]
    assert edit_distances([], []).tolist() == []
    assert edit_distances([""], [""]).tolist() == [0]
