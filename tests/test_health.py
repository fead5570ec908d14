"""A look at a step: its numbers against autograd's own, and no trace of it in what is trained."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from tests.at_length import examples
from torch import nn
from torch.nn import functional

from pellucid.inspection.health import (
    FEWEST_STEPS,
    MOST_LOOKS,
    HealthProbe,
    cadence,
    is_look,
    sample_examples,
    telling_layers,
)
from pellucid.inspection.judgements import NEARLY_ZERO, flatness, histogram, unit_map, weight_stats
from pellucid.models.catalogue import find_network
from pellucid.records import Health, Histogram, LayerStats, WeightStats, as_plain
from pellucid.records.plain import from_plain
from pellucid.training.run import judge_run
from pellucid.training.tasks.task import initial_loss

TRANSFORMER = find_network("transformer", "list")

VOCAB = 11


class Plain(nn.Module):
    """Two hidden layers with everything that could betray a look: dropout, running averages, a block."""

    def __init__(self, activation=nn.Tanh):
        super().__init__()
        self.table = nn.Embedding(VOCAB, 6)
        self.below = nn.Sequential(nn.Linear(6, 16), activation())
        self.norm = nn.LayerNorm(16)
        self.dropout = nn.Dropout(0.2)
        self.hidden = nn.Linear(16, 16, bias=False)
        self.act = activation()
        self.head = nn.Linear(16, VOCAB)

    def forward(self, tokens):
        seen = self.norm(self.below(self.table(tokens)))
        seen = self.norm(seen + self.act(self.hidden(self.dropout(seen))))
        return self.head(seen)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, 6)
        self.rnn = nn.RNN(6, 12, batch_first=True)
        self.batch_norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(12, VOCAB)

    def forward(self, tokens):
        states, _ = self.rnn(self.table(tokens))
        return self.head(self.batch_norm(states.transpose(1, 2)).transpose(1, 2))


NETWORKS = {
    "tanh": Plain,
    "relu in place": lambda: Plain(lambda: nn.ReLU(inplace=True)),
    "recurrent": Recurrent,
    "transformer": lambda: TRANSFORMER.build(TRANSFORMER.tiny),
}


def loss_of(scores, targets):
    return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def batch(seed, n=7, time=6):
    draw = torch.Generator().manual_seed(seed)
    tokens, targets = (torch.randint(0, VOCAB, (n, time), generator=draw) for _ in range(2))
    targets[: n // 2, time // 2 :] = -100
    return tokens, targets


def trained(build, n_steps, watches):
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    probe = HealthProbe(model)

    def step(i):
        tokens, targets = batch(i)
        optimizer.zero_grad()
        loss_of(model(tokens), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()

    for i in range(1, n_steps + 1):
        if watches:
            with probe.watch(i, with_maps=True):
                step(i)
        else:
            step(i)
    return model, probe.take_looks()


def bits(model):
    tensors = {**model.state_dict(), **{f"{name}.grad": p.grad for name, p in model.named_parameters()}}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_look_leaves_no_trace(name):
    plain, _ = trained(NETWORKS[name], 12, watches=False)
    after_plain = torch.get_rng_state()
    looked_at, looks = trained(NETWORKS[name], 12, watches=True)
    assert bits(looked_at) == bits(plain)
    assert torch.equal(torch.get_rng_state(), after_plain)
    assert [health.step for health in looks] == list(range(1, 13))
    for module in looked_at.modules():
        assert not module._forward_hooks
        assert module.training
    for parameter in looked_at.parameters():
        assert not parameter._backward_hooks
        assert not parameter._post_accumulate_grad_hooks


def test_numbers_are_those_of_autograd():
    """Everything once more in float64, by retain_grad and numpy, on the positions that the loss asks about."""
    torch.manual_seed(1)
    model = Plain().double().eval()
    tokens, targets = batch(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    hidden = model.norm(model.below(model.table(tokens)))
    into = model.hidden(hidden)
    out = model.act(into)
    for one in (into, out):
        one.retain_grad()
    loss_of(model.head(model.norm(hidden + out)), targets).backward()
    asked = targets.numpy() != -100
    values, gradients = out.detach().numpy()[asked], out.grad.numpy()[asked]
    weight = model.hidden.weight
    wanted_norm, wanted_update = weight.grad.norm().item(), (0.3 * weight.grad).numpy().std()
    deviation = weight.detach().numpy().std()
    optimizer.zero_grad()

    probe = HealthProbe(model)
    with probe.watch(5, with_maps=True):
        loss_of(model(tokens), targets).backward()
        optimizer.step()
    (health,) = probe.take_looks()
    found = {layer.path: layer for layer in health.layers}["act"]
    assert (found.kind, found.width, found.examples) == ("Tanh", 16, asked.sum())
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.deviation == pytest.approx(values.std(), rel=1e-12)
    assert found.gradient_mean == pytest.approx(gradients.mean(), rel=1e-9)
    assert found.gradient_deviation == pytest.approx(gradients.std(), rel=1e-12)
    assert found.saturated == np.mean(np.abs(values) > 0.97)
    assert found.values.counts == tuple(np.histogram(values, 60, (values.min(), values.max()))[0])
    stats = {weight.path: weight for weight in health.weights}["hidden.weight"]
    assert stats.shape == (16, 16)
    assert stats.deviation == pytest.approx(deviation, rel=1e-12)
    assert stats.gradient_norm == pytest.approx(wanted_norm, rel=1e-12)
    assert stats.update_ratio == pytest.approx(wanted_update / deviation, rel=1e-9)
    # The map has the gradient behind the activation: what the slope lets through.
    (units,) = [units for units in health.maps if units.path == "act"]
    passed = np.abs(into.grad.numpy()[asked])[:32]
    levels = np.minimum(9, 10 * np.sqrt(passed / passed.max())).astype(int)
    assert units.gradients == tuple("".join(map(str, row)) for row in levels)


def test_a_block_and_its_last_layer_are_told_once_and_a_shared_norm_is_pooled():
    model = Plain()
    probe = HealthProbe(model)
    tokens, targets = batch(0)
    with probe.watch(1):
        loss_of(model(tokens), targets).backward()
    (health,) = probe.take_looks()
    layers = {layer.path: layer for layer in health.layers}
    # `below` puts out the very tensor of its tanh, which tells more; the norm is called twice.
    assert list(layers) == ["table", "below.0", "below.1", "norm", "hidden", "act", "head"]
    assert layers["norm"].examples == 2 * layers["act"].examples
    assert probe.take_looks() == []


def test_dead_units_are_counted_and_nothing_came_back_to_their_weights():
    torch.manual_seed(0)
    model = Plain(nn.ReLU)
    with torch.no_grad():
        model.hidden.weight[:5] = 0  # out = 0 for every input, and ReLU is flat at 0
    probe = HealthProbe(model)
    tokens, targets = batch(0)
    with probe.watch(1, with_maps=True):
        loss_of(model(tokens), targets).backward()
    assert torch.equal(model.hidden.weight.grad[:5], torch.zeros(5, 16))
    (health,) = probe.take_looks()
    found = {layer.path: layer for layer in health.layers}["act"]
    assert found.always_zero >= 5
    (units,) = [units for units in health.maps if units.path == "act"]
    assert {row[:5] for row in units.values} == {"99999"}
    assert {row[:5] for row in units.gradients} == {"00000"}


def test_a_layer_that_the_loss_does_not_need_has_gradient_zero():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            self.unused(x)
            return self.used(x)

    model = Aside()
    probe = HealthProbe(model)
    with probe.watch(1):
        model(torch.ones(4, 3)).square().sum().backward()
    (health,) = probe.take_looks()
    used, unused = health.layers
    assert used.gradient_deviation > 0
    assert (unused.gradient_mean, unused.gradient_deviation) == (0.0, 0.0)
    assert {weight.path: weight.gradient_norm for weight in health.weights}["unused.weight"] == 0.0
    assert {weight.path: weight.update_ratio for weight in health.weights}["used.weight"] == 0.0


def test_a_step_that_fails_leaves_no_hook_and_no_look():
    model = Plain()
    probe = HealthProbe(model)
    with pytest.raises(IndexError, match="out of range"), probe.watch(1):
        model(torch.tensor([[VOCAB]]))
    assert probe.take_looks() == []
    assert not any(module._forward_hooks for module in model.modules())


def test_what_runs_without_gradients_is_not_looked_at():
    model = Plain()
    probe = HealthProbe(model)
    tokens, targets = batch(0)
    with probe.watch(1):
        with torch.no_grad():
            model(tokens[:1])
        loss_of(model(tokens), targets).backward()
    (health,) = probe.take_looks()
    assert {layer.path: layer.examples for layer in health.layers}["head"] == (targets != -100).sum()


def test_examples_for_each_position_follow_its_padding():
    """A layer that sees each position's window as a row of its own: (batch, time, 2, units)."""

    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.act, self.head = nn.Embedding(VOCAB, 4), nn.Tanh(), nn.Linear(8, VOCAB)

        def forward(self, tokens):
            pairs = functional.pad(tokens, (1, 0)).unfold(1, 2, 1)
            return self.head(self.act(self.table(pairs).flatten(0, 1)).unflatten(0, tokens.shape).flatten(-2))

    model = Windows()
    probe = HealthProbe(model)
    tokens, targets = batch(0)
    with probe.watch(1):
        loss_of(model(tokens), targets).backward()
    (health,) = probe.take_looks()
    found = {layer.path: layer.examples for layer in health.layers}
    n_asked = int((targets != -100).sum())
    assert found["head"] == n_asked
    assert found["act"] == 2 * n_asked


def test_which_layers_there_is_room_for():
    model = TRANSFORMER.build(TRANSFORMER.tiny)
    everything, none = telling_layers(model)
    assert none == ()
    few, rest = telling_layers(model, most=6)
    assert list(few) == [
        "blocks.0",
        "blocks.0.attention",
        "blocks.0.feed_forward",
        "blocks.0.feed_forward.activation",
        "blocks.1",
        "blocks.1.feed_forward.activation",
    ]
    assert sorted([*few, *rest]) == sorted(everything)


@pytest.mark.parametrize("kind", [nn.Tanh, nn.Sigmoid, nn.GELU, nn.ReLU])
def test_flat_is_where_the_slope_is_nearly_zero(kind):
    into = torch.linspace(-8, 8, 4001, dtype=torch.float64, requires_grad=True)
    out = kind()(into)
    (slope,) = torch.autograd.grad(out.sum(), into)
    wanted = slope.abs() <= NEARLY_ZERO
    if kind is nn.GELU:
        wanted &= into < -1  # its slope is zero at -0.75 as well, on the way down; no unit stays there
    assert torch.equal(flatness(kind())(into, out), wanted)


def test_the_tail_of_gelu_is_where_scipy_finds_it():
    tail = brentq(lambda x: norm.cdf(x) + x * norm.pdf(x) + NEARLY_ZERO, -5, -1.5, xtol=1e-14)
    into = torch.tensor([tail - 1e-6, tail + 1e-6], dtype=torch.float64)
    assert flatness(nn.GELU())(into, into).tolist() == [True, False]


def test_what_cannot_saturate_says_so():
    assert flatness(nn.LeakyReLU()) is None
    assert flatness(nn.Linear(1, 1)) is None
    assert flatness(nn.RNN(1, 1, nonlinearity="relu")) is None
    assert flatness(nn.RNN(1, 1)) is not None


@settings(max_examples=examples(60))
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=300))
def test_every_value_falls_into_its_part(numbers):
    found = histogram(torch.tensor(numbers))
    values = np.array(numbers)
    width = (found.high - found.low) / 60
    below = np.concatenate([[0], np.cumsum(found.counts)])
    for k, n_below in enumerate(below):
        edge, rounding = found.low + k * width, 1e-9 * max(1.0, abs(found.low), abs(found.high))
        assert (values < edge - rounding).sum() <= n_below <= (values <= edge + rounding).sum()
    assert below[-1] == len(numbers)


def test_histograms_of_what_is_not_finite_or_all_alike():
    assert sum(histogram(torch.tensor([1.0, math.nan, math.inf, 3.0])).counts) == 2
    assert histogram(torch.full((3,), math.nan))[:2] == (-0.5, 0.5)
    assert histogram(torch.full((5,), 2.0)).counts[30] == 5


def test_a_sample_is_even_and_always_the_same():
    rows = sample_examples(20_000, 64)
    assert len(rows) == len(set(rows.tolist())) == 256
    assert torch.equal(rows, sample_examples.__wrapped__(20_000, 64))
    # Each quarter of the examples has its share; 64 of 256 expected, 5 deviations are 35.
    assert all(abs(((rows >= 5000 * k) & (rows < 5000 * (k + 1))).sum() - 64) < 35 for k in range(4))


def test_a_map_of_nothing_is_all_zeros():
    found = unit_map("a", "Tanh", torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3))
    assert found.values == found.gradients == ("000", "000")


def test_the_ratio_of_weights_that_are_all_alike_is_not_known():
    assert math.isnan(weight_stats("b", torch.zeros(4), torch.ones(4), 1.0).update_ratio)


@given(st.integers(1, 200_000))
def test_looks_are_few(steps):
    every = cadence(steps)
    looks = sum(is_look(step, every, steps) for step in range(1, steps + 1)) if steps < 2000 else steps // every + 2
    assert looks <= MOST_LOOKS + 2
    assert every >= FEWEST_STEPS
    assert is_look(1, every, steps)
    assert is_look(steps, every, steps)


def test_a_look_can_be_stored():
    _, looks = trained(Plain, 1, watches=True)
    stored = as_plain(looks[0])
    assert as_plain(from_plain(Health, stored)) == stored


# What the looks mean

START = initial_loss(3.2961, np.arange(27), 27)
NOTHING = Histogram(0.0, 1.0, (0,) * 60)


def layer(path="act", kind="Tanh", width=100, saturated=0.05, dead=0, gradient=1e-3):
    return LayerStats(path, kind, width, 512, 0.0, 0.6, saturated, dead, 0.0, gradient, NOTHING, NOTHING)


def look(*layers, ratio=1e-3, step=100):
    return Health(step, layers, (WeightStats("w", (4, 4), 0.1, 0.2, ratio), WeightStats("b", (4,), 0.0, 0.2, 9.0)))


# Each rule with what it must find and what it must pass over.
@pytest.mark.parametrize(
    ("health", "severity", "where", "words"),
    [
        ([look(layer(saturated=0.63))], "suspicious", "act", "63.00 % of Tanh's values"),
        ([look(layer(saturated=0.12))], "sound", "act", "12.00 % of Tanh's values"),
        ([look(layer(kind="ReLU", saturated=0.97))], "suspicious", "act", "97.00 % of ReLU's"),
        ([look(layer(kind="ReLU", saturated=0.63))], "sound", "act", "63.00 % of ReLU's"),
        ([look(layer(dead=100))], "broken", "act", "100 of 100 units of Tanh were flat on all 512 examples"),
        ([look(layer(), layer("b", dead=60))], "suspicious", "b", "60 of 100 units"),
        ([look(layer(), layer("b", dead=30))], "note", "b", "30 of 100 units"),
        ([look(layer(dead=2))], "sound", "act", "2 of 100 units"),
        ([look(layer(dead=0))], "sound", "act", "0 of 100 units"),
        ([look(layer("low", gradient=1e-7), layer("top"))], "suspicious", "low", "0.0001 times"),
        ([look(layer("low", gradient=10.0), layer("top"))], "suspicious", "low", "1e+04 times"),
        ([look(layer("low", gradient=0.0), layer("top"))], "broken", "low", "0 times"),
        ([look(layer("low", gradient=2e-4), layer("top"))], "sound", "low", "0.2 times"),
        # A branch that starts at zero gets nothing at the first look alone.
        (
            [look(layer("low", gradient=0.0), layer("top"), step=1), look(layer("low", gradient=3e-4), layer("top"))],
            *("sound", "low", "0.3 times"),
        ),
        ([look(layer(), ratio=r) for r in (0.9, 2.0, 3.0)], "suspicious", "w", "were 2.0e+00 of its own size"),
        ([look(layer(), ratio=r) for r in (0.9, 0.2, 0.3)], "note", "w", "were 3.0e-01 of its own size"),
        ([look(layer(), ratio=r) for r in (1e-5, 2e-5, 1e-3)], "note", "w", "were 2.0e-05"),
        ([look(layer(), ratio=r) for r in (1e-6, 2e-6, 1e-3)], "suspicious", "w", "were 2.0e-06"),
        ([look(layer(), ratio=r) for r in (1e-3, 2e-3, 1e-6)], "sound", "all matrices", "1.0e-03 (w)"),
        ([look(layer(), ratio=math.nan)], "sound", "act", "flat"),
    ],
)
def test_what_a_look_means(health, severity, where, words):
    found = [finding for finding in judge_run(health, START) if words in finding.seen]
    assert [(finding.severity, finding.where) for finding in found] == [(severity, where)]
    assert found[0].step == health[-1].step
    assert bool(found[0].try_next) is (severity != "sound")


def test_the_gravest_comes_first_and_a_bad_start_is_told():
    start = initial_loss(17.3, np.arange(27), 27)
    found = judge_run([look(layer(dead=100, saturated=1.0))], start)
    assert [finding.severity for finding in found] == ["broken", "suspicious", "suspicious", "sound"]
    assert "sure and wrong" in next(finding.seen for finding in found if finding.where == "the first loss")
    assert judge_run([], initial_loss(math.nan, np.arange(27), 27))[0].severity == "broken"


def test_a_network_that_is_ill_is_found_ill_and_a_well_one_well():
    """Weights 30 times too large saturate a tanh layer, and a look says so; the same layer drawn well is sound."""

    def found_with(scale):
        torch.manual_seed(0)
        model = Plain()
        with torch.no_grad():
            model.hidden.weight.mul_(scale)
        probe = HealthProbe(model)
        tokens, targets = batch(0)
        with probe.watch(1):
            loss_of(model(tokens), targets).backward()
        return {(finding.severity, finding.where) for finding in judge_run(probe.take_looks(), START)}

    assert ("suspicious", "act") in found_with(30.0)
    assert not {pair for pair in found_with(1.0) if pair[1] == "act" and pair[0] != "sound"}


def test_what_was_looked_at_is_freed():
    """An output whose hook knows it would be kept for ever: five megabytes with every training."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    probe = HealthProbe(model)
    outputs = []
    handle = model[0].register_forward_hook(lambda module, args, output: outputs.append(weakref.ref(output)))
    with probe.watch(1):
        model(torch.randn(5, 3)).sum().backward()
    handle.remove()
    gc.collect()
    assert [output() for output in outputs] == [None]
    assert len(probe.take_looks()) == 1
