"""Every example runs, and what it prints is so."""

import math
import re
import runpy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> dict[str, Any]:
    """The names that the example's file defines."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    example(name)["main"]()
    return capsys.readouterr().out


def number_after(words: str, text: str) -> float:
    found = re.search(re.escape(words) + r" *([-+]?[0-9.]+(?:e[-+][0-9]+)?)", text)
    assert found, f"{words!r} is not in:\n{text}"
    return float(found[1])


def test_every_example_is_tested_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"linear_collapse", "moons", "xor"}


def test_xor_is_solved_with_a_hidden_layer_and_not_without(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("xor", capsys)
    assert "with a hidden layer of 4: 4 of 4 right" in text
    scores = {a ^ b: number_after(f"{a} xor {b}: score", text) for a, b in [(0, 0), (0, 1)]}
    assert scores[0] < -1 < 1 < scores[1]
    assert "their sum is 0*w1 + 0*w2 + 0*b" in text
    assert number_after("trained all the same: loss", text) == pytest.approx(math.log(2), abs=1e-6)


def test_xor_margins_are_what_the_proof_says() -> None:
    margins = example("xor")["margins"]
    w1, w2, b = Fraction(3, 7), Fraction(-5, 2), Fraction(11, 13)
    assert margins(w1, w2, b) == [-b, w2 + b, w1 + b, -(w1 + w2 + b)]
    assert sum(margins(w1, w2, b)) == 0


def test_moons_are_learned_to_the_last_point(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("moons", capsys)
    assert "337 parameters, 100 points" in text
    assert "after 100 steps" in text
    assert number_after("accuracy before:", text) < 90
    assert text.count("accuracy 100%") == 1
    assert number_after("differ by", text) < 1e-12
    assert number_after("in the loss,", text) < 1e-12


def test_moons_lie_where_moons_lie() -> None:
    points, sides = example("moons")["moons"](101, noise=0.0, seed=0)
    assert (len(points), sides.count(-1), sides.count(1)) == (101, 50, 51)
    for (x, y), side in zip(points, sides, strict=True):
        centre = (0.0, 0.0) if side < 0 else (1.0, 0.5)
        assert math.hypot(x - centre[0], y - centre[1]) == pytest.approx(1.0)
        assert (y - centre[1]) * side <= 1e-12


def test_linear_layers_collapse(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed("linear_collapse", capsys)
    assert number_after("linear: outputs differ by at most", text) < 1e-12
    assert number_after("tanh:   outputs differ by up to", text) > 0.1
    assert "194 parameters against the one of 8" in text
