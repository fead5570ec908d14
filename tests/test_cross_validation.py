"""Small tables are cross-validated, columns shuffled, classes weighed: each held against a computation of its own."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.figures.drawings.importances import draw_importances
from pellucid.figures.tables import parts_text
from pellucid.figures.words.ladder import earned_words, trees_words, validation_words
from pellucid.figures.words.training import report_parts
from pellucid.models.catalogue import find_network
from pellucid.records import CrossValidation, Gain, Ladder, Measure, ModelMetrics, Rung, as_plain
from pellucid.runs import open_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.cross_validation import Budget
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.run import train_run
from pellucid.training.tasks import open_task
from pellucid.training.tasks.importances import column_places
from pellucid.training.tasks.simple_models import flatten_examples

N = 240


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Customers of four rows each; a number that follows from x, a rare class too, and two columns of noise."""
    draw = np.random.default_rng(4)
    x, noise, customer = draw.normal(size=N), draw.normal(size=N), np.repeat(np.arange(N // 4), 4)
    y = 2 * x + 0.3 * draw.normal(size=N)
    rare = np.where(x + 0.7 * draw.normal(size=N) > 1.6, "yes", "no")
    colours = draw.choice(["red", "green", "blue"], size=N)
    lines = [
        f"c{c},{a:.4f},{b:.4f},{colour},{t:.4f},{r}"
        for c, a, b, colour, t, r in zip(customer, x, noise, colours, y, rare, strict=True)
    ]
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text("\n".join(["customer,x,noise,colour,y,rare", *lines]))
    return str(path)


@pytest.fixture(scope="module")
def numbers(table):
    return DataOptions(table, target="y", leave_out="rare", strategy="group", group="customer")


@pytest.fixture(scope="module")
def report(numbers, tmp_path_factory):
    asked = TrainOptions("logistic", steps=150, folds=3, kind="table", learning_rate=0.05)
    return train_run(numbers, asked, tmp_path_factory.mktemp("run") / "validated", Callbacks())


def test_each_row_is_held_out_once_and_no_group_is_divided(numbers):
    task = open_task(numbers)
    customers = task.data.frame["customer"].to_numpy()
    held = []
    for fold in task.folds(3):
        train, dev = fold.sides.places["train"], fold.sides.places["dev"]
        assert not set(customers[train]) & set(customers[dev])
        assert len(train) + len(dev) == N
        assert fold.sides.preparation.numeric[0].mean == pytest.approx(task.data.frame["x"].to_numpy()[train].mean())
        held += dev.tolist()
    assert sorted(held) == list(range(N))


def test_every_class_is_dealt_out_evenly(table):
    task = open_task(DataOptions(table, target="rare", leave_out="y,customer", strategy="hash"))
    n_rare = [int(fold.sides.dev.targets.sum()) for fold in task.folds(4)]
    assert max(n_rare) - min(n_rare) <= 1


def test_what_is_cross_validated_is_what_a_loop_finds(numbers, report):
    found = report.ladder.cross_validation
    said, truth = [], []
    for fold in open_task(numbers).folds(3):
        sides, sizes = fold.sides, fold.sides.preparation.category_sizes
        rows = flatten_examples(sides.train, sizes)
        matrix = np.c_[rows, np.ones(len(rows))].astype(float)
        penalty = np.diag([1.0] * rows.shape[1] + [0.0])
        weights = np.linalg.solve(matrix.T @ matrix + penalty, matrix.T @ sides.train.targets)
        answers = np.c_[flatten_examples(sides.dev, sizes), np.ones(len(sides.dev))] @ weights
        said += sides.preparation.in_units(answers).tolist()
        truth += sides.preparation.in_units(sides.dev.targets).tolist()
    linear = next(model for model in found.models if model.name == "linear regression")
    assert linear.metrics["R²"] == pytest.approx(r2_score(truth, said), abs=1e-3)
    assert (found.n_rows, found.n_done, found.steps) == (N, 3, report.ending.best_step)
    assert found.models[0].name == "logistic"
    assert found.models[0].metrics["R²"] > 0.8
    assert found.gain.n == N


def test_the_report_says_so_and_the_record_comes_back(report):
    text = parts_text(report_parts(report))
    assert "Cross-validated over 3 parts: all 240 rows" in text
    assert "in cross-validation." in earned_words(report.ladder)
    assert as_plain(open_run(report.folder).report().ladder) == as_plain(report.ladder)
    assert "--folds 3" in " ".join(report.command)


def test_the_column_that_tells_the_target_is_needed_and_noise_is_not(report):
    importances = {one.column: one for one in report.answers.importances}
    assert report.answers.importances[0].column == "x"
    assert importances["x"].low > 0.5
    assert importances["noise"].low <= 0 <= importances["noise"].high or abs(importances["noise"].fall) < 0.01
    assert importances["x"].n_rows == N
    assert "x" in draw_importances(report).svg
    with pytest.raises(PellucidError, match="was not measured"):
        draw_importances(replace(report, answers=report.answers._replace(importances=())))


def test_the_simple_models_have_the_metrics_of_the_network(table, tmp_path):
    data = DataOptions(table, target="rare", leave_out="y,customer", strategy="hash")
    report = train_run(data, TrainOptions("logistic", steps=20, kind="table"), tmp_path / "r", Callbacks())
    assert report.ladder.cross_validation is None
    sides = open_task(data).sides
    read = [flatten_examples(side, sides.preparation.category_sizes) for side in (sides.train, sides.test)]
    chances = LogisticRegression(max_iter=200).fit(read[0], sides.train.targets).predict_proba(read[1])[:, 1]
    simple = {model.name: model for model in report.answers.simple["test"]}["logistic regression"]
    assert simple.metrics["AUC"] == pytest.approx(roc_auc_score(sides.test.targets, chances))
    text = parts_text(report_parts(report))
    assert "balanced accuracy" in text.split("on test")[1]
    assert report.answers.importances_on == "dev"


def test_balanced_classes_weigh_as_torchs_do(table):
    task = open_task(DataOptions(table, target="rare", leave_out="y,customer", strategy="hash"))
    card = find_network("logistic", "table")
    config, plan = choose_plan(card, task, TrainOptions("logistic", steps=5, kind="table", class_weights="balanced"))
    model = task.build_network(card, config, plan)
    batch = task.make_batches(plan, is_fair=False).batch(1)
    with torch.no_grad():
        model.head.weight.normal_(generator=torch.Generator().manual_seed(0))
        counts = torch.from_numpy(np.bincount(task.sides.train.targets))
        theirs = torch.nn.CrossEntropyLoss(weight=counts.sum() / (2.0 * counts))(
            model(batch.numbers, batch.codes), batch.targets
        )
        assert task.loss_function(plan)(model, batch).item() == pytest.approx(theirs.item(), rel=1e-5)
        usual = task.loss_function(plan._replace(class_weights="none"))(model, batch).item()
    assert usual != pytest.approx(theirs.item(), rel=1e-2)
    assert task.evaluate_for(model, "dev", plan).loss != pytest.approx(task.evaluate(model, "dev").loss, rel=1e-3)


def test_what_cannot_be_weighed_or_folded_is_refused(numbers, table):
    card, task = find_network("mlp", "table"), open_task(numbers)
    with pytest.raises(PellucidError, match="no classes to weigh"):
        choose_plan(card, task, TrainOptions("mlp", steps=5, kind="table", class_weights="balanced"))
    in_time = open_task(replace(numbers, strategy="time", group="", order="noise"))
    assert (in_time.usual_folds, task.usual_folds) == (0, 5)
    with pytest.raises(PellucidError, match="divided by time"):
        choose_plan(card, in_time, TrainOptions("mlp", steps=5, kind="table", folds=3))
    _, plan = choose_plan(card, task, TrainOptions("mlp", steps=5, kind="table"))
    assert plan.folds == 0  # with a number of steps, only where it is asked for


def test_parts_follow_from_the_time():
    now = time.monotonic()
    assert Budget().parts_within(5) == 5
    assert [Budget(now + 100, each).parts_within(5) for each in (15, 30, 60)] == [5, 3, 0]


def test_the_verdict_is_that_of_all_rows():
    network = Rung("tabm", False, 9, 0.1, 0.2, 0.2, math.nan, 9.0, 1e4, metric=0.9, test_metric=0.8)
    network = network._replace(gains=(Gain("dev", 0.1, 0.02, 0.18, 30), Gain("test", -0.1, -0.2, -0.01, 30)))
    trees = network._replace(name="gradient boosting", is_counted=True, metric=0.8, test_metric=0.9)
    models = tuple(ModelMetrics(name, {"accuracy": share}) for name, share in (("tabm", 0.85), ("centroid", 0.8)))
    gain = Gain("cross-validation", 0.05, 0.01, 0.09, 300)
    behind = Gain("cross-validation", -0.05, -0.09, -0.01, 300)
    found = CrossValidation(5, 4, 300, 70, models, gain, behind)
    ladder = Ladder("x.csv", (network, trees), (), Measure(metric="accuracy"), found)
    assert earned_words(ladder).startswith("The tabm earns 5.00 points of accuracy over the best simple model (cross-")
    assert "No gain" in earned_words(ladder._replace(cross_validation=None))
    level = found._replace(gain=Gain("cross-validation", 0.01, -0.02, 0.04, 300))
    assert "No gain of the tabm" in earned_words(ladder._replace(cross_validation=level))
    assert "between 1.00 points and 9.00 points behind in cross-validation" in trees_words(ladder)
    assert not trees_words(ladder._replace(cross_validation=found._replace(over_trees=gain)))
    assert "4 of 5 parts, for the time was over" in validation_words(found)


def test_a_date_is_shuffled_as_a_whole(tmp_path):
    days = [f"2024-{month:02d}-{day:02d},{month}.5,{month * day}" for month in range(1, 13) for day in range(1, 28)]
    (tmp_path / "days.csv").write_text("\n".join(["day,size,cost", *days]))
    task = open_task(DataOptions(str(tmp_path / "days.csv"), target="cost", strategy="hash"))
    places = column_places(task.sides.preparation)
    assert set(places) == {"day", "size"}
    assert len(places["day"][0]) > 2
