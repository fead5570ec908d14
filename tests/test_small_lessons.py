"""Dice, grids, logits, slopes and losses: each number held to an enumeration, a solver, a closed form or torch."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from pellucid.errors import PellucidError
from pellucid.lessons import dice, grid_partition, logits, one_hot, probability_losses, slope
from pellucid.lessons.dice import DiceKnobs, mean_over_outcomes, tail_probability
from pellucid.lessons.grid_partition import GridKnobs, fewest_rectangles
from pellucid.lessons.logits import LogitKnobs, list_softmax, logit_row, temperature_curve
from pellucid.lessons.probability_losses import LOSSES, LossKnobs, by_probability
from pellucid.lessons.slope import SlopeKnobs
from pellucid.models.sequences.windows import normal_start_loss


@pytest.mark.parametrize(("n_dice", "sides", "order"), [(3, 6, 1), (2, 6, 1), (3, 6, 3), (4, 5, 2), (1, 8, 1)])
def test_the_tail_sum_is_the_mean_over_every_roll(n_dice: int, sides: int, order: int) -> None:
    rolls = list(itertools.product(range(1, sides + 1), repeat=n_dice))
    by_hand = Fraction(sum(sorted(roll)[order - 1] for roll in rolls), len(rolls))
    study = dice.measure(DiceKnobs(n_dice, sides, order, rounds=100))
    assert Fraction(*study.expectation) == by_hand == mean_over_outcomes(n_dice, sides, order)
    for face in range(1, sides + 1):
        n_such = sum(sorted(roll)[order - 1] == face for roll in rolls)
        assert study.probability(face) == pytest.approx(n_such / len(rolls), abs=1e-15)


def test_the_smallest_of_three_dice_in_ten_thousand_rounds() -> None:
    study = dice.measure(DiceKnobs())
    assert study.expectation == (49, 24) == study.listed
    assert float(Fraction(*study.expectation)) * 10_000 == pytest.approx(20_416.67, abs=0.01)
    assert sum(study.counts) == 10_000
    assert sum(face * n for face, n in enumerate(study.counts, start=1)) == study.total
    # The interval of 95 % misses for one seed in twenty; over forty seeds, fewer than 30 hits have odds below 1e-6.
    seeds = [dice.measure(DiceKnobs(rounds=2000, seed=seed)) for seed in range(40)]
    assert sum(abs(each.total - 2000 * 49 / 24) <= each.half_interval for each in seeds) >= 30
    assert tail_probability(3, 6, 1, 6) == Fraction(1, 216)


def test_the_dice_say_what_they_found() -> None:
    said = dice.draw(dice.measure(DiceKnobs())).caption
    assert said[0].endswith("(216 + 125 + 64 + 27 + 8 + 1) / 216 = 49/24 = 2.0417.")
    assert said[1] == "The mean over all 216 outcomes, listed: 49/24 = 2.0417, the same."
    assert "a total of 20,416.67 is expected" in said[2]
    assert "too many outcomes" in dice.draw(dice.measure(DiceKnobs(dice=30, rounds=2))).caption[1]
    with pytest.raises(PellucidError, match="the 3rd smallest of 2 dice"):
        DiceKnobs(dice=2, order=3)


def _fewest_by_integer_program(removed: tuple[int, ...]) -> int:
    """Choose rectangles of cells that are there so that each cell is in exactly one."""
    n = len(removed)
    cells = [(row, column) for row in range(n) for column in range(n) if removed[row] != column]
    place = {cell: i for i, cell in enumerate(cells)}
    columns = []
    for (top, left), (bottom, right) in itertools.product(cells, repeat=2):
        inside = [(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)]
        if inside and all(cell in place for cell in inside):
            columns.append([place[cell] for cell in inside])
    matrix = np.zeros((len(cells), len(columns)))
    for j, column in enumerate(columns):
        matrix[column, j] = 1
    chosen = milp(
        np.ones(len(columns)),
        constraints=LinearConstraint(matrix, 1, 1),
        bounds=Bounds(0, 1),
        integrality=np.ones(len(columns)),
    )
    return round(chosen.fun)


def test_no_partition_has_fewer_rectangles_than_an_integer_program_finds() -> None:
    some = [*itertools.permutations(range(3)), *itertools.permutations(range(4)), (1, 3, 0, 4, 2), (2, 0, 4, 1, 5, 3)]
    for removed in some:
        found = fewest_rectangles(removed)
        assert len(found.rectangles) == _fewest_by_integer_program(removed)
        covered = [
            (row, column)
            for top, left, bottom, right in found.rectangles
            for row in range(top, bottom + 1)
            for column in range(left, right + 1)
        ]
        n = len(removed)
        left_over = {(row, column) for row in range(n) for column in range(n) if removed[row] != column}
        assert len(covered) == len(left_over)
        assert set(covered) == left_over


def test_the_diagonal_needs_six_and_the_best_order_of_four_needs_five() -> None:
    study = grid_partition.measure(GridKnobs((1, 2, 3, 4)))
    assert (len(study.asked.rectangles), len(study.best.rectangles)) == (6, 5)
    assert len(grid_partition.measure(GridKnobs((2, 4, 1, 3))).asked.rectangles) == 5
    alone = [len(fewest_rectangles(order).rectangles) for order in itertools.permutations(range(4))]
    assert study.orders == tuple((n, alone.count(n)) for n in sorted(set(alone)))
    assert grid_partition.measure(GridKnobs((1, 2, 3, 4, 5, 6, 7))).best is None
    # For a grid of n rows the fewest is the least whole number from n + 2√n - 3 on (IMO 2025, problem 6, where n is
    # a square).
    for n in (3, 4, 5):
        best = grid_partition.measure(GridKnobs(tuple(range(1, n + 1)))).orders[0][0]
        assert best == math.ceil(n + 2 * math.sqrt(n) - 3)
    for wrong in ((1, 1, 2), (1,), (1.5, 2), (2, 3)):
        with pytest.raises(PellucidError, match="is not one column for each"):
            GridKnobs(wrong)


# What a table of such rows was once printed as: the probabilities and the loss of the third class.
PRINTED = [
    ((0.3333, 0.3333, 0.3333), 1.0986),
    ((0.4041, 0.2806, 0.3154), 1.1540),
    ((0.0066, 0.0066, 0.9867), 0.0133),
    ((0.0066, 0.9867, 0.0066), 5.0133),
    ((0.4931, 0.3457, 0.1612), 1.8248),
    (None, 2.2775),
    ((0.0, 0.0, 1.0), 0.0),
]


def test_the_rows_of_logits_are_torchs_and_those_of_the_printed_table() -> None:
    study = logits.measure(LogitKnobs())
    for row, (probabilities, loss) in zip(study.rows, PRINTED, strict=True):
        z = torch.tensor(row.logits, dtype=torch.float64)
        assert row.probabilities == pytest.approx(z.softmax(0).tolist(), rel=1e-12)
        assert row.loss == pytest.approx(-z.log_softmax(0)[2].item(), rel=1e-12, abs=1e-15)
        assert row.loss == pytest.approx(loss, abs=1.1e-4)
        if probabilities:
            assert row.probabilities == pytest.approx(probabilities, abs=1.1e-4)
    warm = logits.measure(LogitKnobs(temperature=10.0)).rows[3]
    assert warm.probabilities == pytest.approx(torch.tensor([0.0, 0.5, 0.0]).double().softmax(0).tolist(), rel=1e-12)
    assert logit_row("", [0.0, 2000.0], 0).loss == 2000.0


def test_temperature_goes_from_the_largest_alone_to_all_alike() -> None:
    curve = temperature_curve([4.0, 3.0, 2.0, 1.0])
    z = torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64)
    for temperature, row, entropy in zip(curve.temperatures, curve.probabilities, curve.entropies, strict=True):
        p = (z / temperature).softmax(0)
        assert row == pytest.approx(p.tolist(), rel=1e-10, abs=1e-300)
        assert entropy == pytest.approx(torch.special.entr(p).sum().item(), rel=1e-9, abs=1e-15)
    assert list(curve.entropies) == sorted(curve.entropies), "the hotter, the more even"
    assert (curve.cold, curve.hot) == ((1.0, 0.0, 0.0, 0.0), (0.25,) * 4)
    assert curve.probabilities[0] == pytest.approx(curve.cold, abs=1e-40)
    assert curve.probabilities[-1] == pytest.approx(curve.hot, abs=1e-3)
    assert temperature_curve([1.0, 1.0, 0.0]).cold == (0.5, 0.5, 0.0)
    assert list_softmax([2.0, 1.0, 0.0]) == pytest.approx((0.6652, 0.2447, 0.0900), abs=1e-4)


def test_a_slope_is_torchs_and_rise_over_run_comes_near_it() -> None:
    study = slope.measure(SlopeKnobs("3*x^2-4*x+5", at=3.0, h=0.001))
    assert (study.exact, study.value) == (14.0, 20.0)
    assert study.forward == pytest.approx(14.003, abs=1e-9)
    assert study.flat == pytest.approx([2 / 3], abs=1e-9)
    other = slope.measure(SlopeKnobs("sin(x)/x", at=2.0, span=8.0))
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (torch.sin(x) / x).backward()
    assert other.exact == pytest.approx(x.grad.item(), rel=1e-14)
    assert [round(x, 4) + 0.0 for x in other.flat] == [-4.4934, 0.0, 4.4934, 7.7253], "tan x = x"
    assert not slope.measure(SlopeKnobs("1/x", at=1.0, span=2.0)).flat, "a pole is no flat place"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a*x", "'x' is a second variable at column 3"), ("2+3", "has no variable"), ("p=x; q=2*x; r=3*x", "several")],
)
def test_a_slope_is_of_one_number_by_one_variable(text: str, said: str) -> None:
    with pytest.raises(PellucidError) as caught:
        slope.measure(SlopeKnobs(text))
    assert said in str(caught.value)


TORCH_LOSSES = {
    "cross-entropy": lambda z: torch.nn.functional.softplus(-z),
    "squared error": lambda z: (1 - torch.sigmoid(z)) ** 2,
    "absolute error": lambda z: (1 - torch.sigmoid(z)).abs(),
    "hinge": lambda z: torch.clamp(1 - z, min=0),
    "squared hinge": lambda z: torch.clamp(1 - z, min=0) ** 2,
}


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_losses_and_their_derivatives_are_torchs(loss: probability_losses.ProbabilityLoss) -> None:
    def derivatives(of, at: np.ndarray) -> list[list[float]]:
        x = torch.tensor(at, requires_grad=True)
        value = of(x)
        (first,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        second = torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else torch.zeros_like(x)
        return [value.tolist(), first.tolist(), second.tolist()]

    z = np.linspace(-6.0, 6.0, 40)
    ours = [loss.value(z), loss.slope(z), loss.curvature(z)]
    for mine, theirs in zip(ours, derivatives(TORCH_LOSSES[loss.name], z), strict=True):
        assert mine.tolist() == pytest.approx(theirs, rel=1e-9, abs=1e-12)
    p = np.linspace(0.02, 0.98, 30)
    for mine, theirs in zip(
        by_probability(loss, p), derivatives(lambda x: TORCH_LOSSES[loss.name](torch.logit(x)), p), strict=True
    ):
        assert mine.tolist() == pytest.approx(theirs, rel=1e-8, abs=1e-9)


def test_cross_entropy_is_convex_and_squared_error_has_a_plateau() -> None:
    curves = {curve.name: curve for curve in probability_losses.measure(LossKnobs()).curves}
    assert curves["cross-entropy"].at_wrong == pytest.approx(-math.log(0.01))
    assert curves["squared error"].at_wrong == pytest.approx(0.99**2)
    assert probability_losses.measure(LossKnobs(wrong=0.0001)).curves[0].at_wrong == pytest.approx(9.2103, abs=1e-4)
    is_convex = {name: curve.bent_down == 0 for name, curve in curves.items()}
    assert is_convex == {name: curve.least_curvature_by_logit >= 0 for name, curve in curves.items()}
    assert [name for name, is_so in is_convex.items() if is_so] == ["cross-entropy", "hinge", "squared hinge"]
    assert {name for name, curve in curves.items() if curve.plateau is not None} == {"squared error", "absolute error"}
    assert curves["hinge"].least_curvature_by_p < 0, "over p it is not convex"


def test_the_landscape_is_the_mean_loss_of_the_classifier() -> None:
    knobs = LossKnobs(points=6, weights=2.0)
    study = probability_losses.measure(knobs)
    x = torch.tensor(probability_losses._draw_examples(knobs))
    corner = torch.tensor([-2.0, 2.0], dtype=torch.float64)  # the first column of the first row
    for curve in study.curves:
        wanted = TORCH_LOSSES[curve.name](x @ corner).mean().item()
        assert curve.landscape[0][0] == pytest.approx(wanted, rel=1e-9)


def test_one_hot_vectors_look_up_rows() -> None:
    study = one_hot.measure(one_hot.OneHotKnobs())
    names = ["·", *"abcdefghijklmnopqrstuvwxyz"]
    assert study.symbols == tuple(names)
    assert [study.symbols[token] for token in study.context] == ["e", "m", "m"]
    weights = np.array(study.tables)  # (n - 1, vocab, vocab)
    assert weights.shape == (3, 27, 27)
    assert study.n_multiplications == weights.size
    # By hand: every row of X times its table, number by number.
    scores = [sum(study.one_hot[i][v] * weights[i, v, w] for i in range(3) for v in range(27)) for w in range(27)]
    for found in (study.by_product, study.by_lookup, study.by_network):
        assert np.allclose(found, scores, rtol=0, atol=1e-12)
    assert [row.index(1.0) for row in study.one_hot] == [names.index(letter) for letter in "emm"]
    assert sum(map(sum, study.one_hot)) == 3
    # A boundary stands before the first letter, unless the vocabulary is one's own.
    assert one_hot.measure(one_hot.OneHotKnobs(input="a")).context == (0, 0, 1)
    own = one_hot.measure(one_hot.OneHotKnobs(input="bca", vocabulary="abc"))
    assert own.one_hot == ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))


@pytest.mark.parametrize("given", [{"input": "ab", "vocabulary": "ab"}, {"vocabulary": "eem"}, {"input": "q", "n": 9}])
def test_a_context_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(PellucidError):
        one_hot.measure(one_hot.OneHotKnobs(**given))


@pytest.mark.parametrize(("vocab_size", "n"), [(27, 2), (27, 4), (3, 3), (300, 2)])
def test_what_a_normal_start_costs_is_what_drawn_tables_cost(vocab_size: int, n: int) -> None:
    scores = np.random.default_rng(0).normal(0, (n - 1) ** 0.5, (20_000, vocab_size))
    costs = np.log(np.exp(scores).sum(1)) - scores[:, 0]
    # Six standard errors: by chance once in 500 million.
    error = costs.std() / len(costs) ** 0.5
    assert abs(normal_start_loss(vocab_size, (n - 1) ** 0.5) - costs.mean()) < 6 * error
    assert normal_start_loss(vocab_size, 0.0) == pytest.approx(math.log(vocab_size), abs=1e-9)
