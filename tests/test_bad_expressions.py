"""Bad and hostile expressions: each must end in one line, a column and a repair, or in the right number.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle.
"""

import math

import pytest

from pellucid.autograd import grammar
from pellucid.autograd.derivation import differentiate
from pellucid.autograd.expression import RESERVED
from pellucid.autograd.grammar import parse
from pellucid.autograd.value import Value, where
from pellucid.errors import ExpressionError, NotReal, PellucidError, TooLarge


def refusal(text: str, **values: float) -> PellucidError:
    with pytest.raises(PellucidError) as caught:
        differentiate(text, values)
    assert len("pellucid: " + str(caught.value)) <= 240
    return caught.value


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("(", 2, "ends where a number or a name is wanted"),
        ("()", 1, "these brackets are empty"),
        ("sin()", 1, "sin has no argument"),
        ("((2)", 1, "never closed"),
        ("2)", 2, "never opened"),
        ("2+", 3, "ends where"),
        ("*2", 1, "stands where"),
        ("sin x", 1, "wants its argument in brackets"),
        ("max()", 1, "max has no argument"),
        ("sin(1,2)", 1, "sin wants 1 argument and got 2"),
        ("where(1,2)", 1, "where wants 3 arguments and got 2"),
        ("a=", 3, "ends where"),
        ("=2", 1, "a name is missing before ="),
        ("1=2", 2, "only a name can stand before ="),
        ("x;", 3, "ends where"),
        (";x", 1, "stands where"),
        ("1;2", 1, "two statements have no name"),
        ("a=1;a=2", 5, "a is defined twice"),
        ("a=b;b=2", 5, "before it is defined"),
    ],
)
def test_unfinished(text, column, says):
    error = refusal(text, x=1.0)
    assert isinstance(error, ExpressionError)
    assert error.column == column
    assert says in str(error)
    caret_line = error.excerpt().splitlines()[1]
    assert caret_line == " " * (column + 1) + "^"


@pytest.mark.parametrize(
    ("shape", "value", "gradient"),
    [
        ("(" * 10**5 + "x" + ")" * 10**5, 1.0, 1.0),
        ("-" * 10**5 + "x", 1.0, 1.0),
        ("^".join(["x"] * 10**5), 1.0, 1.0),
        ("+".join(["x"] * 10**5), 1e5, 1e5),
        ("a0=x;" + ";".join(f"a{i + 1}=max(a{i},a{i})" for i in range(10**5)), 1.0, 1.0),
    ],
    ids=["parentheses", "minus signs", "tower", "sum", "shared doubling"],
)
def test_nested_a_hundred_thousand_deep(shape, value, gradient):
    derived = differentiate(shape, {"x": 1.0})
    assert derived.value == value
    assert derived.gradients == {"x": gradient}


def test_sines_a_hundred_thousand_deep():
    derived = differentiate("sin(" * 10**5 + "x" + ")" * 10**5, {"x": 1.0})
    value, slope = 1.0, 1.0
    for _ in range(10**5):
        value, slope = math.sin(value), slope * math.cos(value)
    assert derived.value == value
    assert derived.gradients["x"] == pytest.approx(slope, rel=1e-11)


def test_so_many_nodes_and_not_one_more(monkeypatch):
    """With a smaller limit: `make trust` reads a million, and is refused one more."""
    assert grammar.MOST_NODES == 1_000_000
    monkeypatch.setattr(grammar, "MOST_NODES", 3_000)
    assert len(parse("+".join(["x"] * 3_000)).operations) == 3_000
    with pytest.raises(TooLarge, match="more than 3,000 nodes"):
        parse("+".join(["x"] * 3_001))
    with pytest.raises(TooLarge, match="at most 10,000,000 are read"):
        parse(" " * 10_000_001)


@pytest.mark.parametrize(
    ("text", "value", "note"),
    [
        ("1/0", math.inf, "1/0 at column 1 is infinite"),
        ("2+1/x", math.inf, "1/0 at column 3 is infinite"),
        ("-1/x", -math.inf, "(-1)/0 at column 1 is infinite"),
    ],
)
def test_division_by_zero_is_infinite_and_said(text, value, note):
    derived = differentiate(text, {"x": 0.0} if "x" in text else {})
    assert derived.value == value
    assert derived.notes[0].text == note


@pytest.mark.parametrize(
    ("text", "x", "says"),
    [
        ("0/0", None, "0/0 is not real at column 1"),
        ("3+x/x", 0.0, "0/0 is not real at column 3"),
        ("log(x)", -1.0, "log(-1) is not real at column 1. log wants a number above 0"),
        ("2*sqrt(x)", -1.0, "sqrt(-1) is not real at column 3"),
        ("asin(x)", 2.0, "asin(2) is not real at column 1. asin wants a number from -1 to 1"),
        ("x^(1/3)", -8.0, "(-8)^0.333333 is not real at column 1"),
        ("1/0-1/0", None, "inf-inf is not real at column 1"),
    ],
)
def test_not_real(text, x, says):
    error = refusal(text, **({} if x is None else {"x": x}))
    assert isinstance(error, NotReal)
    assert says in str(error)


def test_the_library_gives_nan_with_nan_and_never_a_finite_gradient():
    for make in (lambda x: x.log(), lambda x: x.sqrt(), lambda x: x ** (1 / 3), lambda x: x.log() + x):
        x = Value(-8.0)
        y = make(x)
        y.backward()
        assert math.isnan(y.data)
        assert math.isnan(x.grad)


@pytest.mark.parametrize("text", ["exp(1000)", "10^400", "1e400", "9^9^9^9", "9" * 400])
def test_overflow_is_infinite_at_once(text):
    derived = differentiate(text, {})  # in whole numbers 9^9^9^9 would not end in our lifetime
    assert derived.value == math.inf
    assert "is infinite" in derived.notes[0].text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("-0", -0.0),
        ("5e-324/2", 0.0),
        ("2.2250738585072014e-308/2", 1.1125369292536007e-308),
    ],
)
def test_the_small_end_is_float64(text, value):
    found = differentiate(text, {}).value
    assert (found, math.copysign(1.0, found)) == (value, math.copysign(1.0, value))


@pytest.mark.parametrize(
    ("text", "values", "gradients"),
    [
        ("abs(x)", {"x": 0}, {"x": 0.0}),
        ("relu(x)", {"x": 0}, {"x": 0.0}),
        ("max(a, b)", {"a": 1, "b": 1}, {"a": 0.5, "b": 0.5}),
        ("min(a, b)", {"a": 1, "b": 1}, {"a": 0.5, "b": 0.5}),
        ("sqrt(x)", {"x": 0}, {"x": math.inf}),
        ("x^0", {"x": 0}, {"x": 0.0}),
        ("0^x", {"x": 0}, {"x": 0.0}),
    ],
)
def test_kinks_are_torchs_and_are_said(text, values, gradients):
    derived = differentiate(text, values)
    assert derived.gradients == gradients
    assert "not differentiable here" in derived.notes[0].text


def test_the_road_not_taken_gives_exactly_nothing():
    derived = differentiate("where(x, x^2, log(y)*x)", {"x": 3.0, "y": -1.0})
    assert derived.value == 9.0
    assert derived.gradients == {"x": 6.0, "y": 0.0}
    x, y = Value(3.0), Value(0.0)
    where(x, x * x, y.sqrt() * x).backward()
    assert (x.grad, y.grad) == (6.0, 0.0)


@pytest.mark.parametrize(
    ("text", "values", "says"),
    [
        ("x+y", {"x": 1}, "y has no value at column 3. Add y=1"),
        ("x+rate", {"x": 1, "rat": 2}, "Write rate where you wrote rat"),
        ("x", {"x": 1, "y": 2}, "'y' is given a value but the expression does not use it"),
        ("a = x; a+1", {"x": 1, "a": 2}, "a is given a value and also defined"),
    ],
)
def test_values_and_variables_that_do_not_meet(text, values, says):
    assert says in str(refusal(text, **values))


@pytest.mark.parametrize("name", ["sin", "pi", "e", "lambda", "nan", "inf", "class", "None"])
def test_names_that_already_mean_something(name):
    assert name in RESERVED
    if name not in ("sin", "pi", "e"):
        assert "already means something" in str(refusal(f"{name}*2"))
    assert "already means something" in str(refusal(f"{name} = 2")) or name == "sin"


@pytest.mark.parametrize("text", ["__class__", "x.y", "x'", "x[0]", '"x"', "sin = 2", "x{0}", "f(x) = 2"])
def test_nothing_reaches_into_python(text):
    assert isinstance(refusal(text, x=1.0), ExpressionError)


def test_a_small_set_of_signs_is_read_and_all_else_is_named():
    assert differentiate("π×2−1÷2·3⋅4", {}).value == math.pi * 2 - 1 / 2 * 3 * 4
    for text, code_point in [
        ("２+3", "U+FF12"),
        ("х+1", "U+0445"),
        ("1\u202e+2", "U+202E"),
        ("²", "U+00B2"),
        ("√2", "U+221A"),
    ]:
        assert code_point in str(refusal(text))
    assert "look the same" in str(refusal("х+1"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2x", "To multiply, write 2*x"),
        ("2(x)", "To multiply, write 2*(...)"),
        ("x(2)", "To multiply, write x*(...)"),
        ("(x)(x)", "To multiply, write (x)*(...)"),
        ("1e5x", "To multiply, write 1e5*x"),
        ("x 2", "To multiply, write x*2"),
        ("pi(2)", "To multiply, write pi*(...)"),
        ("sigmid(x)", "Perhaps you meant sigmoid"),
        (".5.", "Write 0 before it, as 0.5"),
        ("1.2.3", "a number has two points"),
        ("1_000", "Write 1000 without it"),
        ("0x10", "Write 16"),
        ("1,5", "Write decimals with a point, as 1.5"),
        ("2e", "To multiply, write 2*e"),
        ("2e+", "To multiply, write 2*e"),
    ],
)
def test_ambiguous_is_refused_with_the_repair(text, says):
    assert says in str(refusal(text, x=1.0))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2^2", -4.0),
        ("(-2)^2", 4.0),
        ("2^-1", 0.5),
        ("2^-2^2", 2.0**-4),
        ("2**3**2", 512.0),
        ("2^3**2", 512.0),
        ("12/3/2", 2.0),
        ("12/3*2", 8.0),
        ("5-3-1", 1.0),
        ("-3+5", 2.0),
        ("2*-3", -6.0),
        ("--3", 3.0),
        ("-+-3", 3.0),
        ("2-+3", -1.0),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1.5E-2", 0.015),
        ("max(1,2,3)-min(4,5)", -1.0),
        ("sum(1,2,3)*prod(2,2)", 24.0),
    ],
)
def test_the_precedence_table(text, value):
    assert differentiate(text, {}).value == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_must_be_finite(value):
    assert "Give it a finite number" in str(refusal("x", x=value))


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("x=", "the value of x is empty"),
        ("x=nan", "Give it a finite number"),
        ("x=inf", "Give it a finite number"),
        ("x=1e400", "Give it a finite number"),
        ("x=2=3", "only a name can stand before ="),
        ("x=y", "depends on 'y'"),
        ("=2", "cannot be a name"),
        ("2x=2", "cannot be a name"),
        ("sin=2", "already means something"),
        ("x'=2", "cannot be a name"),
    ],
)
def test_values_on_the_command_line(pellucid, word, says):
    run = pellucid("derive", "x", word)
    assert (run.returncode, run.stdout) == (2, "")
    assert says in run.stderr


def test_a_hundred_thousand_variables_and_what_was_not_measured_is_said():
    names = [f"x{i}" for i in range(100_000)]
    derived = differentiate("+".join(names), dict.fromkeys(names, 0.5))
    assert derived.value == 50_000
    assert set(derived.gradients.values()) == {1.0}
    assert sum(check.measured is None for check in derived.checks) > 99_000


def test_a_node_used_twice():
    assert differentiate("b = a+a; c = b+b; c*c", {"a": 1.0}).gradients == {"a": 32.0}


def test_toward_a_constant_or_an_absent_variable():
    for name in ("pi", "y", "2"):
        with pytest.raises(PellucidError, match="is not an input of the expression"):
            differentiate("x*pi", {"x": 1.0}, wrt=[name])
    assert differentiate("0*x + 3", {"x": 1.0}).gradients == {"x": 0.0}
    assert differentiate("3", {}).gradients == {}


def test_a_hundred_thousand_nodes_are_drawn_folded():
    from pellucid.api.derive import derive as derive_with_pen

    picture = derive_with_pen("sin(" * 10**5 + "x" + ")" * 10**5, x=1.0).svg()
    assert len(picture) < 500_000
    assert "nodes" in picture


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "().__class__",
        "{0.__class__}",
        "x;import os",
        "x\ny",
        "`x`",
        "x\\y",
        "x@y",
        "x:=2",
        "x!",
        "%x",
    ],
)
def test_no_code_can_be_expressed(text):
    assert isinstance(refusal(text, x=1.0), ExpressionError)
