"""Our norms and gains beside torch's and scipy's, and batch norm folded beside unfolded."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special
from torch import nn

from pellucid.errors import PellucidError
from pellucid.layers.feed_forward import ACTIVATIONS, build_activation, gain
from pellucid.layers.norms import NORMS, BatchNorm, GroupNorm, InstanceNorm, RMSNorm, build_norm, fold_batch_norm

# Each activation once more, by NumPy and scipy.
PLAIN = {
    "tanh": np.tanh,
    "relu": lambda z: max(z, 0.0),
    "leaky_relu": lambda z: z if z > 0 else 0.01 * z,
    "gelu": lambda z: z * special.ndtr(z),
    "sigmoid": special.expit,
}


def density(z):
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def mean_square(function, deviation=1.0):
    def integrand(z):
        return function(deviation * z) ** 2 * density(z)

    return sum(integrate.quad(integrand, *ends, epsabs=1e-14, limit=200)[0] for ends in ((-30, 0), (0, 30)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_gain_is_the_integral(name):
    assert gain(name) == pytest.approx(1 / math.sqrt(mean_square(PLAIN[name])), rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "leaky_relu"])
def test_torchs_gain_of_rectifiers_is_the_same(name):
    assert gain(name) == pytest.approx(nn.init.calculate_gain(name, 0.01), rel=1e-12)


def test_torchs_gain_of_tanh_is_a_rule_of_thumb():
    """Ours holds the variance of pre-activations at 1; 5/3 lets it settle a sixth higher. Neither dies or explodes."""
    assert nn.init.calculate_gain("tanh") == 5 / 3
    assert gain("tanh") == pytest.approx(1.5925, abs=1e-4)

    def settled(factor):
        return optimize.brentq(lambda v: factor**2 * mean_square(np.tanh, math.sqrt(v)) - v, 0.1, 10)

    assert settled(gain("tanh")) == pytest.approx(1, abs=1e-9)
    assert settled(5 / 3) == pytest.approx(1.1785, abs=1e-4)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_gain_keeps_the_variance_through_ten_layers(name):
    # Over 20 seeds it ended between 0.59 and 1.91; with gain 1 tanh ends at 0.05, sigmoid at 0.3, the rest below 0.001.
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(500, 512, generator=draw)
    for _ in range(10):
        x = build_activation(name)(x) @ torch.randn(512, 512, generator=draw) * gain(name) / math.sqrt(512)
    assert 0.4 < x.square().mean().item() < 2.5


def test_an_unknown_activation_brings_the_nearest():
    with pytest.raises(PellucidError, match=r"there is no activation called 'leaky'\. Perhaps you meant leaky_relu"):
        build_activation("leaky")


def twins(features=6, momentum=0.1):
    """Ours and torch's, in float64, with the same random gain and bias."""
    draw = torch.Generator().manual_seed(3)
    ours = BatchNorm(features, momentum=momentum).double()
    theirs = nn.BatchNorm1d(features, momentum=momentum, dtype=torch.float64)
    with torch.no_grad():
        ours.gain.copy_(torch.rand(features, generator=draw) + 0.5)
        ours.bias.copy_(torch.randn(features, generator=draw))
        theirs.weight.copy_(ours.gain)
        theirs.bias.copy_(ours.bias)
    return ours, theirs


@pytest.mark.parametrize("momentum", [0.1, 0.5])
@pytest.mark.parametrize("leading", [(9,), (3, 4), (2, 3, 5)], ids=str)
def test_batch_norm_is_torchs_in_training_and_after(leading, momentum):
    ours, theirs = twins(momentum=momentum)
    draw = torch.Generator().manual_seed(1)
    for is_training in (True, True, False):
        ours.train(is_training)
        theirs.train(is_training)
        x = (5 * torch.randn(*leading, 6, generator=draw, dtype=torch.float64) + 2).requires_grad_()
        up = torch.randn(*leading, 6, generator=draw, dtype=torch.float64)
        mine, yours = ours(x), theirs(x.reshape(-1, 6)).reshape(x.shape)
        assert torch.allclose(mine, yours, atol=1e-10, rtol=0)
        slopes = torch.autograd.grad(mine, [x, ours.gain, ours.bias], up)
        wanted = torch.autograd.grad(yours, [x, theirs.weight, theirs.bias], up)
        for a, b in zip(slopes, wanted, strict=True):
            assert torch.allclose(a, b, atol=1e-10, rtol=0)
        assert torch.allclose(ours.running_mean, theirs.running_mean, atol=1e-12, rtol=0)
        assert torch.allclose(ours.running_variance, theirs.running_var, atol=1e-12, rtol=0)


def test_batch_norm_is_its_formula():
    norm, _ = twins()
    x = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 3 - 1
    rows = x.numpy().reshape(-1, 6)
    gains, bias = norm.gain.detach().numpy(), norm.bias.detach().numpy()
    wanted = gains * (rows - rows.mean(0)) / np.sqrt(rows.var(0) + norm.epsilon) + bias
    assert norm(x).detach().numpy().reshape(-1, 6) == pytest.approx(wanted, abs=1e-12)
    running = 0.9 + 0.1 * rows.var(0, ddof=1)
    assert norm.running_variance.numpy() == pytest.approx(running, abs=1e-12)
    wanted = gains * (rows - 0.1 * rows.mean(0)) / np.sqrt(running + norm.epsilon) + bias
    assert norm.eval()(x).detach().numpy().reshape(-1, 6) == pytest.approx(wanted, abs=1e-12)


def test_a_single_row_in_training_takes_the_running_statistics_and_leaves_them():
    norm, _ = twins()
    norm(torch.randn(8, 6, dtype=torch.float64))
    before = norm.running_mean.clone(), norm.running_variance.clone()
    row = torch.randn(1, 1, 6, dtype=torch.float64)
    assert torch.equal(norm(row), norm.eval()(row))
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_variance, before[1])


def test_the_bias_before_batch_norm_has_no_gradient():
    linear, norm = nn.Linear(4, 6).double(), BatchNorm(6).double()
    norm(linear(torch.randn(16, 4, dtype=torch.float64))).pow(3).sum().backward()
    assert linear.bias.grad.abs().max() < 1e-9
    assert linear.weight.grad.abs().max() > 1e-3


def require_torchs(ours, theirs, x, flat):
    """Values and gradients, with every gain and bias drawn; flat: the shape in which torch's takes x."""
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    with torch.no_grad():
        for one, other in pairs:
            other.copy_(one.normal_())
    x.requires_grad_()
    up = torch.randn_like(x)
    mine, yours = ours(x), theirs(x.reshape(flat)).reshape(x.shape)
    assert torch.allclose(mine, yours, atol=1e-10, rtol=0)
    slopes = torch.autograd.grad(mine, [x, *(one for one, _ in pairs)], up)
    wanted = torch.autograd.grad(yours, [x, *(other for _, other in pairs)], up)
    for a, b in zip(slopes, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-10, rtol=0)


@pytest.mark.parametrize("groups", [1, 3, 4])
def test_group_norm_is_torchs(groups):
    ours, theirs = GroupNorm(12, groups=groups).double(), nn.GroupNorm(groups, 12, dtype=torch.float64)
    require_torchs(ours, theirs, 3 * torch.randn(2, 5, 12, dtype=torch.float64) + 1, flat=(10, 12))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_of_rows_are_torchs(kind):
    theirs = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[kind](12, eps=1e-5, dtype=torch.float64)
    x = 3 * torch.randn(2, 5, 12, dtype=torch.float64) + 1
    require_torchs(build_norm(kind, 12, groups=1).double(), theirs, x, flat=x.shape)


def test_rms_norm_is_its_formula():
    norm, rows = RMSNorm(7).double(), np.random.default_rng(0).normal(2, 3, (4, 7))
    gains = norm.gain.data.normal_().numpy()
    wanted = gains * rows / np.sqrt((rows**2).mean(1, keepdims=True) + norm.epsilon)
    assert norm(torch.tensor(rows)).detach().numpy() == pytest.approx(wanted, abs=1e-12)


def test_layer_norm_is_one_group():
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    layer, group = build_norm("layer", 12, groups=1).double(), GroupNorm(12, groups=1).double()
    assert torch.allclose(layer(x), group(x), atol=1e-12, rtol=0)


def test_instance_norm_is_torchs_on_channels_and_places():
    ours, theirs = InstanceNorm(12, channels=3).double(), nn.InstanceNorm1d(3, affine=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight.copy_(ours.gain.normal_())
        theirs.bias.copy_(ours.bias.normal_())
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    assert torch.allclose(ours(x), theirs(x.reshape(10, 3, 4)).reshape(x.shape), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", NORMS)
def test_gains_and_biases_are_rows(kind):
    """Who treats matrices otherwise, as weight decay and Muon do, tells them by their two dimensions."""
    assert all(parameter.ndim == 1 for parameter in build_norm(kind, 8, groups=2).parameters())


@pytest.mark.parametrize("kind", NORMS)
def test_only_batch_norm_lets_rows_meet(kind):
    norm = build_norm(kind, 8, groups=2)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(4))
    changed = x.clone()
    changed[1:] += 1 + torch.arange(24).reshape(3, 8)
    assert torch.equal(norm(x)[0], norm(changed)[0]) == (kind != "batch")


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=str)
def test_folded_is_unfolded(has_bias, dtype, tolerance):
    draw = torch.Generator().manual_seed(5)
    linear, norm = nn.Linear(30, 20, bias=has_bias, dtype=dtype), BatchNorm(20).to(dtype)
    with torch.no_grad():
        norm.gain.uniform_(0.5, 1.5, generator=draw)
        norm.bias.normal_(generator=draw)
    for _ in range(20):
        norm(linear(torch.randn(64, 30, generator=draw, dtype=dtype)))
    norm.eval()
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    one = fold_batch_norm(linear, norm)
    assert one.weight.dtype == dtype
    for batch in (1, 33):  # a single example as well
        x = torch.randn(batch, 30, generator=draw, dtype=dtype)
        assert (one(x) - norm(linear(x))).abs().max() < tolerance * norm(linear(x)).abs().max()
    assert all(torch.equal(before[name], value) for name, value in norm.state_dict().items())
