"""The search for a learning rate: its rules by brute force, no trace of it, and whether its answer trains well."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data import open_data
from pellucid.data.prepare.tokens import split_sequences
from pellucid.errors import PellucidError
from pellucid.figures.words.learning_rate import search_sentences, sweep_failure
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.configs import TransformerConfig, WindowMLPConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import LearningRateSearch, LearningRateTrial, Plan, SweepFailure, as_plain
from pellucid.records.plain import from_plain
from pellucid.training.learning_rate import (
    SMOOTHING,
    between,
    by_flatness,
    by_percentile,
    by_valley,
    check_sweep,
    climb_for,
    combine_answers,
    longest_fall,
    make_trials,
    rates_between,
    smooth_losses,
    sweep_learning_rates,
    sweep_seeds,
)
from pellucid.training.loop import steps
from pellucid.training.optimizers import build_optimizer
from pellucid.training.options import RateOptions
from pellucid.training.tasks.batches import make_batches
from pellucid.training.tasks.sequences import evaluate_loss

MLP = find_network("mlp", "list")

BATCH = 64


def plan(optimizer="sgd", rate=1.0, matrix_rate=0.0, n_steps=150) -> Plan:
    return Plan(
        *(n_steps, BATCH, 16, optimizer, rate, matrix_rate, 0.0, 0.0, 0.0, 0, "constant"),
        *(100, 100, 100, 100, 1, 1),
    )


@pytest.fixture(scope="module")
def sides():
    torch.set_num_threads(1)
    return split_sequences(open_data("names"))


@pytest.fixture(scope="module")
def mlp(sides):
    """A function from the seed to the lecture's MLP with its first weights, and one to its batches."""

    def build(seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return MLP.build(WindowMLPConfig(len(sides.vocabulary)))

    return build, lambda seed: make_batches(sides.train, BATCH, 16, seed, by_length=False)


# What is searched with is as it was


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_a_sweep_leaves_no_trace(sides, optimizer):
    torch.manual_seed(4)
    config = TransformerConfig(len(sides.vocabulary), context=32, width=16, depth=1, n_heads=2, dropout=0.1)
    model = Transformer(config).eval()
    batches = make_batches(sides.train, 8, 16, 1)
    model(batches.batch(1).tokens).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    before = {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}
    drawn = torch.get_rng_state().numpy().tobytes()
    trials, is_blown_up = sweep_learning_rates(
        model, batches, plan(optimizer, 0.01, 0.02), rates_between(1e-4, 1e4, 40), seed=3
    )
    assert is_blown_up or trials[-1].loss != trials[0].loss
    assert {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()} == before
    assert torch.get_rng_state().numpy().tobytes() == drawn
    assert all(torch.equal(p.grad, wanted) for p, wanted in zip(model.parameters(), gradients, strict=True))
    assert not model.training
    again, _ = sweep_learning_rates(model, batches, plan(optimizer, 0.01, 0.02), rates_between(1e-4, 1e4, 40), seed=3)
    assert again == trials


# The rules


@given(st.lists(st.floats(0.0, 10.0), min_size=2, max_size=40))
def test_smoothing_is_a_weighted_line_at_each_place(losses):
    places = np.arange(len(losses))
    found = smooth_losses(np.array(losses))
    for i in {0, len(losses) // 2, len(losses) - 1}:
        bell = np.exp(-0.5 * ((places - i) / SMOOTHING) ** 2)
        line = np.polyfit(places - i, losses, 1, w=np.sqrt(bell))
        assert found[i] == pytest.approx(line[1], abs=1e-8)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_the_longest_fall_is_that_of_brute_force(losses):
    def is_falling(places):
        return all(losses[a] > losses[b] for a, b in itertools.pairwise(places))

    falling = [
        places
        for n in range(1, len(losses) + 1)
        for places in itertools.combinations(range(len(losses)), n)
        if is_falling(places)
    ]
    longest = max(map(len, falling))
    found = longest_fall(losses)
    assert found in {(places[0], places[-1]) for places in falling if len(places) == longest}


def planted(low=-3.0, high=-0.5, n=100, noise=0.01, seed=0, depth=1.0):
    """Flat at 3.3 up to 10**low, down by `depth` to 10**high, and up from there."""
    logs = np.linspace(-6, 1, n)
    draw = np.random.default_rng(seed)
    losses = 3.3 - depth * np.clip((logs - low) / (high - low), 0, 1) + np.maximum(0, logs - high) ** 2
    return make_trials((10**logs).tolist(), (losses + draw.normal(0, noise, n)).tolist())


@settings(max_examples=30)
@given(st.floats(-4, -2), st.floats(1.0, 2.5), st.integers(0, 1000))
def test_both_rules_answer_within_the_fall(low, width, seed):
    trials = planted(low, low + width, seed=seed)
    assert check_sweep(trials, is_blown_up=False) is None
    for rule in (by_percentile, by_valley, between):
        assert low - 0.3 <= math.log10(rule(trials)) <= low + width + 0.3
    assert by_percentile(trials) <= between(trials)


def test_by_the_rate_itself_the_steepest_would_be_noise():
    """What the sources do: the slope by the rate, on rates spaced by a factor. Its lowest tenth is at the left."""
    trials = planted()
    rates = np.array([trial.learning_rate for trial in trials])
    naive = np.gradient([trial.loss for trial in trials], rates)
    steep = rates[naive <= np.percentile(naive, 10)]
    assert np.log10(steep).mean() < -4
    assert -3 < math.log10(by_percentile(trials)) < -0.5


@pytest.mark.parametrize(
    ("trials", "is_blown_up", "words"),
    [
        (planted(depth=0.0), False, "never fell"),
        (planted(depth=0.04, noise=0.05), False, "never fell"),
        (planted(low=-1, high=1.5), False, "still falls at the highest rate"),
        (planted(n=100)[:5], True, "blew up after 5 steps"),
    ],
)
def test_when_there_is_no_answer(trials, is_blown_up, words):
    failure = check_sweep(trials, is_blown_up)
    assert failure is not None
    assert words in sweep_failure(failure)


def test_seeds_must_agree():
    assert combine_answers([0.1, 0.2, 0.4], 3)[0] == 0.2
    assert combine_answers([0.1, 0.4, 1.1], 3)[0] is None
    assert combine_answers([0.1], 2)[:1] == (None,)
    assert combine_answers([0.1, 0.11], 3)[0] == 0.1
    answer, spread = combine_answers([], 3)
    assert answer is None
    assert math.isnan(spread)


# A real search


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (rates_between(1e-9, 1e-7, 20), "never fell"),
        (rates_between(1e-3, 0.1, 30), "still falls at the highest rate"),
        (rates_between(1e4, 1e6, 20), "blew up after"),
    ],
)
def test_a_range_without_an_answer_has_none(mlp, rates, words):
    found = sweep_seeds(*mlp, plan(), seeds=[1, 2], rates=rates)
    assert found.suggestion is None
    assert found.by_percentile == found.by_valley == (None, None)
    assert search_sentences(found)[0].startswith("No answer")
    assert words in search_sentences(found)[1]


@pytest.mark.slow
def test_the_suggestion_trains_better_than_ten_times_less_and_ten_times_more(sides, mlp):
    """Measured: 0.47, with which 150 steps reach 2.36 nats on dev; a tenth of it 2.67, ten times as much 34.8."""
    build, batches_for = mlp
    found = sweep_seeds(build, batches_for, plan(), seeds=[1, 2, 3], source="names", network="mlp")
    assert found.suggestion is not None
    assert found.spread < 2
    assert min(map(len, found.sweeps)) < 100, "a sweep ends when its loss explodes"
    assert str(found.suggestion) in search_sentences(found)[0]

    def trained(rate):
        model, of = build(1), plan(rate=rate)
        for _ in steps(model, batches_for(1), build_optimizer(model, of), of):
            pass
        return evaluate_loss(model, sides.dev, 16).nats

    less, best, more = (trained(found.suggestion * factor) for factor in (0.1, 1, 10))
    assert best < 2.45
    assert best < less - 0.1
    assert best < more - 0.1


def test_a_search_can_be_stored():
    trial = LearningRateTrial(0.1, 3.0, 3.0, -0.5)
    found = LearningRateSearch(
        "names", "mlp", ((trial,),), (1,), (None,), (0.1,), (None,), (SweepFailure("no-fall", 1, 0.1),), None, math.nan
    )
    assert from_plain(LearningRateSearch, as_plain(found)).sweeps == found.sweeps


# What may be asked of a search


def test_rates_are_a_factor_or_a_step_apart():
    climb = climb_for(RateOptions(lowest=0.001, highest=1.0, steps=31))
    ratios = np.array(climb.rates[1:]) / np.array(climb.rates[:-1])
    assert np.allclose(ratios, 1000 ** (1 / 30))
    assert climb.next_rate is None
    linear = climb_for(RateOptions(spacing="linear", steps=50))
    assert np.allclose(linear.rates, np.arange(1, 51) / 50)  # a rate of 0 would change nothing
    assert linear.next_rate is not None
    assert linear.next_rate(1.0) == pytest.approx(1.02)
    usual = climb_for(RateOptions())
    assert usual.rates == rates_between(1e-6, 10.0, 100)
    assert usual.next_rate is not None
    assert usual.next_rate(1.0) == pytest.approx(usual.rates[-1] / usual.rates[-2])
    low = climb_for(RateOptions(highest=1e-7, steps=10)).rates
    assert low == pytest.approx(rates_between(1e-10, 1e-7, 10))


@pytest.mark.parametrize(
    "wrong",
    [{"lowest": 0.0}, {"lowest": 1.0, "highest": 0.5}, {"steps": 5}, {"rule": "best"}, {"percentile": 0.0}],
)
def test_a_search_that_cannot_be_is_refused(wrong):
    with pytest.raises(PellucidError):
        RateOptions(**wrong)


def test_the_flattest_rates_are_those_of_the_smallest_derivative():
    trials = planted()
    rates, course = (np.array([getattr(trial, name) for trial in trials]) for name in ("learning_rate", "smoothed"))
    # dloss/dλ by hand, between the neighbours of each rate that are not equally far away.
    before, after = rates[1:-1] - rates[:-2], rates[2:] - rates[1:-1]
    slopes = (before**2 * course[2:] - after**2 * course[:-2] + (after**2 - before**2) * course[1:-1]) / (
        before * after * (before + after)
    )
    assert np.allclose([trial.rate_slope for trial in trials[1:-1]], slopes)
    sizes = np.abs([trial.rate_slope for trial in trials])
    flat = rates[np.argsort(sizes)[:10]]
    assert by_flatness(trials) == pytest.approx(math.exp(np.log(flat).mean()))
    # The lowest tenth in linear steps around the bottom of a bowl lie around it.
    bowl = make_trials([0.01 * i for i in range(1, 101)], [(0.01 * i - 0.6) ** 2 for i in range(1, 101)])
    assert by_flatness(bowl) == pytest.approx(0.6, abs=0.01)


def test_the_range_of_the_bigram_net_grows_until_the_loss_turns(sides):
    """Measured: 4.7, with which 150 steps reach 2.4520 nats on dev; a tenth of it 2.5433, twenty times it 4.33."""
    card = find_network("neural-ngram", "list")

    def build(seed):
        return card.build(card.config(len(sides.vocabulary), n=2))

    def batches_for(seed):
        return make_batches(sides.train, BATCH, 16, seed, by_length=False)

    of = plan()._replace(momentum=0.9)
    fixed = sweep_seeds(build, batches_for, of, [1, 2, 3], RateOptions(highest=10.0))
    assert fixed.suggestion is None
    assert {failure.kind for failure in fixed.failures} == {"still-falling"}
    grown = sweep_seeds(build, batches_for, of, [1, 2, 3])
    assert grown.suggestion is not None
    for sweep in grown.sweeps:
        assert sweep[-1].learning_rate > 10
        assert min(sweep, key=lambda trial: trial.smoothed).learning_rate < sweep[-1].learning_rate / 2
        assert [trial.learning_rate for trial in sweep[:100]] == rates_between(1e-6, 10.0, 100)

    def trained(rate):
        model, at = build(1), of._replace(learning_rate=rate)
        for _ in steps(model, batches_for(1), build_optimizer(model, at), at):
            pass
        return evaluate_loss(model, sides.dev, 16).nats

    less, best, more = (trained(grown.suggestion * factor) for factor in (0.1, 1, 20))
    assert best < less
    assert best < more


def test_another_rule_is_asked_for_by_its_name(mlp):
    asked = RateOptions(lowest=0.001, highest=4.0, steps=120, rule="flattest", percentile=5.0)
    found = sweep_seeds(*mlp, plan(), [1, 2], asked)
    assert found.answers == found.by_flatness
    assert (found.rule, found.percentile) == ("flattest", 5.0)
    assert search_sentences(found)[0].endswith("by the rule flattest.")
    assert "changed least" in search_sentences(found)[-1]
    assert from_plain(LearningRateSearch, as_plain(found)) == found
    for rule, answers in (("steepest", found.by_percentile), ("valley", found.by_valley)):
        again = sweep_seeds(*mlp, plan(), [1, 2], dataclasses.replace(asked, rule=rule))
        assert again.answers == answers
