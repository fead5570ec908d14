"""Records survive JSON, and what is no record is refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.records import (
    Evaluation,
    Health,
    Histogram,
    Ladder,
    LayerStats,
    NetworkFacts,
    Rung,
    UnitMap,
    WeightStats,
    as_plain,
)
from pellucid.records.plain import from_plain

NUMBER = st.floats(-1e30, 1e30) | st.sampled_from((math.inf, -math.inf))
STEP = st.integers(0, 1_000_000_000)
SHARE = st.floats(0, 1)


def round_trip(record):
    return from_plain(type(record), json.loads(json.dumps(as_plain(record), allow_nan=False)))


@given(STEP, NUMBER, NUMBER)
def test_numbers_survive(step, train, dev):
    assert round_trip(Evaluation(step, train, dev)) == Evaluation(step, train, dev)


@given(st.lists(st.integers(0, 9)), NUMBER, st.none() | SHARE, st.none() | st.integers(0, 4))
def test_records_in_records_survive(counts, mean, saturated, flat):
    histogram = Histogram(-1.0, 1.0, tuple(counts))
    layer = LayerStats("blocks.0", "Tanh", 3, 4, mean, 1.0, saturated, flat, 0.0, 0.1, histogram, histogram)
    seen = Health(5, (layer,), (WeightStats("w", (3, 4), 1.0, 0.5, 1e-3),), (UnitMap("a", "Tanh", ("09",), ("90",)),))
    assert round_trip(seen) == seen


def test_mappings_pairs_and_missing_numbers_survive():
    facts = NetworkFacts("mlp", "says", {"width": 3, "norm": "batch"}, 7, (("w", (3, 4)), ("b", ())))
    assert round_trip(facts) == facts
    ladder = Ladder("names", (Rung("mlp", False, 7, 1.0, 2.0, None, 2.9, 1.5, None),))
    assert round_trip(ladder) == ladder
    assert math.isnan(round_trip(Evaluation(0, math.nan, 1.0)).train)


@pytest.mark.parametrize(
    "plain",
    [
        {"step": 1, "train": 1.0},
        {"step": 1, "train": 1.0, "dev": 2.0, "test": 3.0},
        {"step": True, "train": 1.0, "dev": 2.0},
        {"step": 1.5, "train": 1.0, "dev": 2.0},
        {"step": 1, "train": "much", "dev": 2.0},
        {"step": 1, "train": None, "dev": 2.0},
        [1, 2.0, 3.0],
        "Evaluation",
        None,
    ],
)
def test_what_is_no_record_is_refused(plain):
    with pytest.raises(ValueError, match="Evaluation"):
        from_plain(Evaluation, plain)
