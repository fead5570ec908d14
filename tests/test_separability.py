"""Separable classes: no minimum, told as such, and the growth of the weights held to theory and to scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from pellucid.data.options import DataOptions
from pellucid.figures.report_page import report_html
from pellucid.figures.tables import parts_text
from pellucid.figures.words.training import report_parts, separability_words, verdict_words
from pellucid.lessons.separable import SeparableKnobs, measure
from pellucid.records import Ending, Evaluation, Ladder, Measure, Plan
from pellucid.runs import open_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import load_network
from pellucid.training.optimizers import build_optimizer, learning_rate_factor
from pellucid.training.options import TrainOptions
from pellucid.training.run import train_run
from pellucid.training.stopping import judge_fit
from pellucid.training.tasks import open_task
from pellucid.training.tasks.separability import decayed_share

pytestmark = pytest.mark.usefixtures("one_thread")
PLAN = Plan(50, 4, 0, "adamw", 0.05, 0, 0.9, 0.3, 1, 5, "linear", 1, 1, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Sixty rows whose class is the sign of x + y, and none of them near the line."""
    draw = np.random.default_rng(3)
    rows = draw.normal(size=(400, 2))
    rows = rows[np.abs(rows.sum(1)) > 0.5][:60]
    lines = [f"{x:.4f},{y:.4f},{'ab'[int(x + y > 0)]}" for x, y in rows]
    path = tmp_path_factory.mktemp("rows") / "divided.csv"
    path.write_text("\n".join(["x,y,side", *lines]))
    return str(path)


@pytest.fixture(scope="module")
def runs(table, tmp_path_factory):
    """The same training, without weight decay, with some, and with so much that it decides."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for decay in (0.0, 0.01, 0.5):
        asked = TrainOptions("logistic", kind="table", steps=150, threads=1, folds=0, weight_decay=decay)
        found[decay] = train_run(DataOptions(table, target="side"), asked, folder / f"decay-{decay}", Callbacks())
    return found


def test_that_there_is_no_minimum_is_told_with_what_decides(runs):
    for decay, by in ((0.0, "steps"), (0.01, "steps"), (0.5, "weight decay")):
        found = runs[decay].separability
        assert (found.is_separable, found.floor, found.decided_by, found.strength) == (True, 0.0, by, decay)
        assert found.n_rows == runs[decay].data.items["train"]
        text = " ".join(parts_text(report_parts(runs[decay])).split())
        assert "has no minimum" in text
        assert ("alone: there is no weight decay" in text) == (decay == 0)
        assert (f"the weight decay of {decay:g}" in text) == (decay > 0)
        assert "has no minimum" in report_html(runs[decay])
        assert runs[decay].verdict.name != "under-fit"


def test_the_loss_of_twice_the_weights_is_that_of_torch(runs, table):
    report = runs[0.0]
    model, _ = load_network(open_run(report.folder))
    train = open_task(DataOptions(table, target="side"), None).sides.train
    with torch.no_grad():
        scores = model(torch.from_numpy(train.numbers), torch.from_numpy(train.codes)).double()
        targets = torch.from_numpy(train.targets)
        once, twice = (torch.nn.functional.cross_entropy(c * scores, targets).item() for c in (1, 2))
    assert report.separability.loss == pytest.approx(once, rel=1e-6)
    assert report.separability.doubled == pytest.approx(twice, rel=1e-6)
    assert report.separability.n_right == (scores.argmax(1) == targets).sum().item()


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_what_decay_takes_off_is_what_the_optimizer_does_without_a_gradient(optimizer):
    plan = PLAN._replace(optimizer=optimizer, weight_decay=0.1)
    model = torch.nn.Linear(3, 2)
    before = model.weight.detach().clone()
    made = build_optimizer(model, plan)
    for step in range(1, plan.steps + 1):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        made.step(learning_rate_factor(step, plan.steps, plan.warmup, plan.schedule))
    left = (model.weight / before).mean().item()
    # The momentum of SGD hands on at the end what it still holds back.
    assert 1 - decayed_share(plan, plan.steps) == pytest.approx(left, abs=1e-6 if optimizer == "adamw" else 0.03)


def test_at_a_hundred_percent_no_verdict_says_under_fit():
    curve = [Evaluation(0, 0.69, 0.69), Evaluation(50, 0.2, 0.2, 1.0), Evaluation(100, 0.1, 0.1, 1.0)]
    ending, ladder = Ending("budget", 100, 100), Ladder("rows", (), measure=Measure(metric="accuracy"))
    for behind in (None, 0.01):  # the loss of a simple model that is surer, and also right everywhere
        assert judge_fit(curve, ending, behind, math.log(2)).name == "under-fit"
        verdict = judge_fit(curve, ending, behind, math.log(2), is_all_right=True)
        assert (verdict.name, verdict.reason) == ("good fit", "all right")
        assert "every answer on dev is right" in verdict_words(verdict, curve, ladder)
    rose = [*curve, Evaluation(150, 0.05, 0.5, 1.0), Evaluation(200, 0.02, 0.9, 1.0)]
    assert judge_fit(rose, Ending("over-fit", 200, 100), is_all_right=True).name == "over-fit"


# The lesson.


@pytest.fixture(scope="module")
def studies():
    return [measure(SeparableKnobs(margin=margin, steps=40_000, seed=seed)) for margin, seed in ((0.4, 1), (1.5, 7))]


def signed_points(study):
    return np.array([(x * label, y * label) for x, y, label in study.points])


def test_the_widest_margin_is_that_of_a_quadratic_program(studies):
    for study in studies:
        points = signed_points(study)
        bounds = {"type": "ineq", "fun": lambda w, points=points: points @ w - 1}
        found = minimize(lambda w: w @ w / 2, points[0] / (points @ points[0]).min(), constraints=bounds)
        assert (points @ found.x).min() == pytest.approx(1, abs=1e-6)
        assert study.margin == pytest.approx(1 / np.linalg.norm(found.x), rel=1e-5)
        assert np.allclose(study.direction, found.x / np.linalg.norm(found.x), atol=1e-4)


def test_without_weight_decay_the_norm_goes_with_ln_t_over_the_margin_and_the_loss_with_one_over_t(studies):
    for study, margin in zip(studies, (0.4, 1.5), strict=True):
        assert study.margin == pytest.approx(margin)
        assert study.norm_slope == pytest.approx(1 / margin, rel=0.05)
        assert study.loss_power == pytest.approx(-1, abs=0.05)
        assert all(a < b for a, b in zip(study.free.norms, study.free.norms[1:], strict=False))
        assert all(a > b for a, b in zip(study.free.losses, study.free.losses[1:], strict=False))
        assert study.free.degrees[-1] < max(study.free.degrees) / 2


def test_with_weight_decay_it_comes_to_rest_where_scipy_finds_the_minimum(studies):
    for study in studies:
        points, decay = signed_points(study), study.held.weight_decay
        found = minimize(
            lambda w, points=points, decay=decay: np.logaddexp(0, -points @ w).mean() + decay / 2 * w @ w,
            np.zeros(2),
            tol=1e-12,
        )
        assert study.resting_norm == pytest.approx(np.linalg.norm(found.x), rel=1e-4)
        assert study.held.norms[-1] == pytest.approx(study.resting_norm, rel=1e-6)
        assert np.allclose(study.held.weights, found.x, rtol=1e-3)
        assert study.held.losses[-1] == pytest.approx(np.logaddexp(0, -points @ found.x).mean(), rel=1e-3)
        assert study.free.norms[-1] > 2 * study.held.norms[-1]


def test_the_first_steps_are_those_of_torch(studies):
    study = measure(SeparableKnobs(steps=20))
    points = torch.tensor(signed_points(study))
    for run in (study.free, study.held):
        w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=study.learning_rate, weight_decay=run.weight_decay)
        for _ in range(20):
            optimizer.zero_grad()
            torch.nn.functional.softplus(-points @ w).mean().backward()
            optimizer.step()
        assert run.weights == pytest.approx(tuple(w.tolist()), rel=1e-9)


def test_what_is_not_known_is_said(runs):
    unknown = runs[0.0].separability._replace(is_separable=None)
    assert "is not known" in separability_words(unknown)
    some = runs[0.0].separability._replace(n_right=3)
    assert "and these 3" in separability_words(some, "image")
