"""Rules on activations, gradients, attention, positions, steps and saving: their numbers against formulas."""

import copy
import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.recording import by_unit, gradients_of, record
from pellucid.inspection.instrument.short_run import shares_left_by_decay, short_run
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import rules
from pellucid.inspection.rules.attention_unscaled import entropy_share

RULES = rules()


@pytest.fixture(autouse=True)
def same_dice():
    torch.manual_seed(0)


def only(name, patient):
    """The one finding of a rule."""
    [finding] = RULES[name].check(patient)
    return finding


def severities(name, patient):
    return [finding.severity for finding in RULES[name].check(patient)]


class Calls(nn.Module):
    """A module of one function."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


# What is watched.


def test_gradients_are_those_of_backward_and_leave_no_trace():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    inputs, targets = torch.randn(6, 4), torch.randn(6, 2)
    # A loss that reads the patient's own weights, as a penalty does.
    loss = lambda outputs, targets: F.mse_loss(outputs, targets) + model[0].weight.square().sum()  # noqa: E731
    patient = Specimen(model, (inputs,), targets, loss)
    seen = record(patient.copy(), with_loss=True)
    assert all(parameter.grad is None for parameter in model.parameters())
    F.mse_loss(model(inputs), targets).backward()
    for path, parameter in model.named_parameters():
        torch.testing.assert_close(seen.gradients[path], parameter.grad)
    assert seen.modules[1].gradient.shape == (6, 5)


def test_a_copy_in_double_runs_in_double_and_one_that_cannot_stays():
    patient = Specimen(nn.Linear(3, 2), (torch.randn(4, 3),))
    assert patient.copy().double().outputs().dtype is torch.float64
    stubborn = Specimen(Calls(lambda self, x: self.linear(x.float()), linear=nn.Linear(3, 2)), patient.inputs)
    assert stubborn.copy().double().outputs().dtype is torch.float32


def test_batches_come_with_their_own_targets():
    more = (((torch.zeros(1, 2),), torch.tensor([1])),)
    found = list(Specimen(nn.Identity(), (torch.ones(1, 2),), torch.tensor([0]), more=more).batches())
    assert [one.targets.item() for one in found] == [0, 1]


@pytest.mark.parametrize(("layer", "shape"), [(nn.Conv1d(2, 3, 1), (4, 2, 7)), (nn.Linear(7, 3), (4, 5, 7))])
def test_units_are_channels_of_convolutions_and_features_of_linear_layers(layer, shape):
    seen = record(Specimen(nn.Sequential(layer, nn.ReLU()), (torch.randn(shape),)), frozenset({"relu"}))
    assert by_unit(seen.functions[0].given, seen.maker_of(seen.functions[0].arguments[0])).shape[1] == 3


# Activations.


@pytest.mark.parametrize("activation", [F.relu, torch.relu, lambda x: x.relu_(), lambda x: F.relu(x) ** 2, F.gelu])
def test_dead_units_are_counted_however_the_activation_is_called(activation):
    linear = nn.Linear(4, 10)
    nn.init.constant_(linear.bias[:7], -50.0)
    finding = only(
        "dead-units", Specimen(Calls(lambda self, x: activation(self.linear(x)), linear=linear), (torch.randn(64, 4),))
    )
    assert finding.severity == "suspicious"
    assert finding.seen.startswith("7 of 10 units")


def test_a_unit_that_wakes_in_another_batch_is_not_dead():
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    nn.init.ones_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    asleep, awake = -torch.ones(32, 1), torch.ones(32, 1)
    assert severities("dead-units", Specimen(model, (asleep,))) == ["broken"]
    assert severities("dead-units", Specimen(model, (asleep,), more=(((awake,), None),))) == ["sound"]


def test_saturation_is_the_share_of_values_past_the_ends():
    x = torch.randn(100, 20) * 3
    finding = only("saturated", Specimen(nn.Sequential(nn.Tanh(), nn.Linear(20, 2)), (x,)))
    share = (x.double().tanh().abs() > 0.97).double().mean().item()
    assert finding.seen.startswith(f"{100 * share:.2f} % of tanh's 2000 values")


def test_the_last_sigmoid_may_be_sure():
    assert (
        severities("saturated", Specimen(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()), (100 * torch.randn(8, 2),)))
        == []
    )


# Gradients over depth.


def test_the_factor_of_a_layer_is_found():
    """Layers that only multiply by 0.1: the gradient does, too."""
    layers = [nn.Linear(3, 3, bias=False) for _ in range(8)]
    for layer in layers:
        layer.weight.data = 0.1 * torch.eye(3)
    patient = Specimen(nn.Sequential(*layers), (torch.randn(5, 3),), torch.zeros(5, 3), lambda out, targets: out.sum())
    finding = only("gradients-over-depth", patient)
    assert finding.severity == "suspicious"
    assert "1e-06 times" in finding.seen  # the middle of the first two beside that of the last two
    assert "a factor of 0.1 a layer" in finding.means


def test_a_head_that_begins_at_zero_hides_nothing():
    layers = [part for _ in range(6) for part in (nn.Linear(8, 8), nn.ReLU())]
    for layer in layers[::2]:
        nn.init.kaiming_normal_(layer.weight)
    head = nn.Linear(8, 3)
    nn.init.zeros_(head.weight)
    patient = Specimen(nn.Sequential(*layers, head), (torch.randn(32, 8),), torch.randint(3, (32,)), F.cross_entropy)
    assert severities("gradients-over-depth", patient) == ["sound"]


# Linear layers in a row, and biases before norms.


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([], "suspicious"),
        ([nn.Dropout(0.5)], "suspicious"),
        ([nn.Identity()], "suspicious"),
        ([nn.ReLU()], "sound"),
        ([nn.ReLU(inplace=True)], "sound"),
        ([nn.LayerNorm(16)], "sound"),
    ],
    ids=str,
)
def test_linear_layers_are_in_a_row_if_nothing_bends_between(between, expected):
    model = nn.Sequential(nn.Linear(8, 16), *between, nn.Linear(16, 8))
    assert severities("linear-in-a-row", Specimen(model, (torch.randn(4, 8),))) == [expected]


def test_what_is_put_out_too_cannot_be_folded_away():
    """The code of an autoencoder is used by others, so its layer has to stay."""

    def both(self, x):
        code = self.one(x)
        return self.two(code) * code.mean()

    model = Calls(both, one=nn.Linear(8, 16), two=nn.Linear(16, 8))
    assert severities("linear-in-a-row", Specimen(model, (torch.randn(4, 8),))) == ["sound"]


def test_a_narrow_middle_may_be_meant():
    assert severities(
        "linear-in-a-row", Specimen(nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8)), (torch.randn(4, 8),))
    ) == ["note"]


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (nn.BatchNorm1d(5), "note"),
        (nn.GroupNorm(5, 5), "note"),
        (nn.InstanceNorm1d(5), "note"),
        (nn.GroupNorm(1, 5), None),  # the mean over all channels leaves how their biases differ
    ],
    ids=str,
)
def test_norms_that_take_a_bias_away(norm, expected):
    model = nn.Sequential(nn.Conv1d(2, 5, 1), norm)
    found = severities("bias-before-norm", Specimen(model, (torch.randn(4, 2, 9),)))
    assert found == ([] if expected is None else [expected])


def test_a_norm_that_is_frozen_keeps_the_bias_alive():
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
    model[1].eval()
    assert severities("bias-before-norm", Specimen(model, (torch.randn(8, 3),))) == []


# Attention.


def test_entropy_is_that_of_torch_and_barred_keys_do_not_count():
    scores = torch.randn(2, 3, 7, dtype=torch.float64)
    expected = torch.distributions.Categorical(logits=scores).entropy().mean().item() / math.log(7)
    assert entropy_share(scores) == pytest.approx(expected, abs=1e-8)
    barred = torch.cat([scores, torch.full((2, 3, 4), -math.inf)], -1)
    assert entropy_share(barred) == pytest.approx(expected, abs=1e-8)


def heads(self, x):
    return (part.view(*x.shape[:2], 4, -1).transpose(1, 2) for part in (self.q(x), self.k(x), self.v(x)))


def by_hand(self, x):
    q, k, v = heads(self, x)
    return F.dropout((q @ k.mT).softmax(-1), 0.1, self.training) @ v


def by_einsum(self, x):
    q, k, v = heads(self, x)
    return torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(dim=-1), v)


def fused(self, x):
    return F.scaled_dot_product_attention(*heads(self, x), scale=1.0)


@pytest.mark.parametrize("attention", [by_hand, by_einsum, fused], ids=lambda one: one.__name__)
def test_scores_without_a_scale_are_found_however_they_are_made(attention):
    parts = {name: nn.Linear(256, 256, bias=False) for name in "qkv"}
    patient = Specimen(Calls(attention, **parts), (2 * torch.randn(2, 16, 256),))
    finding = only("attention-unscaled", patient)
    assert finding.severity == "suspicious"
    assert "√64 = 8" in finding.seen
    queries, keys, _ = heads(patient.model, patient.inputs[0])
    share = entropy_share((queries @ keys.mT).detach())
    assert f"is {share:.2f} of" in finding.seen


def test_scaled_before_the_product_is_scaled():
    def scaled(self, x):
        q, k, v = heads(self, x)
        return (q / 8 @ k.mT).softmax(-1) @ v

    patient = Specimen(Calls(scaled, **{name: nn.Linear(256, 256) for name in "qkv"}), (torch.randn(2, 16, 256),))
    assert only("attention-unscaled", patient).severity == "sound"


def test_a_softmax_over_classes_is_no_attention():
    model = Calls(lambda self, x: self.head(x).softmax(-1), head=nn.Linear(4, 50))
    assert severities("attention-unscaled", Specimen(model, (100 * torch.randn(2, 8, 4),))) == []


# Positions.


def masked_fill(self, q, k, v, future):
    return (q @ k.mT / 4).masked_fill(future, float("-inf")).softmax(-1) @ v


def where(self, q, k, v, future):
    return torch.where(future, torch.tensor(float("-inf")), q @ k.mT / 4).softmax(-1) @ v


def added(self, q, k, v, future):
    return (q @ k.mT / 4 + torch.zeros(future.shape).masked_fill(future, -1e9)).softmax(-1) @ v


def causal_fused(self, q, k, v, future):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_of_torch(self, q, k, v, future):
    return self.torch_s(q, k, v, attn_mask=future, need_weights=False)[0]


class Reader(nn.Module):
    """Two layers of causal attention over tokens."""

    def __init__(self, attend, has_positions):
        super().__init__()
        self.embed, self.head, self.attend = nn.Embedding(9, 16), nn.Linear(16, 9), attend
        self.places = nn.Embedding(12, 16) if has_positions else None
        self.torch_s = nn.MultiheadAttention(16, 2, batch_first=True)
        self.layers = nn.ModuleList([nn.Linear(16, 48) for _ in range(2)])

    def forward(self, tokens):
        x, time = self.embed(tokens), tokens.shape[1]
        if self.places is not None:
            x = x + self.places(torch.arange(time))
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = x + self.attend(self, *layer(x).chunk(3, -1), future)
        return self.head(x)


@pytest.mark.parametrize(
    "attend", [masked_fill, where, added, causal_fused, causal_of_torch], ids=lambda one: one.__name__
)
def test_a_mask_is_lifted_to_see_whether_there_are_positions(attend):
    tokens = torch.randint(9, (4, 12))
    blind = only("no-positions", Specimen(Reader(attend, has_positions=False), (tokens,), tokens))
    assert blind.severity == "note"
    assert "once the mask is lifted" in blind.seen
    assert only("no-positions", Specimen(Reader(attend, has_positions=True), (tokens,), tokens)).severity == "sound"


def test_what_reads_each_token_by_itself_has_no_order_to_see():
    tokens = torch.randint(9, (4, 12))
    assert severities("no-positions", Specimen(nn.Embedding(9, 9), (tokens,), tokens)) == []


def test_the_longest_row_is_found_and_a_promise_is_held_against_it():
    model = Reader(causal_fused, has_positions=True)
    patient = Specimen(model, (torch.randint(9, (4, 6)),))
    assert re.match(r"rows of up to 12 tokens .*has 12", only("positions-overflow", patient).seen)
    model.block_size = 64
    assert only("positions-overflow", patient).severity == "suspicious"
    model.block_size = 12
    assert only("positions-overflow", patient).severity == "sound"


# Numbers that are none.


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x - 3).abs().log(), "log(0) is -inf in row 2"),
        (lambda x: (100 * x).exp(), "exp(100) is inf in row 0"),
        (lambda x: x / (x - 3), "div(3, 0) is inf in row 2"),
        (lambda x: (x - 3.5).sqrt(), "sqrt(-2.5) is nan in row 0"),
    ],
)
def test_the_first_call_that_gives_no_number_is_named(function, expected):
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    model = Calls(lambda self, x: self.linear(function(x)), linear=nn.Linear(1, 1))
    finding = only("nan-origin", Specimen(model, (x,), torch.zeros(4, 1), F.mse_loss))
    assert finding.severity == "broken"
    assert expected in finding.seen


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_weight_that_is_no_number_is_named_before_the_layer_that_shows_it(value):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight[1, 0] = value
    finding = only("nan-origin", Specimen(model, (torch.ones(4, 2),), torch.zeros(4, 1), F.mse_loss))
    if value == -math.inf:
        # ReLU makes 0 of it, so that the loss is a number; on the way back 0 · ∞ is none, or all is well.
        assert finding.severity in ("sound", "broken")
        return
    assert (finding.severity, finding.where) == ("broken", "0.weight")
    assert (
        f"1 {'nan' if math.isnan(value) else 'infinite'} of 6 numbers of 0.weight are no numbers already"
        in finding.seen
    )


def test_a_weight_past_all_others_is_named_before_the_call_that_shows_it():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        model[2].weight[3, 1] = 4e30
    patient = Specimen(model, (torch.rand(5, 4) + 1,), torch.zeros(5, 1), F.mse_loss)
    finding = only("nan-origin", patient)
    assert finding.severity == "broken"
    assert finding.where == "2.weight"
    largest = sorted(weight.abs().max().item() for weight in model.parameters())
    usual = (largest[2] + largest[3]) / 2
    assert finding.seen.endswith(f"2.weight has numbers up to 4e+30, where other weights have {usual:.3g}")
    assert "is inf" in finding.seen


def test_a_run_that_ends_in_no_number_names_the_update():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e12)
    patient = Specimen(model, (torch.randn(6, 4),), torch.randn(6, 1), F.mse_loss, optimizer)
    finding = only("learning-rate", patient)
    twin = copy.deepcopy(model)
    sizes = {name: [weight.abs().max().item()] for name, weight in twin.named_parameters()}
    n_made = 0
    while n_made < 5:  # the same descent, written out
        n_made += 1
        loss = F.mse_loss(twin(patient.inputs[0]), patient.targets)
        slopes = torch.autograd.grad(loss, list(twin.parameters()))
        with torch.no_grad():
            for (name, weight), slope in zip(twin.named_parameters(), slopes, strict=True):
                weight -= 1e12 * slope
                sizes[name].append(weight.abs().max().item())
            if not F.mse_loss(twin(patient.inputs[0]), patient.targets).isfinite():
                break
    assert f"no number at step {n_made + 1}" in finding.seen
    bad = [name for name, seen in sizes.items() if not math.isfinite(seen[-1])]
    grown = {name: seen[-1] / max(seen[0], 0.1) for name, seen in sizes.items()}
    assert f" {bad[0] if bad else max(grown, key=grown.__getitem__)} " in finding.seen
    assert "the update of step" in finding.seen


def test_a_slope_without_end_is_found_on_the_way_back():
    model = Calls(lambda self, x: (self.linear(x) * 0).sqrt(), linear=nn.Linear(2, 1))
    finding = only("nan-origin", Specimen(model, (torch.randn(4, 2),), torch.ones(4, 1), F.mse_loss))
    assert finding.severity == "broken"
    assert "gradients of 2 parameters are not" in finding.seen


def test_a_mask_of_minus_infinity_is_no_mistake():
    scores = Calls(
        lambda self, x: self.linear(x).masked_fill(torch.tensor([False, False, True]), -math.inf),
        linear=nn.Linear(4, 3),
    )
    patient = Specimen(scores, (torch.randn(8, 4),), torch.randint(2, (8,)), F.cross_entropy)
    assert severities("nan-origin", patient) == ["sound"]


class WritesIntoEmpty(nn.Linear):
    def forward(self, x):
        made = super().forward(x)
        return made.new_empty(made.shape).copy_(made)


def test_memory_that_nobody_has_written_yet_is_no_origin():
    """Its numbers are what was there before, which deterministic algorithms make nan so that it is always noticed."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        assert bool(torch.ones(3).new_empty(3).isnan().all())
        patient = Specimen(WritesIntoEmpty(2, 1), (torch.randn(4, 2),), torch.ones(4, 1), F.mse_loss)
        assert severities("nan-origin", patient) == ["sound"]
    finally:
        torch.use_deterministic_algorithms(before)


# Steps.


def slope(rate, optimizer=torch.optim.SGD, **settings):
    """The loss is (w - 0)², so that a step of rate r multiplies w by 1 - 2r."""
    line = nn.Linear(1, 1, bias=False)
    nn.init.constant_(line.weight, 3.0)
    made = optimizer(line.parameters(), lr=rate, **settings)
    return Specimen(line, (torch.ones(2, 1),), torch.zeros(2, 1), F.mse_loss, made)


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
def test_steps_are_those_of_the_formula(factor):
    losses = short_run(slope(0.02), factor=factor, steps=3).losses
    assert losses == pytest.approx([9 * (1 - 0.04 * factor) ** (2 * step) for step in range(4)], rel=1e-5)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(1e-7, "suspicious"), (1e-2, "sound"), (0.3, "sound"), (1.5, "suspicious"), (0.0, "suspicious")],
)
def test_rates_far_off_are_found_and_others_are_not(rate, expected):
    """Above 1 each step lands higher up: |1 - 2r| > 1."""
    assert severities("learning-rate", slope(rate)) == [expected]


def test_a_rate_that_is_warmed_up_from_zero_is_only_a_note():
    patient = slope(0.1)
    torch.optim.lr_scheduler.LambdaLR(patient.optimizer, lambda step: step / 10)
    assert severities("learning-rate", patient) == ["note"]


def test_a_step_keeps_the_momentum_that_there_is():
    patient = slope(0.1, momentum=0.9)
    patient.loss_of(patient.outputs()).backward()
    patient.optimizer.step()
    by_hand = [patient.loss_of(patient.outputs()).item()]
    expected = short_run(patient, steps=1).losses
    patient.optimizer.zero_grad()
    patient.loss_of(patient.outputs()).backward()
    patient.optimizer.step()
    by_hand.append(patient.loss_of(patient.outputs()).item())
    assert expected == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("optimizer", "left"),
    [
        (lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.5), 1 - 0.01 * 0.5),
        (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2), 1 - 0.1 * 0.2),
        (lambda p: torch.optim.Adam(p, lr=0.1), 1.0),
    ],
)
def test_decay_is_what_a_step_without_gradient_takes(optimizer, left):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    found = shares_left_by_decay(Specimen(model, (), optimizer=optimizer(model.parameters())))
    assert found == {path: pytest.approx(left, abs=1e-6) for path in dict(model.named_parameters())}


@pytest.mark.parametrize(("times", "expected"), [(1, "sound"), (2, "suspicious"), (5, "suspicious")])
def test_gradients_of_several_batches_are_counted(times, expected):
    model = nn.Linear(4, 3)
    patient = Specimen(model, (torch.randn(16, 4),), torch.randint(3, (16,)), F.cross_entropy)
    for _ in range(times):
        patient.loss_of(patient.outputs()).backward()
    finding = next(iter(RULES["accumulation"].check(patient)))
    assert finding.severity == expected
    assert f"{times} times those of this batch" in finding.seen


@pytest.mark.parametrize(
    ("loss", "optimizer", "expected"),
    [
        (nn.CrossEntropyLoss(), torch.optim.SGD, "sound"),
        (nn.CrossEntropyLoss(reduction="sum"), torch.optim.SGD, "suspicious"),
        (nn.CrossEntropyLoss(reduction="sum"), torch.optim.Adam, "note"),
        (nn.CrossEntropyLoss(ignore_index=0), torch.optim.SGD, "note"),
    ],
)
def test_sums_and_means_are_told_apart(loss, optimizer, expected):
    model = nn.Linear(4, 3)
    targets = torch.tensor([0, 0, 0, 1, 1, 2, 1, 2])
    patient = Specimen(model, (torch.randn(8, 4),), targets, loss, optimizer(model.parameters(), lr=0.1))
    assert severities("accumulation", patient) == [expected]


# Dropout, inputs, ties, files.


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([nn.Dropout(0.2)], ["sound"]),
        ([nn.Dropout(0.2), nn.ReLU(), nn.Dropout(0.2)], ["sound"]),
        ([nn.Dropout(0.2), nn.Dropout(0.3)], ["suspicious"]),
        ([nn.Dropout(1.0)], ["broken"]),
        ([nn.Dropout(0.0)], ["note"]),
        ([], []),
    ],
    ids=str,
)
def test_dropouts(layers, expected):
    assert (
        severities(
            "dropout-odd", Specimen(nn.Sequential(nn.Linear(9, 9), *layers, nn.Linear(9, 2)), (torch.randn(8, 9),))
        )
        == expected
    )


def test_what_two_dropouts_keep():
    finding = only("dropout-odd", Specimen(nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.2)), (torch.randn(8, 9),)))
    assert "40 % is kept" in finding.seen


def test_fused_attention_that_drops_in_use_is_found():
    model = Calls(lambda self, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5))
    assert severities("dropout-odd", Specimen(model, (torch.randn(2, 6, 8),))) == ["suspicious"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x, ["sound"]),
        (lambda x: 100 * x, ["suspicious"]),
        (lambda x: x + 50, ["suspicious"]),
        (lambda x: 1e-4 * x, ["suspicious"]),
        (lambda x: x * torch.tensor([1e-4, 1e-4, 1e-4, 9.0]), ["suspicious"]),
    ],
)
def test_inputs_are_judged_by_mean_deviation_and_columns(change, expected):
    x = change(torch.randn(64, 4))
    assert severities("inputs-unnormalised", Specimen(nn.Linear(4, 2), (x,))) == expected
    assert severities("inputs-unnormalised", Specimen(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), (x,))) == []


def test_a_module_that_normalises_by_itself_is_judged_by_what_its_layer_reads():
    model = Calls(lambda self, x: self.linear(x / 255 - 0.5), linear=nn.Linear(16, 2))
    assert severities("inputs-unnormalised", Specimen(model, (torch.randint(256, (8, 16)).float(),))) == ["sound"]


def test_one_parameter_in_two_roles_is_no_usual_tie():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].weight = model[0].bias
    assert "bias here and norm there" in only("ties", Specimen(model, (torch.randn(2, 4),))).seen


def test_layers_of_torch_s_own_stack_begin_as_copies():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    assert torch.equal(model.layers[0].linear1.weight, model.layers[1].linear1.weight)
    assert severities("ties", Specimen(model, (torch.randn(2, 5, 8),))) == ["sound"]


def test_frozen_weights_may_stay_out_of_the_file():
    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.base, self.small = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)

        def forward(self, x):
            return self.base(x) + self.small(x)

        def state_dict(self, *args, **kwargs):
            return {key: one for key, one in super().state_dict(*args, **kwargs).items() if "small" in key}

        def load_state_dict(self, state, strict=True, assign=False):
            return super().load_state_dict(state, strict=False, assign=assign)

    assert severities("save-load", Specimen(Adapter(), (torch.randn(2, 4),))) == ["note"]


def test_a_table_that_is_computed_need_not_be_saved():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)
            self.register_buffer("waves", torch.arange(4.0).sin(), persistent=False)

        def forward(self, x):
            return self.linear(x + self.waves)

    assert severities("save-load", Specimen(Waves(), (torch.randn(2, 4),))) == ["sound"]


def test_a_last_layer_of_zeros_is_no_symmetry():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    nn.init.zeros_(model[2].weight)
    patient = Specimen(model, (torch.randn(16, 4),), torch.randint(3, (16,)), F.cross_entropy)
    assert "suspicious" not in severities("symmetry", patient)


# Norms on the path.


@pytest.mark.parametrize(
    ("norm_first", "depth", "expected"), [(True, 9, "sound"), (False, 2, "sound"), (False, 9, "suspicious")]
)
def test_norms_on_the_path_are_seen_in_torch_s_own_layers(norm_first, depth, expected):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    model = nn.Sequential(nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.Linear(8, 3))
    loss = lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets.flatten())  # noqa: E731
    optimizer = torch.optim.Adam(model.parameters())
    patient = Specimen(model, (torch.randn(2, 5, 8),), torch.randint(3, (2, 5)), loss, optimizer)
    assert severities("post-norm-depth", patient) == [expected]
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 100)
    assert severities("post-norm-depth", patient) == ["sound"]


def test_parameters_that_no_loss_reaches_have_no_gradient():
    model = nn.ModuleDict({"used": nn.Linear(2, 1), "idle": nn.Linear(2, 1)})
    found = gradients_of(model, model["used"](torch.ones(1, 2)).sum())
    assert set(found) == {"used.weight", "used.bias"}


def test_a_module_that_cannot_be_copied_is_passed_over():
    model = nn.Linear(3, 3)
    model.seen = model(torch.ones(1, 3))  # a tensor with a past
    patient = Specimen(model, (torch.randn(4, 3),), torch.randn(4, 3), F.mse_loss, torch.optim.SGD(model.parameters()))
    for name in ("dead-units", "gradients-over-depth", "nan-origin", "save-load", "no-positions"):
        diagnosis = diagnose(patient, [name])
        assert [one.rule for one in diagnosis.findings] == ["opening"]
        reason = diagnosis.rules[0].passed_over
        assert reason.startswith("not known: ") or (name == "no-positions" and reason == "does not apply")
    # What needs no copy, because the model itself makes its steps in a forked process, is told.
    assert [one.rule for one in diagnose(patient, ["learning-rate"]).findings] == ["opening", "learning-rate"]
