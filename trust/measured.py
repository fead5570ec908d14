"""A rule's slope beside the central difference of its own forward function."""

from collections.abc import Sequence

from pellucid.autograd.derivation import default_step, differences
from pellucid.autograd.rules import Rule

# A central difference is right to about h² times the third derivative, which is large near the ends of asin, and to
# the rounding of the values over h.
TOLERANCE = 2e-7


def disagreement(rule: Rule, inputs: Sequence[float], position: int) -> float:
    """How far the slope is from what measuring gives, where 1 is as far as measuring can be wrong by itself."""
    out = rule.forward(*inputs)
    exact = rule.slopes(out, *inputs)[position]

    def along(x: float) -> float:
        return rule.forward(*inputs[:position], x, *inputs[position + 1 :])

    h = default_step(inputs[position])
    central = differences(along, inputs[position], h=h, exact=exact)[2]
    rounding = abs(out) * 2.0**-52 / h
    return abs(central.error) / (TOLERANCE * max(1.0, abs(exact)) + 4.0 * rounding)
