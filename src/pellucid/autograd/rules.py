"""The table of rules: what each operation computes, how steep it is, and why, in one row.

A row is everything pellucid knows of an operation. The engine computes with `forward` and `slopes`,
explanations are filled in from `because`, pages are typeset from `latex`, and the tests try every row
at its own `tried_at` points. Nothing is known of an operation anywhere else, but for its NumPy twin.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pellucid.autograd import ieee
from pellucid.autograd.gaussian import gelu, gelu_slope

LEAK = 0.01  # leaky relu's slope on the negative side; torch's default


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """One operation on numbers.

    forward(*inputs) gives the result, slopes(result, *inputs) its derivative toward each input.
    In the sentences and formulas, {a}, {b} and {c} are the inputs in order and {out} is the result;
    where an operation takes any number of inputs, {a} is the one that is looked at.
    """

    name: str
    symbol: str
    form: Literal["infix", "prefix", "call", "given"]
    arity: int | None  # None: any number from one on
    forward: Callable[..., float]
    slopes: Callable[..., Sequence[float]]
    derivative: tuple[str, ...]
    because: tuple[str, ...]
    latex: str
    latex_slopes: tuple[str, ...]
    tried_at: tuple[tuple[float, ...], ...]
    # What the inputs must be for the result to be a real number, in words; "" where any numbers will do.
    domain: str = ""
    # Whether the slope jumps at this point, so that the one we give (torch's) is a convention.
    has_kink: Callable[..., bool] = lambda *inputs: False
    # Which inputs the result listens to at all. An input it does not listen to gets no gradient, not even a
    # zero times infinity: this is how `where` keeps a nan on the road not taken from leaking.
    listens: Callable[..., tuple[bool, ...]] | None = None

    def sentence(self, position: int) -> str:
        """Why the slope toward the input at this position is what it is."""
        return self.because[min(position, len(self.because) - 1)]

    def latex_slope(self, position: int) -> str:
        return self.latex_slopes[min(position, len(self.latex_slopes) - 1)]

    def formula(self, position: int) -> str:
        return self.derivative[min(position, len(self.derivative) - 1)]

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


def _power_slopes(out: float, a: float, b: float) -> tuple[float, float]:
    return _slope_to_base(out, a, b), _slope_to_exponent(out, a, b)


def _slope_to_base(out: float, a: float, b: float) -> float:
    if b == 0.0:
        return 0.0
    # out/a costs one rounding, where a**(b-1) would magnify the rounding of b-1 by ln(a). It needs a result
    # that has all its digits.
    if a and ieee.SMALLEST_NORMAL <= abs(out) < ieee.INFINITY and math.isfinite(a):
        return b * (out / a)
    return b * ieee.power(a, b - 1.0)


def _slope_to_exponent(out: float, a: float, b: float) -> float:
    if a == 0.0 and b >= 0.0:
        return 0.0
    if 0.0 < abs(out) < ieee.SMALLEST_NORMAL and a > 0.0:
        # A subnormal result has lost digits that its square root still has.
        half = ieee.power(a, 0.5 * b)
        return half * (half * ieee.log(a))
    return out * ieee.log(a)


def _largest(*inputs: float) -> float:
    return _first_extreme(inputs, operator.gt)


def _smallest(*inputs: float) -> float:
    return _first_extreme(inputs, operator.lt)


def _first_extreme(inputs: Sequence[float], beats: Callable[[float, float], bool]) -> float:
    best = inputs[0]
    for x in inputs:
        if x != x:
            return x
        if beats(x, best):
            best = x
    return best


def _tied_slopes(out: float, *inputs: float) -> list[float]:
    ties = inputs.count(out)
    return [1.0 / ties if x == out else 0.0 for x in inputs] if ties else [ieee.NAN] * len(inputs)


def _sum(*inputs: float) -> float:
    total = 0.0
    for x in inputs:
        total += x
    return total


def _product(*inputs: float) -> float:
    return math.prod(inputs, start=1.0)


def _product_slopes(out: float, *inputs: float) -> list[float]:
    # The product of all the others, by products from the left and from the right: dividing the result
    # by each factor would fail at zero, and multiplying anew would cost the square of the length.
    slopes = [1.0] * len(inputs)
    left = right = 1.0
    for i, x in enumerate(inputs):
        slopes[i] *= left
        left *= x
    for i in range(len(inputs) - 1, -1, -1):
        slopes[i] *= right
        right *= inputs[i]
    return slopes


def _given(*inputs: float) -> float:
    raise AssertionError("a given number is not computed")


INPUT = Rule(
    name="input",
    symbol="",
    form="given",
    arity=0,
    forward=_given,
    slopes=lambda out: (),
    derivative=(),
    because=("a number that was given",),
    latex="",
    latex_slopes=(),
    tried_at=(),
)

CONSTANT = Rule(
    name="constant",
    symbol="",
    form="given",
    arity=0,
    forward=_given,
    slopes=lambda out: (),
    derivative=(),
    because=("a number that never changes",),
    latex="",
    latex_slopes=(),
    tried_at=(),
)

ADD = Rule(
    name="add",
    symbol="+",
    form="infix",
    arity=2,
    forward=operator.add,
    slopes=lambda out, a, b: (1.0, 1.0),
    derivative=("1", "1"),
    because=("a sum passes the gradient on unchanged",),
    latex="{a} + {b}",
    latex_slopes=("1",),
    tried_at=((2.0, 3.0), (-1.5, 0.25), (1e6, -1e6)),
)

SUBTRACT = Rule(
    name="subtract",
    symbol="-",
    form="infix",
    arity=2,
    forward=operator.sub,
    slopes=lambda out, a, b: (1.0, -1.0),
    derivative=("1", "-1"),
    because=(
        "a difference passes the gradient on unchanged to its first part",
        "raise {b} and the difference falls just as much, so the sign turns",
    ),
    latex="{a} - {b}",
    latex_slopes=("1", "-1"),
    tried_at=((2.0, 3.0), (-1.5, 0.25), (0.0, 0.0)),
)

MULTIPLY = Rule(
    name="multiply",
    symbol="*",
    form="infix",
    arity=2,
    forward=operator.mul,
    slopes=lambda out, a, b: (b, a),
    derivative=("b", "a"),
    because=(
        "nudge {a} by ε and the product moves by {b}·ε",
        "nudge {b} by ε and the product moves by {a}·ε",
    ),
    latex=r"{a} \cdot {b}",
    latex_slopes=("{b}", "{a}"),
    tried_at=((2.0, 3.0), (0.0, -1.5), (-4.0, 1e-8)),
)

DIVIDE = Rule(
    name="divide",
    symbol="/",
    form="infix",
    arity=2,
    forward=ieee.divide,
    slopes=lambda out, a, b: (ieee.divide(1.0, b), -ieee.divide(out, b)),
    derivative=("1/b", "-a/b^2"),
    because=(
        "nudge {a} by ε and the quotient moves by ε/{b}",
        "a larger {b} makes the quotient smaller: -{a}/{b}^2",
    ),
    latex=r"\frac{{{a}}}{{{b}}}",
    latex_slopes=(r"\frac{{1}}{{{b}}}", r"-\frac{{{a}}}{{{b}^2}}"),
    tried_at=((1.0, 4.0), (-3.0, 0.5), (0.0, 2.0)),
    domain="two numbers that are not both 0 and not both infinite",
)

POWER = Rule(
    name="power",
    symbol="^",
    form="infix",
    arity=2,
    forward=ieee.power,
    slopes=_power_slopes,
    derivative=("b*a^(b-1)", "log(a)*a^b"),
    because=(
        "bring the exponent down and take one off it: {b}·{a}^({b}-1)",
        "a power grows with its exponent like an exponential: log({a})·{out}",
    ),
    latex="{{{a}}}^{{{b}}}",
    latex_slopes=(r"{b} \cdot {{{a}}}^{{{b} - 1}}", r"{{{a}}}^{{{b}}} \ln {a}"),
    tried_at=((2.0, 3.0), (0.5, -1.5), (7.0, 0.1), (3.0, 1.0)),
    domain="a base that is not negative, or a whole exponent",
    has_kink=lambda a, b: a == 0.0 and b < 1.0,
)

NEGATE = Rule(
    name="negate",
    symbol="-",
    form="prefix",
    arity=1,
    forward=operator.neg,
    slopes=lambda out, a: (-1.0,),
    derivative=("-1",),
    because=("a minus sign turns the gradient round",),
    latex="-{a}",
    latex_slopes=("-1",),
    tried_at=((2.0,), (-0.5,), (0.0,)),
)


def _call(
    name: str,
    forward: Callable[[float], float],
    slope: Callable[[float, float], float],
    *,
    derivative: str,
    because: str,
    latex: str,
    latex_slope: str,
    tried_at: Sequence[float],
    domain: str = "",
    has_kink: Callable[..., bool] = lambda a: False,
) -> Rule:
    """A row for a function of one number, written name(a)."""
    return Rule(
        name=name,
        symbol=name,
        form="call",
        arity=1,
        forward=forward,
        slopes=lambda out, a: (slope(out, a),),
        derivative=(derivative,),
        because=(because,),
        latex=latex,
        latex_slopes=(latex_slope,),
        tried_at=tuple((x,) for x in tried_at),
        domain=domain,
        has_kink=has_kink,
    )


EXP = _call(
    "exp",
    ieee.exp,
    lambda out, a: out,
    derivative="exp(a)",
    because="the exponential is its own slope, {out}",
    latex="e^{{{a}}}",
    latex_slope="e^{{{a}}}",
    tried_at=(-2.0, 0.0, 1.0, 30.0),
)

LOG = _call(
    "log",
    ieee.log,
    lambda out, a: ieee.divide(1.0, a),
    derivative="1/a",
    because="a logarithm counts in proportions: the same ε is worth 1/{a} as much at {a}",
    latex=r"\ln({a})",
    latex_slope=r"\frac{{1}}{{{a}}}",
    tried_at=(0.1, 1.0, 2.718281828459045, 1e6),
    domain="a number above 0",
)

SQRT = _call(
    "sqrt",
    ieee.sqrt,
    lambda out, a: ieee.divide(0.5, out),
    derivative="1/(2*sqrt(a))",
    because="squaring {out} has slope 2·{out}, so the root has one over that",
    latex=r"\sqrt{{{a}}}",
    latex_slope=r"\frac{{1}}{{2\sqrt{{{a}}}}}",
    tried_at=(0.04, 1.0, 2.0, 1e8),
    domain="a number that is not below 0",
    has_kink=lambda a: a == 0.0,
)

SIN = _call(
    "sin",
    ieee.sin,
    lambda out, a: ieee.cos(a),
    derivative="cos(a)",
    because="the height of a turning point changes by its other coordinate, cos({a})",
    latex=r"\sin({a})",
    latex_slope=r"\cos({a})",
    tried_at=(-2.0, 0.0, 0.5, 3.0),
    domain="a finite angle",
)

COS = _call(
    "cos",
    ieee.cos,
    lambda out, a: -ieee.sin(a),
    derivative="-sin(a)",
    because="turning on, a point loses breadth by its height, sin({a})",
    latex=r"\cos({a})",
    latex_slope=r"-\sin({a})",
    tried_at=(-2.0, 0.5, 1.5, 3.0),
    domain="a finite angle",
)

TAN = _call(
    "tan",
    ieee.tan,
    lambda out, a: 1.0 + out * out,
    derivative="1 + tan(a)^2",
    because="the slope of sin/cos is 1 + {out}^2: the steeper it is, the faster it steepens",
    latex=r"\tan({a})",
    latex_slope=r"1 + \tan^2({a})",
    tried_at=(-1.0, 0.0, 0.5, 1.4),
    domain="a finite angle",
)

ASIN = _call(
    "asin",
    ieee.asin,
    lambda out, a: ieee.divide(1.0, ieee.sqrt((1.0 - a) * (1.0 + a))),
    derivative="1/sqrt(1 - a^2)",
    because="the sine climbs by cos there, so the angle climbs by one over it",
    latex=r"\arcsin({a})",
    latex_slope=r"\frac{{1}}{{\sqrt{{1 - {a}^2}}}}",
    tried_at=(-0.9, 0.0, 0.5, 0.999),
    domain="a number from -1 to 1",
)

ACOS = _call(
    "acos",
    ieee.acos,
    lambda out, a: -ieee.divide(1.0, ieee.sqrt((1.0 - a) * (1.0 + a))),
    derivative="-1/sqrt(1 - a^2)",
    because="acos is a right angle less asin, so its slope is asin's with the sign turned",
    latex=r"\arccos({a})",
    latex_slope=r"-\frac{{1}}{{\sqrt{{1 - {a}^2}}}}",
    tried_at=(-0.9, 0.0, 0.5, 0.999),
    domain="a number from -1 to 1",
)

ATAN = _call(
    "atan",
    math.atan,
    lambda out, a: 1.0 / (1.0 + a * a),
    derivative="1/(1 + a^2)",
    because="the tangent climbs by 1 + {a}^2 there, so the angle climbs by one over it",
    latex=r"\arctan({a})",
    latex_slope=r"\frac{{1}}{{1 + {a}^2}}",
    tried_at=(-3.0, 0.0, 0.5, 100.0),
)

SINH = _call(
    "sinh",
    ieee.sinh,
    lambda out, a: ieee.cosh(a),
    derivative="cosh(a)",
    because="half of exp({a}) grows and half of -exp(-{a}) grows too, together cosh({a})",
    latex=r"\sinh({a})",
    latex_slope=r"\cosh({a})",
    tried_at=(-2.0, 0.0, 1.0, 5.0),
)

COSH = _call(
    "cosh",
    ieee.cosh,
    lambda out, a: ieee.sinh(a),
    derivative="sinh(a)",
    because="half of exp({a}) grows while half of exp(-{a}) shrinks, together sinh({a})",
    latex=r"\cosh({a})",
    latex_slope=r"\sinh({a})",
    tried_at=(-2.0, 0.5, 1.0, 5.0),
)

TANH = _call(
    "tanh",
    math.tanh,
    # The same number as 1 - out², which loses its digits where tanh nears 1.
    lambda out, a: 4.0 * ieee.sigmoid_slope(2.0 * a),
    derivative="1 - tanh(a)^2",
    because="1 - {out}^2: the nearer tanh is to -1 or 1, the less it still listens",
    latex=r"\tanh({a})",
    latex_slope=r"1 - \tanh^2({a})",
    tried_at=(-2.0, 0.0, 0.5, 8.0),
)

SIGMOID = _call(
    "sigmoid",
    ieee.sigmoid,
    lambda out, a: ieee.sigmoid_slope(a),
    derivative="sigmoid(a)*(1 - sigmoid(a))",
    because="{out}·(1 - {out}): steepest when undecided, flat when sure",
    latex=r"\sigma({a})",
    latex_slope=r"\sigma({a})(1 - \sigma({a}))",
    tried_at=(-5.0, 0.0, 0.5, 20.0),
)

RELU = _call(
    "relu",
    lambda a: 0.0 if a < 0.0 else a,
    lambda out, a: 0.0 if out <= 0.0 else 1.0,
    derivative="1 if a > 0, else 0",
    because="relu passes everything on above zero and nothing at or below it",
    latex=r"\mathrm{{relu}}({a})",
    latex_slope="[{a} > 0]",
    tried_at=(-2.0, -0.1, 0.1, 3.0),
    has_kink=lambda a: a == 0.0,
)

LEAKY_RELU = _call(
    "leaky_relu",
    lambda a: a if a > 0.0 else LEAK * a,
    lambda out, a: 1.0 if a > 0.0 else LEAK,
    derivative=f"1 if a > 0, else {LEAK}",
    because=f"leaky relu passes everything on above zero and {LEAK} of it at or below",
    latex=r"\mathrm{{leaky}}({a})",
    latex_slope=f"[{{a}} > 0] + {LEAK}\\,[{{a}} \\le 0]",
    tried_at=(-2.0, -0.1, 0.1, 3.0),
    has_kink=lambda a: a == 0.0,
)

SOFTPLUS = _call(
    "softplus",
    ieee.softplus,
    lambda out, a: ieee.sigmoid(a),
    derivative="sigmoid(a)",
    because="softplus is relu with the corner rounded, and its slope is the sigmoid",
    latex=r"\ln(1 + e^{{{a}}})",
    latex_slope=r"\sigma({a})",
    tried_at=(-30.0, -1.0, 0.0, 25.0),
)

GELU = _call(
    "gelu",
    gelu,
    lambda out, a: gelu_slope(a),
    derivative="Φ(a) + a*φ(a)",
    because="gelu is {a} times the chance Φ that a normal number is smaller: the slope is Φ + {a}·φ",
    latex=r"{a}\,\Phi({a})",
    latex_slope=r"\Phi({a}) + {a}\,\varphi({a})",
    tried_at=(-3.0, -0.5, 0.0, 2.0),
)

ABS = _call(
    "abs",
    math.fabs,
    lambda out, a: 1.0 if a > 0.0 else -1.0 if a < 0.0 else 0.0,
    derivative="sign(a)",
    because="a distance from zero grows with {a} on the right and shrinks with it on the left",
    latex="|{a}|",
    latex_slope=r"\mathrm{{sign}}({a})",
    tried_at=(-2.0, -0.1, 0.1, 3.0),
    has_kink=lambda a: a == 0.0,
)

MAX = Rule(
    name="max",
    symbol="max",
    form="call",
    arity=None,
    forward=_largest,
    slopes=_tied_slopes,
    derivative=("1 if a is the largest, shared among ties, else 0",),
    because=("only the largest is heard; equals share the gradient",),
    latex=r"\max({all})",
    latex_slopes=(r"[{a} = {out}]",),
    tried_at=((2.0, 3.0), (3.0, 2.0), (-1.0, -2.0, -3.0)),
    has_kink=lambda *inputs: inputs.count(_largest(*inputs)) > 1,
)

MIN = Rule(
    name="min",
    symbol="min",
    form="call",
    arity=None,
    forward=_smallest,
    slopes=_tied_slopes,
    derivative=("1 if a is the smallest, shared among ties, else 0",),
    because=("only the smallest is heard; equals share the gradient",),
    latex=r"\min({all})",
    latex_slopes=(r"[{a} = {out}]",),
    tried_at=((2.0, 3.0), (3.0, 2.0), (-1.0, -2.0, -3.0)),
    has_kink=lambda *inputs: inputs.count(_smallest(*inputs)) > 1,
)

SUM = Rule(
    name="sum",
    symbol="sum",
    form="call",
    arity=None,
    forward=_sum,
    slopes=lambda out, *inputs: [1.0] * len(inputs),
    derivative=("1",),
    because=("a sum passes the gradient on unchanged",),
    latex=r"\mathrm{{sum}}({all})",
    latex_slopes=("1",),
    tried_at=((2.0,), (2.0, 3.0, -4.0), (0.5, 0.25, 0.125, 1.0)),
)

PRODUCT = Rule(
    name="product",
    symbol="prod",
    form="call",
    arity=None,
    forward=_product,
    slopes=_product_slopes,
    derivative=("the product of the others",),
    because=("nudge {a} by ε and the product moves by all the other factors times ε",),
    latex=r"\mathrm{{prod}}({all})",
    latex_slopes=(r"\frac{{\partial}}{{\partial {a}}}\mathrm{{prod}}({all})",),
    tried_at=((2.0,), (2.0, 3.0, -4.0), (0.5, 0.0, 0.125, 1.0)),
)

WHERE = Rule(
    name="where",
    symbol="where",
    form="call",
    arity=3,
    forward=lambda a, b, c: b if a > 0.0 else c,
    slopes=lambda out, a, b, c: (0.0, 1.0, 0.0) if a > 0.0 else (0.0, 0.0, 1.0),
    derivative=("0", "1 if a > 0, else 0", "0 if a > 0, else 1"),
    because=(
        "a choice is not moved by a small change of what decides it",
        "{b} was taken if {a} > 0, and what is taken is passed on unchanged",
        "{c} was taken unless {a} > 0, and what is taken is passed on unchanged",
    ),
    latex=r"({b}\ \mathrm{{if}}\ {a} > 0\ \mathrm{{else}}\ {c})",
    latex_slopes=("0", "[{a} > 0]", r"[{a} \le 0]"),
    tried_at=((1.0, 2.0, 3.0), (-1.0, 2.0, 3.0)),
    has_kink=lambda a, b, c: a == 0.0 and b != c,
    listens=lambda a, b, c: (False, True, False) if a > 0.0 else (False, False, True),
)

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        (ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATE)
        + (EXP, LOG, SQRT, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH)
        + (SIGMOID, RELU, LEAKY_RELU, SOFTPLUS, GELU, ABS, MAX, MIN, SUM, PRODUCT, WHERE)
    )
}

FUNCTIONS: dict[str, Rule] = {rule.symbol: rule for rule in RULES.values() if rule.form == "call"}
