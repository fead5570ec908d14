"""How attention moves: measured, by the derivative and by the formula, against one another."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.errors import PellucidError
from pellucid.layers.masks import CAUSAL, Local
from pellucid.layers.positions.encodings import sinusoids
from pellucid.lessons.attention_sensitivity import move_key, move_query, scale_key
from pellucid.lessons.given_attention import convolution_attention, identity_attention, permutation_attention

N, M, D, T = 4, 6, 3, 2
BETA = 0.7


def drawn(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in ((N, D), (M, D), (M, T)))


def direction(seed: int) -> torch.Tensor:
    return torch.randn(D, generator=torch.Generator().manual_seed(seed + 99), dtype=torch.float64)


@settings(max_examples=examples(50))
@given(st.integers(0, 10_000), st.integers(0, M - 1))
def test_a_key_moves_every_output_towards_its_value_or_away(seed, which):
    queries, keys, values = drawn(seed)
    by = direction(seed)
    found = move_key(queries, keys, values, which=which, by=by, scale=BETA)
    a, h = found.before.weights, found.before.outputs
    assert torch.allclose(a, (BETA * queries @ keys.t()).softmax(-1), atol=1e-12)
    # To first order: β (q_i · ε) a_ij (v_j - h_i), and the weights a_il (δ_lj - a_ij) β (q_i · ε).
    push = BETA * queries @ by
    is_that_key = torch.eye(M, dtype=torch.float64)[which]
    assert torch.allclose(
        found.predicted.weights, push[:, None] * a * (is_that_key - a[:, which : which + 1]), atol=1e-12
    )
    assert torch.allclose(found.predicted.outputs, (push * a[:, which])[:, None] * (values[which] - h), atol=1e-12)
    # And exactly, for a change of any size: with r = exp(β q_i · ε), a share a (r - 1) / (1 + a (r - 1)) of the way.
    grown = a[:, which] * push.expm1()
    assert torch.allclose(found.measured.outputs, (grown / (1 + grown))[:, None] * (values[which] - h), atol=1e-10)
    assert found.can_move.all()
    # The Jacobian is the outer product of (v_j - h_i) and q_i, so its norm is the product of theirs.
    reach = BETA * a[:, which] * (values[which] - h).norm(dim=1) * queries.norm(dim=1)
    assert torch.allclose(found.reach, reach, atol=1e-10)


@settings(max_examples=examples(50))
@given(st.integers(0, 10_000), st.integers(0, N - 1))
def test_a_query_moves_its_own_output_and_no_other(seed, which):
    queries, keys, values = drawn(seed)
    by = direction(seed)
    found = move_query(queries, keys, values, which=which, by=by, scale=BETA)
    a = found.before.weights[which]
    around = keys - a @ keys  # k_j - k̄_i
    assert torch.allclose(found.predicted.weights[which], BETA * a * (around @ by), atol=1e-12)
    assert torch.allclose(found.predicted.outputs[which], BETA * (a * (around @ by)) @ values, atol=1e-12)
    others = torch.arange(N) != which
    assert found.can_move.tolist() == (~others).tolist()
    for moved in (found.measured, found.predicted):
        assert moved.weights[others].abs().max() == 0
        assert moved.outputs[others].abs().max() == 0
    covariance = BETA * values.t() @ torch.diag(a) @ around  # of values and keys under the weights
    assert found.reach[which].item() == pytest.approx(torch.linalg.matrix_norm(covariance, ord=2).item(), abs=1e-12)


@settings(max_examples=examples(50))
@given(st.integers(0, 10_000), st.integers(0, M - 1), st.floats(1.01, 4))
def test_a_longer_key_draws_those_that_point_its_way(seed, which, factor):
    queries, keys, values = drawn(seed)
    found = scale_key(queries, keys, values, which=which, factor=factor, scale=BETA)
    scores = BETA * queries @ keys[which]
    assert torch.equal(found.measured.weights[:, which] > 0, scores > 0)
    a, h = found.before.weights[:, which], found.before.outputs
    assert torch.allclose(
        found.predicted.outputs, ((factor - 1) * scores * a)[:, None] * (values[which] - h), atol=1e-12
    )
    by_hand = (BETA * queries @ torch.where(torch.arange(M)[:, None] == which, factor * keys, keys).t()).softmax(-1)
    assert torch.allclose(found.before.weights + found.measured.weights, by_hand, atol=1e-12)


def test_in_the_end_a_long_key_takes_all_or_nothing():
    queries, keys, values = drawn()
    found = scale_key(queries, keys, values, which=2, factor=1e4)
    ended = (found.before.weights + found.measured.weights)[:, 2]
    assert torch.allclose(ended, (queries @ keys[2] > 0).double(), atol=1e-9)


@pytest.mark.parametrize("change", [move_key, move_query])
def test_the_derivative_is_what_small_changes_come_to(change):
    """The gap between measured and predicted is of second order: a tenth of the change leaves a hundredth of it."""
    queries, keys, values = drawn(5)
    gaps = []
    for size in (1e-2, 1e-3):
        found = change(queries, keys, values, which=1, by=size * direction(5))
        gaps.append((found.measured.outputs - found.predicted.outputs).abs().max().item())
    assert gaps[1] == pytest.approx(gaps[0] / 100, rel=0.05)


def test_under_a_mask_only_those_move_that_see_the_key():
    queries, keys, values = (tensor[:4, :2] for tensor in drawn(3))
    for mask, seers in ((CAUSAL, [False, False, True, True]), (Local(before=1, after=1), [False, True, True, True])):
        found = move_key(queries, keys, values, which=2, by=torch.ones(2, dtype=torch.float64), mask=mask)
        assert found.can_move.tolist() == seers
        assert (found.measured.outputs.abs().amax(1) > 0).tolist() == seers


@pytest.mark.parametrize("scale", [1.0, 5.0, 30.0])
def test_the_identity_by_its_formula(scale):
    n = 6
    found = identity_attention(torch.eye(n, dtype=torch.float64), scale)
    own = math.exp(scale) / (math.exp(scale) + n - 1)
    assert torch.allclose(found.diagonal(), torch.full((n,), own, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(found.sum(-1), torch.ones(n, dtype=torch.float64))
    assert (found - torch.eye(n)).abs().max() == pytest.approx(1 - own, abs=1e-12)


def test_sinusoids_too_give_identity_and_permutation():
    positions = sinusoids(10, 32).double()
    assert torch.allclose(identity_attention(positions, scale=200.0), torch.eye(10).double(), atol=1e-9)
    order = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    found = permutation_attention(positions, order, scale=200.0)
    values = torch.randn(10, 3, dtype=torch.float64)
    assert torch.allclose(found @ values, values[order], atol=1e-8)


@pytest.mark.parametrize("positions", [torch.eye(7).double(), sinusoids(7, 16).double()], ids=["one-hot", "sinusoids"])
def test_a_convolution_is_torchs(positions):
    kernel = (0.25, 0.5, 0.25)
    found = convolution_attention(positions, kernel, scale=60.0)
    signal = torch.randn(1, 1, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    convolved = torch.nn.functional.conv1d(signal, torch.tensor([[kernel]], dtype=torch.float64))
    assert torch.allclose((found @ signal[0, 0])[1:-1], convolved[0, 0], atol=1e-8)
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0, 0, 0, 0], abs=1e-8)


def test_a_kernel_may_lean_and_be_wider_than_the_text():
    found = convolution_attention(torch.eye(5).double(), (0.1, 0.2, 0.3, 0.15, 0.25), scale=60.0)
    assert found[2].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.15, 0.25], abs=1e-8)
    wide = convolution_attention(torch.eye(2).double(), (0.1, 0.2, 0.4, 0.2, 0.1), scale=60.0)
    assert wide[0].tolist() == pytest.approx([2 / 3, 1 / 3], abs=1e-8)


def test_what_cannot_be_given_is_refused():
    with pytest.raises(PellucidError, match="0, 0, 1 does not name each of 3 positions once"):
        permutation_attention(torch.eye(3), [0, 0, 1], scale=20.0)
    for kernel in ((0.5, 0.5), (0.5, 0.6, 0.5), (0.0, 1.0, 0.0)):
        with pytest.raises(PellucidError, match="is no average around its middle"):
            convolution_attention(torch.eye(3), kernel, scale=20.0)
    with pytest.raises(PellucidError, match="9 positions of 4 numbers are not independent"):
        convolution_attention(sinusoids(9, 4), (0.25, 0.5, 0.25), scale=20.0)
