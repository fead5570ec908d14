"""Rules made wrong on purpose: the checks that guard the table must catch each of them."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import pytest
from trust.expressions import Tally, check, report
from trust.measured import disagreement
from trust.trees import case
from trust.ulps import measure

from pellucid.autograd import numerics
from pellucid.autograd.expression import CALLED
from pellucid.autograd.grammar import INFIX
from pellucid.autograd.rules import FUNCTIONS, RULES, Rule

SEED = 1
# The rarest function appears about 110 times in a thousand expressions.
N_EXPRESSIONS = 1000
Slopes = Callable[..., Sequence[float]]


def shaped(name: str, slopes: Slopes) -> Rule:
    return dataclasses.replace(RULES[name], slopes=slopes)


# A name for each mistake, the broken rule, and whether it is gross enough to show beside a central difference.
BROKEN: dict[str, tuple[Rule, bool]] = {
    "tanh forgets the square": (shaped("tanh", lambda out, a: (1.0 - out,)), True),
    "tanh loses its digits": (shaped("tanh", lambda out, a: (1.0 - out * out,)), False),
    "sigmoid loses its digits": (shaped("sigmoid", lambda out, a: (out * (1.0 - out),)), False),
    "cos forgets its sign": (shaped("cos", lambda out, a: (math.sin(a) if math.isfinite(a) else a,)), True),
    "relu passes at zero": (shaped("relu", lambda out, a: (0.0 if a < 0.0 else 1.0,)), False),
    "max gives all to each tie": (
        shaped("max", lambda out, *inputs: [1.0 if x == out else 0.0 for x in inputs]),
        False,
    ),
    "product divides": (shaped("product", lambda out, *inputs: [numerics.divide(out, x) for x in inputs]), False),
    "gelu by tanh": (
        dataclasses.replace(
            RULES["gelu"],
            forward=lambda a: 0.5 * a * (1.0 + math.tanh(0.7978845608 * a * (1.0 + 0.044715 * a * a))),
        ),
        True,
    ),
    "softplus in the plain formula": (
        dataclasses.replace(RULES["softplus"], forward=lambda a: numerics.log(1.0 + numerics.exp(a))),
        False,
    ),
    "leaky relu leaks a tenth": (shaped("leaky_relu", lambda out, a: (1.0 if a > 0.0 else 0.1,)), True),
}


# These cannot be found by comparing with torch; the ulps see them.
TORCH_MAKES_IT_TOO = ("tanh loses its digits", "sigmoid loses its digits")


def seen_by_torch(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What the fuzzer says when this rule stands in the place of the good one; it stops at the first mistake."""
    if rule.form == "infix":
        monkeypatch.setitem(INFIX, rule.symbol, INFIX[rule.symbol]._replace(rule=rule))
    else:
        monkeypatch.setitem(CALLED, rule.symbol, rule)
    tally = Tally()
    for number in range(N_EXPRESSIONS):
        one = case(SEED, number)
        if not tally.wrong and any(node.kind == rule.symbol for node in one.nodes):
            check(one, tally)
    return tally


@pytest.mark.parametrize("mistake", [name for name in BROKEN if name not in TORCH_MAKES_IT_TOO])
def test_the_fuzzer_sees_it(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = seen_by_torch(BROKEN[mistake][0], monkeypatch)
    assert tally.wrong, report(tally, SEED)


def test_the_fuzzer_is_content_with_the_rules_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not seen_by_torch(FUNCTIONS["tanh"], monkeypatch).wrong


def a_billionth_off(rule: Rule) -> Rule:
    return dataclasses.replace(rule, slopes=lambda out, *at: [s * (1.0 + 1e-9) for s in rule.slopes(out, *at)])


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.form != "prefix"], ids=str)
def test_a_billionth_is_seen_in_every_rule(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_by_torch(a_billionth_off(rule), monkeypatch).wrong
    assert not measure(a_billionth_off(rule), 400, SEED).is_well


@pytest.mark.parametrize("mistake", BROKEN)
def test_the_ulps_see_it(mistake: str) -> None:
    assert not measure(BROKEN[mistake][0], 600, SEED).is_well


@pytest.mark.parametrize("mistake", [name for name, (_, is_gross) in BROKEN.items() if is_gross])
def test_measuring_sees_it(mistake: str) -> None:
    rule = BROKEN[mistake][0]
    assert max(disagreement(rule, at, 0) for at in rule.tried_at) > 1.0
