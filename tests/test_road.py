"""Every step of the road to attention is the one before it, until the data decide."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.layers.attention import attend, attention_weights
from pellucid.layers.masks import CAUSAL
from pellucid.lessons.road_to_attention import (
    average_by_data,
    average_by_loop,
    average_by_matrix,
    average_by_softmax,
    averaging_matrix,
    wei,
    weights_by_data,
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=examples(50))
@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 10_000))
def test_three_ways_to_average_the_past_are_one(time, width, seed):
    values = drawn(time, width, seed=seed)
    means = np.cumsum(values.numpy(), axis=0) / np.arange(1, time + 1)[:, None]
    for average in (average_by_loop, average_by_matrix, average_by_softmax):
        # L̄ is made in single precision, and 1/3 is no number of it.
        assert np.allclose(average(values).numpy(), means, atol=1e-6)


@pytest.mark.parametrize("time", [1, 2, 7, 100])
def test_the_softmax_of_wei_is_the_averaging_matrix(time):
    assert torch.allclose(wei(time).softmax(-1), averaging_matrix(time), atol=1e-7)
    assert torch.equal(wei(time), CAUSAL.additive((time, time), torch.zeros(())))
    for i in range(time):
        assert averaging_matrix(time)[i].tolist() == pytest.approx([1 / (i + 1)] * (i + 1) + [0] * (time - i - 1))


@settings(max_examples=examples(50))
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10_000))
def test_the_end_of_the_road_is_attention(time, width, seed):
    queries, keys, values = (drawn(time, width, seed=seed + k) for k in range(3))
    assert torch.allclose(average_by_data(queries, keys, values), attend(queries, keys, values), atol=1e-12)
    assert torch.allclose(weights_by_data(queries, keys), attention_weights(queries, keys), atol=1e-12)


def test_who_asks_for_nothing_gets_the_average():
    keys, values = drawn(9, 4), drawn(9, 3, seed=1)
    assert torch.allclose(average_by_data(torch.zeros_like(keys), keys, values), average_by_loop(values), atol=1e-12)


def test_a_row_by_hand():
    """The third row: products 1, 0 and 2 over √4."""
    queries = torch.tensor([[0.0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]])
    keys = torch.tensor([[1.0, 0, 0, 0], [0, 5, 0, 0], [1, 0, 0, 1]])
    parts = [math.exp(0.5), 1, math.exp(1)]
    assert weights_by_data(queries, keys)[2].tolist() == pytest.approx([part / sum(parts) for part in parts])
