"""The learning rate by step."""

import pytest

from pellucid.errors import PellucidError
from pellucid.training.optimizers import SCHEDULES, learning_rate_factor


@pytest.mark.parametrize("decay", SCHEDULES)
@pytest.mark.parametrize(("steps", "warm_up"), [(1, 0), (1, 1), (10, 0), (100, 10), (7, 6), (3, 5)])
def test_it_climbs_then_falls_and_never_reaches_zero(decay, steps, warm_up):
    factors = [learning_rate_factor(step, steps, warm_up, decay) for step in range(1, steps + 1)]
    assert all(0 < factor <= 1 for factor in factors)
    top = min(warm_up, steps)
    assert factors[:top] == sorted(factors[:top])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    if steps > warm_up:
        assert factors[warm_up] == 1.0


def test_where_each_decay_stands():
    halfway = {decay: learning_rate_factor(51, 100, 0, decay) for decay in SCHEDULES}
    assert halfway == {"linear": 0.5, "cosine": pytest.approx(0.5), "step": 1.0, "constant": 1.0}
    assert [learning_rate_factor(step, 100, 0, "step") for step in (60, 61, 90, 91)] == [1.0, 0.1, 0.1, 0.01]
    assert learning_rate_factor(100, 100, 0, "linear") == pytest.approx(0.01)
    assert learning_rate_factor(10_000, 10_000, 0, "cosine") < 1e-7


def test_an_unknown_decay_brings_the_nearest():
    with pytest.raises(PellucidError, match=r"'cosin'\. Perhaps you meant cosine"):
        learning_rate_factor(5, 10, 0, "cosin")
