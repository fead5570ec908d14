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

from pellucid.autograd import numerics
from pellucid.autograd.numerics import gelu, gelu_slope

LEAK = 0.01  # leaky relu's slope on the negative side; torch's default
_SCALE = 2.0**200  # lifts a subnormal to where it keeps all its digits, without rounding


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
    # Whether the slope jumps at this point, so that the one we give (torch's) is a convention; None: nowhere.
    has_kink: Callable[..., bool] | None = None
    # Which inputs the result listens to at all. An input it does not listen to gets no gradient, not even a
    # zero times infinity: this is how `where` keeps a nan on the road not taken from leaking.
    listens: Callable[..., tuple[bool, ...]] | None = None
    # Toward which inputs the result is constant nearby, as relu below zero. Whatever is made of a constant is one:
    # where the value is finite nothing comes through, not even a zero times infinity.
    is_flat: Callable[..., tuple[bool, ...]] | None = None

    def sentence(self, position: int) -> str:
        """Why the slope toward the input at this position is what it is."""
        return self.because[min(position, len(self.because) - 1)]

    def latex_slope(self, position: int) -> str:
        return self.latex_slopes[min(position, len(self.latex_slopes) - 1)]

    def formula(self, position: int) -> str:
        return self.derivative[min(position, len(self.derivative) - 1)]

    def __repr__(self) -> str:
        return f"<rule {self.name}>"

    def __reduce__(self) -> tuple[Callable[[str], "Rule"], tuple[str]]:
        return rule_called, (self.name,)  # a copy of a row would be another rule


def _quotient_slopes(out: float, a: float, b: float) -> tuple[float, float]:
    if abs(out) < numerics.SMALLEST_NORMAL and 0.0 < abs(b) < 1.0:
        # The quotient has lost digits that dividing once more would bring to light.
        return numerics.divide(1.0, b), -(a * _SCALE / b / b / _SCALE)
    return numerics.divide(1.0, b), -numerics.divide(out, b)


def _power_slopes(out: float, a: float, b: float) -> tuple[float, float]:
    return _slope_to_base(out, a, b), _slope_to_exponent(out, a, b)


def _slope_to_base(out: float, a: float, b: float) -> float:
    if b == 0.0:
        return 0.0
    if out != out or not (math.isfinite(a) and math.isfinite(b)):
        return b * numerics.power(a, b - 1.0)
    if a == 0.0 or abs(out) == numerics.INFINITY:
        # Whether b is even is asked of b itself: taking 1 away from 1e16 or from 1e-20 would round it to another kind.
        upper = numerics.power(abs(a), b - 1.0)
        return b * (-upper if math.copysign(1.0, a) < 0.0 and math.fmod(b, 2.0) == 0.0 else upper)
    # b·out/a costs two roundings, where a**(b-1) would magnify the rounding of b-1 by ln(a).
    if abs(out) < numerics.SMALLEST_NORMAL:
        # The result has lost digits that its neighbour or its square root still has.
        below, half = numerics.power(a, b - 1.0), numerics.power(abs(a), 0.5 * b)
        if _has_all_digits(below) or not _has_all_digits(half):
            return b * below
        return (b * half) * (half / (abs(a) if numerics.is_odd(b) else a))
    # What comes first must not leave the range of a float64 on the way.
    return b * (out / a) if abs(out) >= 1.0 <= abs(a) else b * out / a


def _slope_to_exponent(out: float, a: float, b: float) -> float:
    if a == 0.0 and b >= 0.0:
        return 0.0
    if 0.0 < a < numerics.INFINITY and not _has_all_digits(out) and math.isfinite(b):
        # A result at the end of the range has lost digits that its square root still has.
        half = numerics.power(a, 0.5 * b)
        return half * (half * numerics.log(a))
    return out * numerics.log(a)


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
    if out != out:
        return [out] * len(inputs)
    ties = inputs.count(out)
    return [1.0 / ties if x == out else 0.0 for x in inputs]


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
    # Exponents are kept apart, because a product of some may leave the range where that of all is inside it.
    lefts = [(1.0, 0)]
    for x in inputs:
        lefts.append(_times(lefts[-1], x))
    right = (1.0, 0)
    slopes = [0.0] * len(inputs)
    for i in range(len(inputs) - 1, -1, -1):
        mantissa, exponent = lefts[i]
        slopes[i] = numerics.scale_by_power(mantissa * right[0], exponent + right[1])
        right = _times(right, inputs[i])
    return slopes


def _times(product: tuple[float, int], x: float) -> tuple[float, int]:
    """A number as mantissa and exponent, times a float."""
    factor, more = math.frexp(x)
    mantissa, shift = math.frexp(product[0] * factor)
    return mantissa, product[1] + more + shift


def _has_all_digits(x: float) -> bool:
    return numerics.SMALLEST_NORMAL <= abs(x) < numerics.INFINITY


def _no_forward(*inputs: float) -> float:
    raise AssertionError("a given number is not computed")


INPUT = Rule(
    name="input",
    symbol="",
    form="given",
    arity=0,
    forward=_no_forward,
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
    forward=_no_forward,
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
        "raise {b} and the difference falls as much: the sign turns",
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
    forward=numerics.divide,
    slopes=_quotient_slopes,
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
    forward=numerics.power,
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
    is_flat=lambda a, b: (b == 0.0, False),
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
    has_kink: Callable[..., bool] | None = None,
    is_flat: Callable[..., tuple[bool, ...]] | None = None,
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
        is_flat=is_flat,
    )


EXP = _call(
    "exp",
    numerics.exp,
    lambda out, a: out,
    derivative="exp(a)",
    because="the exponential is its own slope, {out}",
    latex="e^{{{a}}}",
    latex_slope="e^{{{a}}}",
    tried_at=(-2.0, 0.0, 1.0, 30.0),
)

LOG = _call(
    "log",
    numerics.log,
    lambda out, a: numerics.divide(1.0, a),
    derivative="1/a",
    because="logarithms count in proportions: at {a} a nudge is worth 1/{a}",
    latex=r"\ln({a})",
    latex_slope=r"\frac{{1}}{{{a}}}",
    tried_at=(0.1, 1.0, 2.718281828459045, 1e6),
    domain="a number above 0",
)

SQRT = _call(
    "sqrt",
    numerics.sqrt,
    lambda out, a: numerics.divide(0.5, out),
    derivative="1/(2*sqrt(a))",
    because="squaring {out} has slope 2·{out}; the root has one over it",
    latex=r"\sqrt{{{a}}}",
    latex_slope=r"\frac{{1}}{{2\sqrt{{{a}}}}}",
    tried_at=(0.04, 1.0, 2.0, 1e8),
    domain="a number that is not below 0",
    has_kink=lambda a: a == 0.0,
)

SIN = _call(
    "sin",
    numerics.sin,
    lambda out, a: numerics.cos(a),
    derivative="cos(a)",
    because="the height of a turning point changes by cos({a})",
    latex=r"\sin({a})",
    latex_slope=r"\cos({a})",
    tried_at=(-2.0, 0.0, 0.5, 3.0),
    domain="a finite angle",
)

COS = _call(
    "cos",
    numerics.cos,
    lambda out, a: -numerics.sin(a),
    derivative="-sin(a)",
    because="the breadth of a turning point shrinks by sin({a})",
    latex=r"\cos({a})",
    latex_slope=r"-\sin({a})",
    tried_at=(-2.0, 0.5, 1.5, 3.0),
    domain="a finite angle",
)

TAN = _call(
    "tan",
    numerics.tan,
    lambda out, a: 1.0 + out * out,
    derivative="1 + tan(a)^2",
    because="the slope of sin/cos is 1 + {out}^2",
    latex=r"\tan({a})",
    latex_slope=r"1 + \tan^2({a})",
    tried_at=(-1.0, 0.0, 0.5, 1.4),
    domain="a finite angle",
)

ASIN = _call(
    "asin",
    numerics.asin,
    lambda out, a: numerics.divide(1.0, numerics.sqrt((1.0 - a) * (1.0 + a))),
    derivative="1/sqrt(1 - a^2)",
    because="the sine climbs by its cosine, the angle by one over it",
    latex=r"\arcsin({a})",
    latex_slope=r"\frac{{1}}{{\sqrt{{1 - {a}^2}}}}",
    tried_at=(-0.9, 0.0, 0.5, 0.999),
    domain="a number from -1 to 1",
)

ACOS = _call(
    "acos",
    numerics.acos,
    lambda out, a: -numerics.divide(1.0, numerics.sqrt((1.0 - a) * (1.0 + a))),
    derivative="-1/sqrt(1 - a^2)",
    because="a right angle less asin: asin's slope, the sign turned",
    latex=r"\arccos({a})",
    latex_slope=r"-\frac{{1}}{{\sqrt{{1 - {a}^2}}}}",
    tried_at=(-0.9, 0.0, 0.5, 0.999),
    domain="a number from -1 to 1",
)

ATAN = _call(
    "atan",
    math.atan,
    # Past a hundred million the 1 is below the last digit, and the square may leave the range of a float64.
    lambda out, a: 1.0 / (1.0 + a * a) if -1e8 < a < 1e8 else 1.0 / a / a,
    derivative="1/(1 + a^2)",
    because="the tangent climbs by 1 + {a}^2, the angle by one over it",
    latex=r"\arctan({a})",
    latex_slope=r"\frac{{1}}{{1 + {a}^2}}",
    tried_at=(-3.0, 0.0, 0.5, 100.0),
)

SINH = _call(
    "sinh",
    numerics.sinh,
    lambda out, a: numerics.cosh(a),
    derivative="cosh(a)",
    because="exp({a})/2 and -exp(-{a})/2 both rise: cosh({a})",
    latex=r"\sinh({a})",
    latex_slope=r"\cosh({a})",
    tried_at=(-2.0, 0.0, 1.0, 5.0),
)

COSH = _call(
    "cosh",
    numerics.cosh,
    lambda out, a: numerics.sinh(a),
    derivative="sinh(a)",
    because="exp({a})/2 rises while exp(-{a})/2 falls: sinh({a})",
    latex=r"\cosh({a})",
    latex_slope=r"\sinh({a})",
    tried_at=(-2.0, 0.5, 1.0, 5.0),
)

TANH = _call(
    "tanh",
    math.tanh,
    # The same number as 1 - out², which loses its digits where tanh nears 1.
    lambda out, a: 4.0 * numerics.sigmoid_slope(2.0 * a),
    derivative="1 - tanh(a)^2",
    because="1 - {out}^2: near -1 or 1 it hardly listens any more",
    latex=r"\tanh({a})",
    latex_slope=r"1 - \tanh^2({a})",
    tried_at=(-2.0, 0.0, 0.5, 8.0),
)

SIGMOID = _call(
    "sigmoid",
    numerics.sigmoid,
    lambda out, a: numerics.sigmoid_slope(a),
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
    because="above zero everything passes, at or below it nothing",
    latex=r"\mathrm{{relu}}({a})",
    latex_slope="[{a} > 0]",
    tried_at=(-2.0, -0.1, 0.1, 3.0),
    has_kink=lambda a: a == 0.0,
    is_flat=lambda a: (a < 0.0,),
)

LEAKY_RELU = _call(
    "leaky_relu",
    lambda a: a if a > 0.0 else LEAK * a,
    lambda out, a: 1.0 if a > 0.0 else LEAK,
    derivative=f"1 if a > 0, else {LEAK}",
    because=f"above zero everything passes, at or below it {LEAK} of it",
    latex=r"\mathrm{{leaky}}({a})",
    latex_slope=f"[{{a}} > 0] + {LEAK}\\,[{{a}} \\le 0]",
    tried_at=(-2.0, -0.1, 0.1, 3.0),
    has_kink=lambda a: a == 0.0,
)

SOFTPLUS = _call(
    "softplus",
    numerics.softplus,
    lambda out, a: numerics.sigmoid(a),
    derivative="sigmoid(a)",
    because="relu with its corner rounded; the slope is the sigmoid",
    latex=r"\ln(1 + e^{{{a}}})",
    latex_slope=r"\sigma({a})",
    tried_at=(-30.0, -1.0, 0.0, 25.0),
)

GELU = _call(
    "gelu",
    gelu,
    lambda out, a: gelu_slope(a),
    derivative="Φ(a) + a*φ(a)",
    because="{a} times the chance Φ({a}): the slope is Φ + {a}·φ",
    latex=r"{a}\,\Phi({a})",
    latex_slope=r"\Phi({a}) + {a}\,\varphi({a})",
    tried_at=(-3.0, -0.5, 0.0, 2.0),
)

ABS = _call(
    "abs",
    math.fabs,
    lambda out, a: 1.0 if a > 0.0 else -1.0 if a < 0.0 else 0.0,
    derivative="sign(a)",
    because="a distance from zero: 1 on its right, -1 on its left",
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
    is_flat=lambda *inputs: tuple([a < max(inputs) for a in inputs]),
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
    is_flat=lambda *inputs: tuple([a > min(inputs) for a in inputs]),
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
    because=("nudge {a} by ε and the other factors multiply it",),
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
        "a small nudge does not change the choice",
        "{b} is taken where {a} > 0, and passed on unchanged",
        "{c} is taken unless {a} > 0, and passed on unchanged",
    ),
    latex=r"({b}\ \mathrm{{if}}\ {a} > 0\ \mathrm{{else}}\ {c})",
    latex_slopes=("0", "[{a} > 0]", r"[{a} \le 0]"),
    tried_at=((1.0, 2.0, 3.0), (-1.0, 2.0, 3.0)),
    has_kink=lambda a, b, c: a == 0.0 and b != c,
    listens=lambda a, b, c: (False, True, False) if a > 0.0 else (False, False, True),
)

_ARITHMETIC = (ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATE)
_ELEMENTARY = (EXP, LOG, SQRT, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH)
_ACTIVATIONS = (TANH, SIGMOID, RELU, LEAKY_RELU, SOFTPLUS, GELU)
_CHOICES_AND_LISTS = (ABS, MAX, MIN, SUM, PRODUCT, WHERE)

RULES: dict[str, Rule] = {rule.name: rule for rule in (*_ARITHMETIC, *_ELEMENTARY, *_ACTIVATIONS, *_CHOICES_AND_LISTS)}

FUNCTIONS: dict[str, Rule] = {rule.symbol: rule for rule in RULES.values() if rule.form == "call"}


def rule_called(name: str) -> Rule:
    """The row of this name.

    >>> rule_called("add") is ADD
    True
    """
    return {INPUT.name: INPUT, CONSTANT.name: CONSTANT, **RULES}[name]
