"""Sets too small to divide: all rows train, no figure of dev or test is made up, and XOR comes out right."""

import math
import re
import signal

import numpy as np
import pytest
from scipy.optimize import linprog, nnls
from sklearn.linear_model import LogisticRegression

from pellucid.api.run import TrainedRun
from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, Stopped
from pellucid.figures.drawings.calibration import draw_calibration
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.report_page import report_html
from pellucid.figures.tables import parts_text
from pellucid.figures.words.training import data_lines, report_parts
from pellucid.records import Ladder, Plan
from pellucid.runs import open_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.options import TrainOptions
from pellucid.training.run import ResumeOptions, resume_run, train_run
from pellucid.training.tasks.separability import measure_separability, nearest_hull_point

CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR = np.array([0, 1, 1, 0])
PLAN = Plan(9, 4, 0, "adamw", 0.01, 0, 0, 0.1, 1, 0, "linear", 1, 1, 1, 1, 1, 1)
pytestmark = pytest.mark.usefixtures("one_thread")


def train_xor(place, model="mlp", callbacks=None, **asked):
    options = TrainOptions(model, kind="table", **{"steps": 150, "threads": 1, "learning_rate": 0.02, **asked})
    return train_run(DataOptions("xor"), options, place, callbacks or Callbacks(page=report_html))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def learned(folder):
    return train_xor(folder / "learned")


def test_xor_is_trained_on_all_four_rows_and_comes_out_right(learned):
    assert dict(learned.data.items) == {"train": 4, "dev": 0, "test": 0}
    assert learned.answers.confusion.counts == ((2, 0), (0, 2))
    assert (learned.rung.metric, learned.answers.side, learned.answers.n) == (1.0, "train", 4)
    assert "4 different rows are too few to hold any out" in " ".join(data_lines(learned.data))


def test_no_figure_of_dev_or_test_is_made_up(learned):
    for rung in learned.ladder.rungs:
        assert math.isnan(rung.dev)
        assert (rung.test, rung.test_metric, rung.gains) == (None, None, ())
    assert all(math.isnan(one.dev) for one in learned.evaluations)
    assert learned.answers.intervals == learned.answers.importances == learned.answers.over_majority == ()
    assert learned.answers.calibration is None
    assert (learned.verdict.name, learned.verdict.reason) == ("not known", "nothing held out")
    said = [parts_text(report_parts(learned)), re.sub("<[^>]*>", " ", report_html(learned).partition("<body>")[2])]
    said += [" ".join([draw(it).title, *draw(it).caption, draw(it).svg]) for draw, it in
             ((draw_ladder, learned.ladder), (draw_loss_curves, learned))]  # fmt: skip
    for text in said:
        assert not re.search(r"\bdev\b|on test|nan", text)
    assert "train accuracy  train nats" in said[0]
    with pytest.raises(PellucidError, match="nothing was held out"):
        draw_calibration(learned)


def test_the_weights_of_the_lowest_loss_on_train_are_kept(learned):
    best = min(learned.evaluations, key=lambda one: one.train)
    assert learned.ending.best_step == best.step
    assert learned.rung.train == best.train


class StopAt(Callbacks):
    def __init__(self, step):
        super().__init__(page=report_html)
        self.step = step

    def on_step(self, step, timing):
        if step.step == self.step:
            self.stop.ask(signal.SIGTERM)


def test_a_run_that_was_stopped_ends_as_one_that_never_was_and_predicts(folder, learned):
    with pytest.raises(Stopped):
        train_xor(folder / "stopped", callbacks=StopAt(70))
    went_on = resume_run(folder / "stopped", ResumeOptions(), Callbacks(page=report_html))
    assert [tuple(map(str, one)) for one in went_on.evaluations] == [
        tuple(map(str, one)) for one in learned.evaluations
    ]
    for name in ("evaluations.jsonl", "metrics.jsonl", "model.safetensors"):
        assert (folder / "stopped" / name).read_bytes() == (folder / "learned" / name).read_bytes()
    again = open_run(folder / "stopped").report()
    assert again.ladder.measure == learned.ladder.measure
    assert isinstance(again.ladder, Ladder)
    (folder / "new.csv").write_text("x1,x2\n0,0\n0,1\n1,0\n1,1\n")
    answers = TrainedRun(folder / "stopped").predict(folder / "new.csv").predictions
    assert [one.answer for one in answers] == ["0", "1", "1", "0"]


def test_settings_with_a_decimal_point_are_settings_and_not_an_address():
    noisy = open_data("xor:n=40,noise=0.1")
    assert np.abs(noisy.frame["x1"].to_numpy() - np.arange(40) % 4 // 2).max() > 0.1
    assert len(open_data("moons:n=20,noise=0").frame) == 20
    for source, says in (
        ("xor:noise=loud", r"noise of xor is 'loud'. Give a number, as noise=0.1"),
        ("xor:noise=-0.1", "Give a number"),
        ("xor:noise=nan", "Give a number"),
        ("xor:n=4.5", r"n of xor is '4.5'. Give a whole number"),
        ("xor:nose=0.1", "noise"),
        ("xor:data.csv", "is an address"),
        ("s3:bucket=0.1", "is an address"),
    ):
        with pytest.raises(PellucidError, match=says):
            open_data(source)


# Logistic regression cannot, and that is proven.


def is_feasible(rows, classes, n_classes):
    """By linear programming: are there weights by which the right class of every row leads by 1?"""
    with_one = np.hstack([rows, np.ones((len(rows), 1))])
    leads = [
        -np.kron(np.eye(n_classes)[y] - np.eye(n_classes)[k], x)
        for x, y in zip(with_one, classes, strict=True)
        for k in range(n_classes)
        if k != y
    ]
    found = linprog(np.zeros(len(leads[0])), np.array(leads), -np.ones(len(leads)), bounds=(None, None))
    return found.status == 0


def test_logistic_regression_gets_at_most_three_of_four_and_the_report_says_why(folder):
    report = train_xor(folder / "logistic", "logistic", steps=40)
    found = report.separability
    assert (found.is_separable, found.n_rows) == (False, 4)
    assert found.n_right <= 3
    assert found.floor == pytest.approx(math.log(2), abs=1e-9)
    assert report.rung.train == pytest.approx(math.log(2), abs=1e-6)
    assert not is_feasible(CORNERS, XOR, 2)
    # All lines of a fine grid: none gets four right, and some get three.
    w1, w2, b = (part.reshape(-1, 1) for part in np.meshgrid(*[np.linspace(-1, 1, 21)] * 3))
    right = ((w1 * CORNERS[:, 0] + w2 * CORNERS[:, 1] + b > 0.01) == XOR).sum(1)
    assert right.max() == 3
    text = " ".join(parts_text(report_parts(report)).split())
    assert "gets at most 3 of 4 rows right, and its loss stays at 0.6931 or above" in text
    assert report.verdict.name == "under-fit"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_called_separable_is_what_linear_programming_calls_so(n_classes):
    draw = np.random.default_rng(n_classes)
    seen = []
    for n_rows in range(4, 24):
        rows, classes = draw.normal(size=(n_rows, 3)), np.arange(n_rows) % n_classes
        found = measure_separability(rows, classes, np.zeros((n_rows, n_classes)), PLAN, 9)
        assert found.is_separable == is_feasible(rows, classes, n_classes)
        if not found.is_separable:
            fitted = LogisticRegression(C=1e6, tol=1e-10, max_iter=5000).fit(rows, classes)
            loss = -np.log(fitted.predict_proba(rows)[np.arange(n_rows), classes]).mean()
            assert 0 < found.floor <= loss + 1e-9
        seen.append(found.is_separable)
    assert {True, False} == set(seen)  # 20 draws of each size; both happen


def test_weights_that_tell_every_row_right_prove_it_whatever_the_size():
    rows, classes = np.zeros((30_000, 400)), np.arange(30_000) % 2
    right = np.eye(2)[classes]
    assert measure_separability(rows, classes, right, PLAN, 9).is_separable is True
    assert measure_separability(rows, classes, -right, PLAN, 9).is_separable is None  # too large to search
    # Too large for a proof that there are none, and small enough to look for some.
    rows[:, :2] = 2 * right - 1
    some = slice(0, 9_000)
    assert measure_separability(rows[some], classes[some], -right[some], PLAN, 9).is_separable is True
    alone = measure_separability(rows[some], np.zeros(9_000, dtype=np.int64), -np.eye(2)[[0] * 9_000], PLAN, 9)
    assert alone.is_separable is True


def test_the_nearest_point_of_a_hull_is_that_of_least_squares_without_negative_shares():
    draw = np.random.default_rng(1)
    for n, width in ((3, 2), (12, 3), (40, 5), (6, 9)):
        points = draw.normal(size=(n, width)) + draw.uniform(0, 1.5)
        shares = nearest_hull_point(points)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
        weight = 1e4
        other = nnls(np.vstack([points.T, np.full(n, weight)]), np.append(np.zeros(width), weight))[0]
        assert np.allclose(shares @ points, other @ points, atol=1e-5)
