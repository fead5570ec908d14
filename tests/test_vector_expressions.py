"""Vectors in `pellucid derive`: element by element, softmax and its like, and what is refused; held to torch."""

import re

import numpy as np
import pytest
import torch

from pellucid.api.derive import derive
from pellucid.autograd.derivation import differentiate
from pellucid.autograd.grammar import parse
from pellucid.autograd.latex import derivation_latex
from pellucid.autograd.vector_functions import VECTOR_FUNCTIONS
from pellucid.cli import main
from pellucid.errors import PellucidError, TooLarge

Z, Y, T = [4.0, 3.0, -2.0, 1.0], [0.5, -1.0, 2.0, 0.25], 0.7

# Each expression with torch's own: of the vectors z and y and the number t.
SAME = {
    "softmax(z/t)[0]": lambda z, y, t: torch.softmax(z / t, 0)[0],
    "softmax(z/t)[-1]": lambda z, y, t: torch.softmax(z / t, 0)[-1],
    "log_softmax(z*t)[2]": lambda z, y, t: torch.log_softmax(z * t, 0)[2],
    "logsumexp(z - y)": lambda z, y, t: torch.logsumexp(z - y, 0),
    "softmax(z[0], t, y[1])[1]": lambda z, y, t: torch.softmax(torch.stack([z[0], t, y[1]]), 0)[1],
    "softmax(1000*z)[0] + logsumexp(1000*y)": lambda z, y, t: (
        torch.softmax(1000 * z, 0)[0] + torch.logsumexp(1000 * y, 0)
    ),
    "-log_softmax(-z)[1]": lambda z, y, t: -torch.log_softmax(-z, 0)[1],
    "mean(z^2) - t*max(z*y) + min(y/t)": lambda z, y, t: (z**2).mean() - t * (z * y).max() + (y / t).min(),
    "dot(z, tanh(y)) / sum(exp(y))": lambda z, y, t: torch.dot(z, torch.tanh(y)) / torch.exp(y).sum(),
    "prod(3 - y)^[1, 2, t][2]": lambda z, y, t: (3 - y).prod() ** t,
    "sum(where(y, z, t))": lambda z, y, t: torch.where(y > 0, z, t).sum(),
    "w = [t, 2*t, 3]; dot(w, softmax(w)) + w[1] + ln(z[0])": lambda z, y, t: (
        torch.dot(torch.stack([t, 2 * t, torch.tensor(3.0)]), torch.softmax(torch.stack([t, 2 * t, 3 + 0 * t]), 0))
        + 2 * t
        + torch.log(z[0])
    ),
}


@pytest.mark.parametrize("text", SAME)
def test_value_and_gradients_are_torchs(text: str) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        z, y, t = (torch.tensor(x, requires_grad=True) for x in (Z, Y, T))
        theirs = SAME[text](z, y, t)
        gradients = torch.autograd.grad(theirs, [z, y, t], allow_unused=True, materialize_grads=True)
    finally:
        torch.set_default_dtype(torch.float32)
    used = {name: x for name, x in {"z": Z, "y": Y, "t": T}.items() if re.search(rf"\b{name}\b", text)}
    ours = differentiate(text, used)
    assert ours.value == pytest.approx(theirs.item(), rel=1e-14, abs=1e-14)
    expected = {
        f"{name}[{i}]": x for name, row in zip("zy", gradients, strict=False) for i, x in enumerate(row.tolist())
    }
    expected["t"] = gradients[2].item()
    assert ours.gradients == pytest.approx({name: expected[name] for name in ours.gradients}, rel=1e-12, abs=1e-14)
    assert {name[0] for name in ours.gradients} == set(used)


def test_a_softmax_is_written_out_in_scalar_rules_with_the_maximum_subtracted() -> None:
    derived = differentiate("softmax([4,3,2,1]/T)[0]", {"T": 1.0})
    rules = [node.rule for node in derived.nodes if node.parents]
    # The other three quotients are made from nothing that is asked for.
    assert rules == ["divide"] * 4 + ["max"] + ["subtract"] * 4 + ["exp"] * 4 + ["sum", "divide"]
    largest = next(node for node in derived.nodes if node.rule == "max")
    assert abs(derived.passes[0].gradients[largest.place]) < 1e-15, "what is subtracted from all cancels"
    assert all(step.because for step in derived.steps)


def test_equal_scores_are_no_kink_of_softmax_but_they_are_one_of_max() -> None:
    assert not differentiate("softmax([x, 1, 1])[0]", {"x": 1.0}).notes
    assert differentiate("max([x, 1, 1])", {"x": 1.0}).notes


def test_a_vector_is_an_output_for_each_element_unless_it_is_read_later() -> None:
    assert list(differentiate("softmax(z)", {"z": [0.0, 0.0]}).values) == ["output[0]", "output[1]"]
    assert list(differentiate("p = softmax(z)", {"z": [0.0, 0.0]}).values) == ["p[0]", "p[1]"]
    read = differentiate("p = softmax(z); loss = -ln(p[1])", {"z": [0.0, 0.0]})
    assert read.jacobian == {"loss": {"z[0]": 0.5, "z[1]": -0.5}}


def test_vectors_come_as_lists_tuples_and_arrays_and_gradients_toward_all_of_one() -> None:
    ways = [[1.0, 2.0], (1, 2), np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])]
    found = [derive("sum(z)*x", z=z, x=3, wrt="z").gradients for z in ways]
    assert found == [{"z[0]": 3.0, "z[1]": 3.0}] * 4
    assert derive("sum(z)*x", {"z": np.float32(2.0), "x": torch.tensor(3.0)}).value == 6.0


def test_the_picture_the_page_and_the_formulas_hold_a_vector() -> None:
    derived = derive("p = softmax(z/T)", z=[2, 1], T=2)
    assert "p[0]" in derived.svg()
    assert "p[1]" in derived.html()
    assert "p_{0} &= \\frac" in derivation_latex(derived.record)


REFUSED = [
    ("[1,2] + [1,2,x]", {"x": 1.0}, "a vector of 3 stands beside one of 2 at column 9"),
    ("dot([1,2], [x])", {"x": 1.0}, "a vector of 1 stands beside one of 2 at column 12"),
    ("softmax(z)[0]", {"z": 1.0}, "softmax wants a vector and got a number at column 9"),
    ("dot([1,2])", {}, "dot wants 2 vectors and got 1 argument at column 1"),
    ("z[0]", {"z": 1.0}, "'z' is a number and has no elements at column 2. Give it a vector, as z=[4,3,2,1]"),
    ("(1+2)[0]", {}, "is a number and has no elements at column 6. Take the index away"),
    ("[1,2][2]", {}, "there is no element 2 in a vector of 2 at column 7"),
    ("[1,2][-3]", {}, "there is no element -3 in a vector of 2 at column 7"),
    ("[1,2][1.5]", {}, "an index is a whole number at column 7"),
    ("[1,2][x]", {}, "an index is a whole number at column 7"),
    ("[1,2][1+1]", {}, "the index is not closed at column 8"),
    ("[1,2", {}, "this bracket is never closed at column 1. Add ] where"),
    ("sum([1,2)", {}, ") closes the [ of column 5 at column 9. Write ] here"),
    ("(1 + 2]", {}, "] closes the ( of column 1 at column 7. Write ) here"),
    ("1]", {}, "this bracket was never opened at column 2"),
    ("softmax([4 3])", {}, "a sign is missing between '4' and '3' at column 12. Write 4, 3 in a vector"),
    ("[]", {}, "these brackets are empty at column 1"),
    ("softmax()", {}, "softmax has no argument at column 1"),
    ("[1,[2,3]]", {}, "a vector stands inside a vector at column 4"),
    ("max([1,2], 3)", {}, "max takes one vector or several numbers, and got both at column 5"),
    ("softmx([1,2])", {}, "'softmx' is not a function at column 1. Perhaps you meant softmax"),
    ("x", {"x": 1.0, "z": [1.0]}, "'z' is given a value but the expression does not use it"),
    ("z = 1; sum(z)", {"z": [1.0]}, "'z' is given a value but the expression does not use it"),
    ("sum(z)", {"z": []}, "z is a vector without elements"),
    ("sum(z)", {"z": [[1.0], [2.0]]}, "neither a number nor a list of numbers"),
    ("sum(z)", {"z": "ab"}, "neither a number nor a list of numbers"),
    ("sum(z)", {"z": [1.0, float("nan")]}, "the value of z[1] is nan"),
    ("ln + 2", {}, "log is a function and wants its argument in brackets at column 1"),
]


@pytest.mark.parametrize(("text", "values", "said"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_a_mistake_is_told_with_its_column(text: str, values: dict[str, float], said: str) -> None:
    with pytest.raises(PellucidError) as caught:
        differentiate(text, values)
    assert said in str(caught.value)


def test_a_short_text_cannot_ask_for_more_than_there_is_room_for() -> None:
    with pytest.raises(TooLarge, match="take more than"):
        parse(" + ".join(["sum(v)"] * 100), {"v": 50_000})
    with pytest.raises(TooLarge, match="nodes"):
        parse("+".join(["v"] * 100), {"v": 50_000})


def test_the_command_takes_vectors_and_lists_the_functions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["derive", "softmax(z/T)[0]", "z=[4, 3, 2, 2/2]", "T=1", "--brief", "--wrt", "T"])
    assert ended.value.code == 0
    assert "= 0.643914\nT  -0.326688" in capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "")
    with pytest.raises(SystemExit):
        main(["derive", "--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*VECTOR_FUNCTIONS, "ln"])
