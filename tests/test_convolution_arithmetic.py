"""Sizes, parameters and fields of sliding windows beside torch's own layers, and the exam's numbers; the exam's RNN."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.at_length import examples
from torch import nn

from pellucid.errors import PellucidError
from pellucid.layers.convolution import Convolution, Dense, Layer, Pooling, Stage, count_windows, parameters_of, stages
from pellucid.lessons.scalar_rnn import ACTIVATIONS, ScalarRNNKnobs, measure, step_down, unroll, unroll_batch

SVHN: tuple[Layer, ...] = (
    Convolution(8, kernel=(5, 5)),
    Pooling(kernel=(4, 4), stride=(4, 4)),
    Convolution(16, kernel=(4, 4), padding=(1, 1)),
    Pooling(kernel=(2, 2), stride=(2, 2)),
    Dense(10),
)

sides = st.tuples(st.integers(1, 5), st.integers(1, 5))
layers = st.one_of(
    st.builds(Convolution, st.integers(1, 3), sides, sides, st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.builds(Pooling, sides, sides, st.just((0, 0))),
)


def of_torch(layer: Layer, channels: int, size: tuple[int, int]) -> nn.Module:
    match layer:
        case Convolution(filters, kernel, stride, padding):
            return nn.Conv2d(channels, filters, kernel, stride, padding)
        case Pooling(kernel, stride, padding):
            return nn.AvgPool2d(kernel, stride, padding)
        case Dense(outputs):
            return nn.Sequential(nn.Flatten(1), nn.Linear(channels * size[0] * size[1], outputs))


def test_the_exams_convolution():
    (found,) = stages(1, (128, 128), [Convolution(1, kernel=(3, 5), stride=(1, 3))])
    assert found.size == (126, 42)
    assert found.note == ""


def test_the_exams_network():
    found = stages(1, (32, 32), SVHN)
    assert [stage.shape for stage in found] == [(8, 28, 28), (8, 7, 7), (16, 6, 6), (16, 3, 3), (10, 1, 1)]
    assert [stage.parameters for stage in found] == [208, 0, 2064, 0, 1450]
    assert sum(stage.parameters for stage in found) == 3722
    assert [stage.field for stage in found] == [(5, 5), (8, 8), (20, 20), (24, 24), (40, 40)]
    assert [stage.jump for stage in found] == [(1, 1), (4, 4), (4, 4), (8, 8), (8, 8)]
    assert {stage.note for stage in found} == {""}


def test_the_exams_fully_convolutional_heads():
    before = SVHN[:-1]
    first = stages(1, (32, 32), [*before, Convolution(10, kernel=(3, 3))])
    second = stages(1, (32, 32), [*before, Convolution(10, kernel=(1, 1)), Pooling(kernel=(3, 3), stride=(3, 3))])
    assert first[-1].shape == second[-1].shape == (10, 1, 1)
    assert first[-1].parameters == 1450  # the same as the dense layer
    assert second[-2].shape == (10, 3, 3)
    assert second[-2].parameters == 170
    assert first[-1].field == second[-1].field == (40, 40)


@settings(max_examples=examples(100))
@given(st.integers(1, 3), sides.map(lambda pair: (pair[0] + 8, pair[1] + 8)), st.lists(layers, min_size=1, max_size=4))
def test_sizes_and_parameters_are_torchs(channels, size, chain):
    try:
        found = stages(channels, size, chain)
    except PellucidError:
        assume(False)
    picture = torch.zeros(1, channels, *size)
    for layer, stage in zip(chain, found, strict=True):
        module = of_torch(layer, picture.shape[1], picture.shape[2:])
        assert sum(parameter.numel() for parameter in module.parameters()) == stage.parameters
        picture = module(picture)
        assert picture.shape == (1, *stage.shape)


@settings(max_examples=examples(200))
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 4))
def test_the_unused_are_those_that_get_no_gradient(n, kernel, stride, padding):
    if kernel > n + 2 * padding:
        with pytest.raises(PellucidError, match="does not fit"):
            count_windows(n, kernel, stride, padding)
        return
    row = torch.zeros(1, 1, n, requires_grad=True)
    out = nn.functional.conv1d(row, torch.ones(1, 1, kernel), stride=stride, padding=padding)
    out.sum().backward()
    found = count_windows(n, kernel, stride, padding)
    assert found.length == out.shape[2] == math.floor((n - kernel + 2 * padding) / stride) + 1
    assert found.unused == (row.grad == 0).sum().item()


def measured(chain, channels: int, size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Field and jump of a place in the middle, by where a gradient comes back to; all weights are positive."""
    picture = torch.zeros(1, channels, *size, requires_grad=True)
    out = picture
    for layer in chain:
        module = of_torch(layer, out.shape[1], out.shape[2:])
        for parameter in module.parameters():
            nn.init.ones_(parameter)
        out = module(out)
    middle = (out.shape[2] // 2, out.shape[3] // 2)

    def window(row: int, column: int) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(out[0, 0, row, column], picture, retain_graph=True)
        return gradient[0, 0].nonzero()

    here, below, beside = window(*middle), window(middle[0] + 1, middle[1]), window(middle[0], middle[1] + 1)
    first, last = here.amin(0), here.amax(0)
    field = (last - first + 1).tolist()
    return (field[0], field[1]), (int((below.amin(0) - first)[0]), int((beside.amin(0) - first)[1]))


def test_the_exams_field_is_24_pixels():
    """Of 128 pixels, so that the middle is far from every edge."""
    assert measured(SVHN[:4], 1, (128, 128)) == ((24, 24), (8, 8))


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.builds(
                Convolution,
                st.integers(1, 2),
                sides,
                st.tuples(st.integers(1, 3), st.integers(1, 3)),
                st.just((0, 0)),
            ),
            st.just(Pooling((2, 3), (2, 1))),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_fields_and_jumps_are_the_measured_ones(chain):
    found = stages(1, (150, 150), chain)[-1]
    assume(min(found.size) >= 3)
    assert measured(chain, 1, (150, 150)) == (found.field, found.jump)


def test_what_the_floor_drops_is_said():
    (found,) = stages(3, (32, 35), [Convolution(4, kernel=(3, 5), stride=(2, 4))])
    assert found.size == (15, 8)
    assert found.unused == (1, 2)
    assert found.note == "1 row and 2 columns are not used"
    (one,) = stages(1, (4, 3), [Pooling(kernel=(3, 3), stride=(2, 2))])
    assert one.note == "1 row is not used"
    # Windows further apart than they are wide leave gaps as well.
    assert count_windows(33, kernel=3, stride=4) == (8, 2 + 7)
    # Padding is dropped first: the last row of zeros is, and the picture's own is not.
    (padded,) = stages(1, (4, 4), [Convolution(1, kernel=(3, 3), stride=(2, 2), padding=(1, 1))])
    assert padded.note == ""
    assert isinstance(padded, Stage)


def test_what_cannot_slide_is_refused():
    with pytest.raises(PellucidError, match=r"a kernel of 9 does not fit into 4 places with 1 more .* a padding of 3"):
        count_windows(4, kernel=9, padding=1)
    assert count_windows(4, kernel=9, padding=3).length == 2
    with pytest.raises(PellucidError, match="a stride of 0"):
        count_windows(4, kernel=2, stride=0)
    assert parameters_of(Pooling((2, 2), (2, 2)), 8, (4, 4)) == 0


numbers = st.floats(-2, 2)


@settings(max_examples=examples(100))
@given(st.lists(numbers, min_size=1, max_size=6), numbers, numbers, numbers, st.sampled_from(sorted(ACTIVATIONS)))
def test_the_scalar_rnn_is_autograds(inputs, target, w, a, activation):
    run = unroll(inputs, target, w=w, a=a, activation=activation)
    # At 0 torch and we agree on the slope of relu: 0.
    weight, factor = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (w, a))
    row = torch.tensor([inputs], dtype=torch.float64)
    states = unroll_batch(row, weight, factor, activation)[0]
    loss = (states[-1] - target) ** 2 / 2
    loss.backward()
    assert run.loss == pytest.approx(loss.item(), rel=1e-10, abs=1e-12)
    assert list(run.states[1:]) == pytest.approx(states.tolist(), rel=1e-10, abs=1e-12)
    assert run.slope_w == pytest.approx(weight.grad.item(), rel=1e-9, abs=1e-12)
    assert run.slope_a == pytest.approx(factor.grad.item(), rel=1e-9, abs=1e-12)
    if len(inputs) <= 2:  # h_0 = 0, so the exam's formula is the whole gradient
        assert run.last_w == pytest.approx(run.slope_w, rel=1e-12, abs=1e-15)


def test_the_exams_update_needs_two_inputs():
    run = unroll([0.5, -1.0], target=0.3, w=0.8, a=1.2)
    h1 = math.tanh(1.2 * 0.5)
    z2 = 0.8 * h1 + 1.2 * -1.0
    slope = (math.tanh(z2) - 0.3) * (1 - math.tanh(z2) ** 2) * h1
    assert step_down(0.8, run, learning_rate=0.1) == pytest.approx(0.8 - 0.1 * slope, abs=1e-15)
    longer = unroll([0.5, -1.0, 2.0], target=0.3, w=0.8, a=1.2)
    assert abs(longer.last_w - longer.slope_w) > 0.01


def test_what_cannot_be_unrolled_is_refused():
    with pytest.raises(PellucidError, match="no input came"):
        unroll([], 0.0, w=1.0, a=1.0)
    with pytest.raises(PellucidError, match="no activation called 'step'"):
        unroll([1.0], 0.0, w=1.0, a=1.0, activation="step")


def test_what_reaches_an_earlier_state_is_a_power_of_the_weight():
    """Without an activation, ∂h_T / ∂h_t = w^(T - t); with one, the same as autograd's."""
    for w, run in zip((0.5, 1.0, 1.5), measure(ScalarRNNKnobs(steps=9)).runs, strict=True):
        assert list(run.reaching) == pytest.approx([w ** (9 - t) for t in range(1, 10)])
    run = unroll([0.3, -0.7, 0.4], target=0.2, w=0.9, a=1.1)
    first = torch.tensor(run.states[1], dtype=torch.float64, requires_grad=True)
    second = torch.tanh(0.9 * first + 1.1 * -0.7)
    third = torch.tanh(0.9 * second + 1.1 * 0.4)
    third.backward()
    assert run.reaching[0] == pytest.approx(first.grad.item(), rel=1e-12)
