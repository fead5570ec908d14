"""The demonstrations show what they say; their numbers once more by scipy, numpy and torch's own autograd."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.nn import functional

from pellucid.data import open_data
from pellucid.data.prepare.tokens import split_sequences
from pellucid.lessons import dead_unit, decay, gains, hockey_stick, saturation
from pellucid.lessons.dead_unit import DeadUnitStudy
from pellucid.lessons.decay import DecayStudy, pair_shares
from pellucid.lessons.gains import GainStudy
from pellucid.lessons.hockey_stick import StartStudy
from pellucid.lessons.saturation import SaturationStudy
from pellucid.models.sequences.configs import WindowMLPConfig
from pellucid.models.sequences.windows import WindowMLP
from pellucid.records import as_plain
from pellucid.records.plain import from_plain
from pellucid.training.rng import seed_torch, torch_rng
from pellucid.training.tasks.batches import make_batches


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def sides():
    return split_sequences(open_data("names"))


def test_a_rate_divided_late_brings_rest(sides):
    study = decay.measure(decay.DecayKnobs())
    assert study.decay_step == 360
    assert study.kept.values[:360] == study.decayed.values[:360]
    assert study.unrest_after < study.unrest_before / 5
    assert study.dev_decayed < study.dev_kept - 0.1
    assert study.unrest_before == pytest.approx(np.std(study.decayed.values[340:360]))
    assert (study.rates.values[359], study.rates.values[360]) == (200.0, 20.0)
    # No model that looks at one letter alone does better than counting on the side that it was counted on.
    shares = pair_shares(sides.train, 27).numpy()
    rows = shares.sum(1, keepdims=True)
    counted = -(shares * np.log(np.where(shares > 0, shares / rows, 1))).sum()
    assert counted < study.decayed.values[-1] < counted + 0.02


def test_the_table_learns_as_torch_would_from_all_names_at_once(sides):
    """Three steps by autograd over every pair of letters in train."""
    tokens = torch.from_numpy(sides.train.tokens.astype(np.int64))
    scores = torch.randn(27, 27, generator=torch_rng(5, 0, "table"), dtype=torch.float64).requires_grad_()
    wanted = []
    for _ in range(3):
        loss = functional.cross_entropy(scores[tokens[:-1]], tokens[1:])
        (gradient,) = torch.autograd.grad(loss, scores)
        wanted.append(loss.item())
        scores = (scores - 200 * gradient).detach().requires_grad_()
    assert decay.measure(decay.DecayKnobs(seed=5, steps=20)).kept.values[:3] == pytest.approx(wanted, rel=1e-9)


def test_a_bad_start_comes_down_from_high_above_and_a_good_one_from_guessing():
    study = hockey_stick.measure(hockey_stick.HockeyStickKnobs(steps=150))
    assert study.uniform == pytest.approx(math.log(27))
    assert study.bad.values[0] > 3 * study.uniform
    assert study.good.values[0] == pytest.approx(study.uniform, rel=0.02)
    # After 150 steps the good one is far below guessing, the bad one still above it.
    assert study.good.values[-1] < 0.85 * study.uniform
    assert study.bad.values[-1] > 1.5 * study.uniform
    assert study.bad.steps == study.good.steps == tuple(range(1, 151))


def test_the_share_of_saturated_units_is_numpys(sides):
    """The same network by hand: embeddings of windows of three, one matrix, tanh."""
    study = saturation.measure(saturation.SaturationKnobs(seed=2))
    batch = make_batches(sides.train, 16, 16, 2, by_length=False).batch(1)
    windows = functional.pad(batch.tokens, (2, 0)).unfold(1, 3, 1)[batch.targets != -100].numpy()  # (examples, 3)
    found = {}
    for name in ("bad", "good"):
        with seed_torch(2, 0, "weights"):
            weights = {key: value.numpy() for key, value in WindowMLP(WindowMLPConfig(27)).state_dict().items()}
        if name == "bad":
            weights = {
                key: torch.empty(value.shape).normal_(generator=torch_rng(2, 0, key)).numpy()
                for key, value in weights.items()
            }
        into = weights["embedding.weight"][windows].reshape(len(windows), -1) @ weights["layers.0.linear.weight"].T
        found[name] = np.mean(np.abs(np.tanh(into + weights["layers.0.linear.bias"])) > 0.97)
    assert study.bad_saturated == pytest.approx(found["bad"], abs=1e-4)
    assert study.good_saturated == pytest.approx(found["good"], abs=1e-4)
    assert study.bad_saturated > 0.5 > 0.1 > study.good_saturated
    for units in (study.bad, study.good):
        assert (len(units.values), len(units.values[0])) == (32, 200)
    # Where a unit is saturated, its gradient is cut to less than 6 %.
    levels, is_flat = (np.array([list(row) for row in rows]) for rows in (study.bad.gradients, study.bad.values))
    assert levels[is_flat == "9"].astype(int).mean() < 0.2 * levels[is_flat == "0"].astype(int).mean()


def test_nothing_reaches_the_weights_of_a_dead_unit(sides):
    study = dead_unit.measure(dead_unit.DeadUnitKnobs())
    assert 0 < len(study.dead) < 100
    assert study.gradient_of_dead == 0.0
    assert study.gradient_of_others > 1e-3
    # Trained once more by torch's own SGD, and looked at by autograd alone.
    with seed_torch(1, 0, "weights"):
        model = WindowMLP(WindowMLPConfig(27, activation="relu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    batches = make_batches(sides.train, 32, 16, 1, by_length=False)
    for step in range(1, 22):
        batch = (
            batches.batch(step)
            if step < 21
            else make_batches(sides.train, dead_unit.DeadUnitKnobs().batch, 16, 1, by_length=False).batch(21)
        )
        optimizer.zero_grad()
        functional.cross_entropy(model(batch.tokens).flatten(0, 1), batch.targets.flatten()).backward()
        if step < 21:
            optimizer.step()
    into_each = model.layers[0].linear.weight.grad.abs().amax(1)
    assert set(study.dead) <= set(torch.nonzero(into_each == 0).flatten().tolist())
    others = [into_each[i].item() for i in range(200) if i not in study.dead]
    assert study.gradient_of_others == pytest.approx(np.median(others), rel=1e-3)


@pytest.mark.parametrize(
    ("activation", "function"),
    [("tanh", np.tanh), ("relu", lambda z: np.maximum(z, 0)), ("sigmoid", lambda z: 1 / (1 + np.exp(-z)))],
)
def test_the_best_gain_is_scipys(activation, function):
    square, _ = integrate.quad(lambda z: function(z) ** 2 * stats.norm.pdf(z), -12, 12, epsabs=1e-13, points=[0])
    assert gains.measure(gains.GainKnobs(activation=activation, depth=2)).best_gain == pytest.approx(
        square**-0.5, rel=1e-9
    )


def test_with_the_best_gain_every_layer_is_like_the_first():
    study = gains.measure(gains.GainKnobs())
    small, best, large = (layers for _, layers in study.stacks)
    assert [round(gain / study.best_gain, 9) for gain, _ in study.stacks] == [0.5, 1.0, 3.0]
    assert [len(layers) for layers in (small, best, large)] == [6, 6, 6]
    # E[tanh²] of a standard normal is 0.394, so the values' deviation is 0.628 in every layer.
    for layer in best:
        assert layer.deviation == pytest.approx(1 / study.best_gain, rel=0.05)
        assert layer.saturated < 0.06
    assert [layer.deviation for layer in small] == sorted((layer.deviation for layer in small), reverse=True)
    assert small[-1].deviation < 0.25 * small[0].deviation
    assert min(layer.saturated for layer in large[1:]) > 0.4
    # Gradients on the way down: with half the gain they fade, with three times it they grow, with the best they stay.
    assert small[0].gradient_deviation < 0.5 * small[-1].gradient_deviation
    assert large[0].gradient_deviation > 5 * large[-1].gradient_deviation
    assert 0.5 < best[0].gradient_deviation / best[-1].gradient_deviation < 2


@pytest.mark.parametrize("lesson", [decay.LESSON, saturation.LESSON, dead_unit.LESSON, gains.LESSON])
def test_a_demonstration_is_the_same_every_time(lesson):
    def study(seed):
        return lesson.measure(lesson.knobs(seed=seed))

    before = torch.get_rng_state()
    first = study(seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert as_plain(study(seed=3)) == as_plain(first)
    assert as_plain(study(seed=4)) != as_plain(first)
    kind = type(first)
    assert kind in (DecayStudy, SaturationStudy, DeadUnitStudy, GainStudy, StartStudy)
    assert from_plain(kind, as_plain(first)) == first
