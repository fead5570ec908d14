"""Residual connections turn where a calculation for wide layers says, and classes are read from any examples."""

import math

import pytest

from pellucid.claims.deep_training import split_classes
from pellucid.claims.running import stored_ledger
from pellucid.data.splits import SplitRequest
from pellucid.errors import PellucidError

STORED = {one.id: one for one in stored_ledger().results}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # In wide layers a block of scale s leaves s of a gradient, so that 40 blocks leave 1 % at 10^(-2/40).
        ("plain-depth-vanishes", 10 ** (-2 / 40)),
        # With skips it grows by √(1 + s²): both are as far from 1 where 1/s = √(1 + s²), the root of a golden section.
        ("skip-helps-gradient-flow", math.sqrt((math.sqrt(5) - 1) / 2)),
    ],
)
def test_a_turning_point_is_where_wide_layers_have_it(name, expected):
    found = STORED[name].condition
    assert found.knob == "scale"
    assert found.holds_at < expected < found.fails_at
    assert found.fails_at < 1.15 * found.holds_at


def test_classes_are_read_from_images_and_from_tables():
    digits, penguins = split_classes("digits"), split_classes("penguins", 100, 3, SplitRequest(target="species"))
    assert digits.shape == ((1, 8, 8), (), 10)
    assert len(penguins.train.classes) == 100
    assert penguins.shape[2] == 3
    with pytest.raises(PellucidError, match="no classes"):
        split_classes("polynomial")
