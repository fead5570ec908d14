"""Any text and any depth: the reader gives an answer or our own error, and nothing calls itself."""

import pytest
from tests.at_length import AT_LENGTH
from trust import bytes as texts
from trust.depth import DEPTH, LONG_SUM, SHAPES, WAYS, is_right, long_sum_of_values, refusal

from pellucid.autograd import differentiate
from pellucid.errors import ExpressionError

SEED = 1
N_TEXTS = 20_000
FAR_DOWN = DEPTH if AT_LENGTH else DEPTH // 5  # twenty times as deep as calls may go


def test_any_text_is_read_or_refused_in_one_line() -> None:
    tally = texts.fuzz(N_TEXTS, SEED)
    print(texts.report(tally, SEED))
    assert tally.n_read + tally.n_refused == N_TEXTS
    assert not tally.broken, texts.report(tally, SEED)
    assert tally.n_read > N_TEXTS // 100, "a fuzzer that is always refused looks at half of the reader"


def test_a_broken_promise_would_be_seen() -> None:
    assert "outside" in texts.broken_promise("x", ExpressionError("odd", text="x", column=3, fix="Mend it"))
    assert not texts.broken_promise("x", ExpressionError("odd", text="x", column=2, fix="Mend it"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SHAPES)
def test_twenty_thousand_deep(name: str, way: str) -> None:
    """A hundred thousand at length, and in trust/depth.py with its time and its memory."""
    value, slope = WAYS[way](SHAPES[name], FAR_DOWN)
    assert is_right(SHAPES[name], FAR_DOWN, value, slope), (value, slope)


@pytest.mark.parametrize("name", SHAPES)
def test_shallow_ones_are_the_same_shapes(name: str) -> None:
    # Known by hand at depth two, so that the formula for any depth is not taken on trust.
    by_hand = {
        "parentheses": (9.0, 6.0),
        "minus signs": (3.0, 1.0),
        "long sum": (1.0, 2.0),
        "shared doubling": (3.0, 1.0),
    }
    derived = differentiate(SHAPES[name].text(2), {"x": SHAPES[name].x})
    if name in by_hand:
        assert (derived.value, derived.gradients["x"]) == by_hand[name] == SHAPES[name].answer(2)
    assert WAYS["value"](SHAPES[name], 2) == (derived.value, derived.gradients["x"])


def test_a_million_terms_in_one_node() -> None:
    assert long_sum_of_values() == (0.5 * LONG_SUM, float(LONG_SUM))


@pytest.mark.slow
def test_more_than_a_million_nodes_are_refused() -> None:
    assert refusal().startswith("the expression has more than 1,000,000 nodes")
