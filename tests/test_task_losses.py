"""Losses and penalties by name, beside torch's, scikit-learn's, and the numbers of the sources."""

import math

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn
from torch.nn import functional

from pellucid.autograd.nn import hinge as scalar_hinge
from pellucid.errors import PellucidError
from pellucid.layers.losses import (
    LOSSES,
    ON_PROBABILITIES,
    PENALTIES,
    find_example_loss,
    losses_for,
    penalty,
    slope_beside_cross_entropy,
)

N, K = 40, 4
TASKS = {"classification", "regression", "reconstruction"}
OF_CLASSES = losses_for("classification")


@pytest.fixture
def dice() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.fixture
def scores(dice: torch.Generator) -> torch.Tensor:
    return 3 * torch.randn(N, K, generator=dice, dtype=torch.float64)


@pytest.fixture
def classes(dice: torch.Generator) -> torch.Tensor:
    return torch.randint(0, K, (N,), generator=dice)


def test_cross_entropy_is_torchs_and_sklearns(scores, classes):
    ours = LOSSES["cross-entropy"].losses(scores, classes)
    assert ours.shape == (N,)
    assert torch.allclose(ours.mean(), nn.CrossEntropyLoss()(scores, classes), atol=1e-12)
    p = LOSSES["cross-entropy"].probabilities(scores).numpy()
    assert metrics.log_loss(classes, p, labels=range(K)) == pytest.approx(ours.mean().item(), abs=1e-12)


def test_bce_asks_of_each_class_yes_or_no(scores, classes):
    ours = LOSSES["bce"].losses(scores, classes)
    truths = functional.one_hot(classes, K).double()
    assert torch.allclose(ours.mean(), nn.BCEWithLogitsLoss()(scores, truths), atol=1e-12)
    by_hand = torch.log1p(torch.exp(-(2 * truths - 1) * scores)).mean(1)
    assert torch.allclose(ours, by_hand, atol=1e-12)
    yes = scores.sigmoid()
    shares = LOSSES["bce"].probabilities(scores)
    assert torch.allclose(shares, yes / yes.sum(1, keepdim=True), atol=1e-12)


def test_hinge_is_that_of_crammer_and_singer(scores, classes):
    ours = LOSSES["hinge"].losses(scores, classes)
    assert metrics.hinge_loss(classes, scores, labels=range(K)) == pytest.approx(ours.mean().item(), abs=1e-12)
    for row, true, loss in zip(scores.tolist(), classes.tolist(), ours.tolist(), strict=True):
        best_other = max(score for number, score in enumerate(row) if number != true)
        assert loss == pytest.approx(max(0, 1 + best_other - row[true]), abs=1e-12)


def test_hinge_of_two_classes_is_the_one_with_sides(scores, classes):
    two, sides = scores[:, :2], 2.0 * (classes % 2) - 1
    ours = LOSSES["hinge"].losses(two, classes % 2)
    leads = two[:, 1] - two[:, 0]
    assert torch.allclose(ours, (1 - sides * leads).clamp_min(0), atol=1e-12)
    for lead, side, loss in zip(leads.tolist(), sides.tolist(), ours.tolist(), strict=True):
        assert scalar_hinge(lead, side).data == pytest.approx(loss, abs=1e-12)


def test_two_classes_by_softmax_are_the_exams_logistic_regression(scores, classes):
    """Labels -1 and 1: the loss is ln(1 + exp(-label · w·x)), with scores 0 and w·x."""
    leads, sides = scores[:, 0], 2.0 * (classes % 2) - 1
    ours = LOSSES["cross-entropy"].losses(torch.stack([torch.zeros(N), leads], dim=1), classes % 2)
    assert torch.allclose(ours, torch.log1p(torch.exp(-sides * leads)), atol=1e-12)


@pytest.mark.parametrize(("name", "twin"), [("mse", metrics.mean_squared_error), ("l1", metrics.mean_absolute_error)])
def test_distances_are_sklearns(name, twin, scores, dice):
    truths = torch.randn(N, K, generator=dice, dtype=torch.float64)
    loss = LOSSES[name].losses
    assert loss(scores, truths).shape == (N,)
    assert twin(truths, scores) == pytest.approx(loss(scores, truths).mean().item(), abs=1e-12)
    # One score a row: its target may come with or without a dimension of its own.
    one, truth = scores[:, :1], truths[:, 0]
    assert torch.equal(loss(one, truth), loss(one, truth[:, None]))
    assert twin(truth, one[:, 0]) == pytest.approx(loss(one, truth).mean().item(), abs=1e-12)


def test_huber_is_torchs(scores, dice):
    truths = torch.randn(N, K, generator=dice, dtype=torch.float64)
    ours = LOSSES["huber"].losses(scores, truths)
    assert ours.shape == (N,)
    assert torch.allclose(ours.mean(), nn.HuberLoss()(scores, truths), atol=1e-12)
    one, truth = scores[:, :1], truths[:, 0]
    assert torch.equal(LOSSES["huber"].losses(one, truth), LOSSES["huber"].losses(one, truth[:, None]))


@pytest.mark.parametrize("name", ["mse", "l1", "huber"])
def test_targets_are_not_silently_spread_out(name):
    with pytest.raises((AssertionError, RuntimeError)):
        LOSSES[name].losses(torch.zeros(3, 1), torch.zeros(4))
    with pytest.raises((AssertionError, RuntimeError)):
        LOSSES[name].losses(torch.zeros(3, 2), torch.zeros(3, 1))


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_the_measured_ones(name, scores, classes, dice):
    task = LOSSES[name].tasks[0]
    truths = classes if task == "classification" else torch.randn(N, K, generator=dice, dtype=torch.float64)
    assert torch.autograd.gradcheck(LOSSES[name].losses, (scores.requires_grad_(), truths))


def test_the_numbers_of_the_sources():
    """A cat that the network takes for a dog, surely: P(cat) = 0.01, and the truth is 1."""

    def by(name: str, p: float) -> float:
        if name == "mse":
            return LOSSES[name].losses(torch.tensor([[p]]).double(), torch.ones(1).double()).item()
        if name == "bce":
            return LOSSES[name].losses(torch.tensor([[p]]).double().logit(), torch.tensor([0])).item()
        return LOSSES[name].losses(torch.tensor([[1 - p, p]]).double().log(), torch.tensor([1])).item()

    assert round(by("mse", 0.01), 2) == 0.98
    assert round(by("mse", 0.1), 2) == 0.81
    for name in ("cross-entropy", "bce"):
        assert round(by(name, 0.01), 2) == 4.61
        assert round(by(name, 0.0001), 1) == 9.2
    assert 4.5 < by("cross-entropy", 0.01) / by("mse", 0.01) < 5  # "nearly 5 times"


def test_what_is_surely_wrong_is_told_louder_by_cross_entropy():
    """The slope by the score at P = 0.01: P - 1 = -0.99, where the square of 1 - P has -2·P·(1 - P)² = -0.0196."""
    for name, slope in (("bce", -0.99), ("mse", -2 * 0.01 * 0.99**2)):
        score = torch.tensor([[0.01]]).double().logit().requires_grad_()
        said = score if name == "bce" else score.sigmoid()
        truth = torch.tensor([0]) if name == "bce" else torch.ones(1).double()
        LOSSES[name].losses(said, truth).sum().backward()
        assert score.grad.item() == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(("name", "first"), [("cross-entropy", math.log(7)), ("bce", math.log(2)), ("hinge", 1.0)])
def test_the_loss_of_scores_that_say_nothing(name, first):
    loss = LOSSES[name].losses(torch.zeros(2, 7).double(), torch.tensor([0, 6]))
    assert torch.allclose(loss, torch.full((2,), first).double(), atol=1e-7)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_losses_are_finite_for_scores_that_are_sure(name):
    sure = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], requires_grad=True)
    losses = find_example_loss(name, "classification").losses(sure, torch.tensor([1, 2]))
    losses.sum().backward()
    assert losses.isfinite().all()
    assert sure.grad.isfinite().all()


@pytest.mark.parametrize(
    "name", [name for name in OF_CLASSES if find_example_loss(name, "classification").probabilities]
)
def test_probabilities_add_up_and_keep_the_order(name, scores):
    p = find_example_loss(name, "classification").probabilities(
        torch.cat([scores, 300 * scores, torch.full((1, K), -800.0)])
    )
    assert (p >= 0).all()
    assert torch.allclose(p.sum(1), torch.ones(len(p)).double(), atol=1e-12)
    assert torch.equal(p[:N].argsort(1), scores.argsort(1))


def test_margins_and_distances_are_no_probabilities():
    assert [name for name, loss in LOSSES.items() if loss.probabilities is None] == ["hinge", "mse", "l1", "huber"]


def test_each_task_has_its_losses():
    assert losses_for("classification") == ("cross-entropy", "bce", "hinge", "mse", "l1")
    assert losses_for("regression") == losses_for("reconstruction") == ("mse", "l1", "huber")
    for name, loss in LOSSES.items():
        assert loss.name == name
        assert loss.description
        assert set(loss.tasks) <= TASKS
        for task in loss.tasks:
            assert find_example_loss(name, task) is loss


@pytest.mark.parametrize(
    ("name", "task", "said"),
    [
        ("cross-entrpy", "classification", "no loss called 'cross-entrpy'. Perhaps you meant cross-entropy."),
        ("mse1", "regression", "no loss called 'mse1'. Perhaps you meant mse."),
        ("zzz", "classification", "no loss called 'zzz'. Choose cross-entropy, bce, hinge, mse or l1."),
        ("bce", "regression", "bce is no loss for regression. Choose mse, l1 or huber."),
        (
            "huber",
            "classification",
            "huber is no loss for classification. Choose cross-entropy, bce, hinge, mse or l1.",
        ),
    ],
)
def test_a_wrong_name_is_answered_with_a_right_one(name, task, said):
    with pytest.raises(PellucidError) as refusal:
        find_example_loss(name, task)
    assert str(refusal.value).endswith(said)


@pytest.mark.parametrize("name", ON_PROBABILITIES)
def test_a_loss_of_numbers_is_taken_of_the_probabilities_for_classes(name, scores, classes):
    loss = find_example_loss(name, "classification")
    p, truths = scores.softmax(1), torch.eye(K, dtype=scores.dtype)[classes]
    off = (p - truths).abs() if name == "l1" else (p - truths).square()
    assert torch.allclose(loss.losses(scores, classes), off.mean(1), atol=1e-12)
    assert torch.equal(loss.probabilities(scores), p)
    # By hand, of two classes: the slope of (1 - p)² or 1 - p by the logit, over that of -ln p.
    for chance in (0.01, 0.3):
        wanted = chance if name == "l1" else 2 * chance * (1 - chance)
        assert slope_beside_cross_entropy(name, chance) == pytest.approx(wanted, rel=1e-9)


def test_a_wrong_penalty_is_answered_with_a_right_one():
    with pytest.raises(PellucidError, match=r"there is no penalty called 'linf'\. Perhaps you meant linf2\."):
        penalty("linf", [])


FORMULAS = {
    "l1": lambda w: np.abs(w).sum(),
    "l2": lambda w: (w**2).sum() / 2,
    "linf2": lambda w: np.abs(w).max() ** 2 / 2,
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_are_over_all_weights_as_one_vector(name, dice):
    weights = [torch.randn(*shape, generator=dice, dtype=torch.float64) for shape in ((3, 4), (2, 2, 5), (1, 6))]
    together = np.concatenate([weight.flatten().numpy() for weight in weights])
    assert penalty(name, weights).item() == pytest.approx(FORMULAS[name](together), rel=1e-12)
    assert PENALTIES[name].name == name
    assert PENALTIES[name].description


@pytest.mark.parametrize("name", PENALTIES)
def test_biases_and_norms_are_free(name):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    penalty(name, model.parameters()).backward()
    assert model[0].weight.grad is not None
    assert model[0].bias.grad is model[1].weight.grad is model[1].bias.grad is None
    assert penalty(name, [model[0].bias]) == 0


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize(
    "weights", [[3.0, -4.0, 1.0], [3.0, -3.0, 1.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.0]], ids=str
)
def test_slopes_of_penalties_are_subgradients(name, weights, dice):
    """f(v) ≥ f(w) + g·(v - w) for every v: also where the penalty has a kink, as at ties and at 0."""
    here = torch.tensor([weights], dtype=torch.float64, requires_grad=True)
    value = penalty(name, [here])
    value.backward()
    for _ in range(200):
        step = torch.randn(1, 3, generator=dice, dtype=torch.float64)
        there = here.detach() + step
        assert penalty(name, [there]).item() >= value.item() + (here.grad * step).sum().item() - 1e-12


def test_ties_share_the_pull_of_the_largest():
    here = torch.tensor([[3.0, -3.0, 1.0]], requires_grad=True)
    penalty("linf2", [here]).backward()
    assert here.grad.tolist() == [[1.5, -1.5, 0.0]]


def test_the_update_of_the_exam(dice):
    """Logistic regression, labels 0 and 1, penalty (λ/2)·max|w|²: w ← w - η((P - y)x + λ w·e), e at the largest |w|."""
    rate, strength = 0.3, 0.7
    rows = torch.randn(60, 4, generator=dice, dtype=torch.float64)
    labels = (rows @ torch.tensor([2.0, -1.0, 0.5, 0.0]).double() > 0).long()
    weights = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    by_hand = np.zeros(4)
    for row, label in zip(rows, labels, strict=True):
        scores = torch.cat([torch.zeros(1).double(), weights @ row])[None]
        loss = LOSSES["cross-entropy"].losses(scores, label[None]).mean() + strength * penalty("linf2", [weights])
        (slope,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights -= rate * slope
        x, y = row.numpy(), label.item()
        p = 1 / (1 + math.exp(-by_hand @ x))
        largest = np.zeros(4)
        largest[np.abs(by_hand).argmax()] = 1
        by_hand = by_hand - rate * ((p - y) * x + strength * by_hand * largest)
    assert np.abs(by_hand).max() > 0.1
    assert np.allclose(weights.detach().numpy()[0], by_hand, atol=1e-12)
