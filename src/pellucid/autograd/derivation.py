"""`differentiate`: an expression and its numbers in; value, gradients, every step and its check out."""

import math
from collections.abc import Callable, Mapping, Sequence

from pellucid.autograd import numerics
from pellucid.autograd.explanation import backward_pass, record_rows
from pellucid.autograd.expression import Output, Program
from pellucid.autograd.grammar import parse
from pellucid.autograd.rules import RULES
from pellucid.autograd.value import pause_collector
from pellucid.errors import ExpressionError, NotReal, PellucidError, TooLarge, did_you_mean, nearest, quoted
from pellucid.records import BackwardPass, Check, Derivation, Difference, Effect, GraphNode, Note

MOST_OUTPUTS = 20
MOST_NOTES = 5
# Central differences run the program twice for each variable. Past this much work the rest is left unmeasured.
MOST_CHECK_WORK = 4_000_000
UNNAMED = "output"
NUDGE = 0.01

Given = float | Sequence[float]  # the value of an input: a number, or a vector


def differentiate(
    text: str, values: Mapping[str, Given], *, wrt: Sequence[str] = (), h: float | None = None
) -> Derivation:
    """Evaluate the expression, differentiate it toward its inputs (or those in `wrt`) and measure the result.

    The value of an input is a number, or a vector of them: z = [4, 3] is the inputs z[0] and z[1].
    h is the step of the differences that the gradients are checked with; left to itself it grows with the input.

    >>> derived = differentiate("x^2 + 3*x", {"x": 2.0})
    >>> derived.value, derived.gradients
    (10.0, {'x': 7.0})
    """
    with pause_collector():
        return _derive(text, values, wrt, h)


def _derive(text: str, values: Mapping[str, Given], wrt: Sequence[str], h: float | None) -> Derivation:
    if h is not None and not (math.isfinite(h) and h > 0):
        raise PellucidError(
            f"the step h is {h:g}, and it has to be a finite number above 0", fix="Write {h}", options={"h": 1e-6}
        )
    lengths, values = _flatten(values)
    program = parse(text, lengths)
    for name in lengths:
        if f"{name}[0]" not in program.inputs:
            raise _unused(name, program)
    require_values(program, values)
    asked = _asked_for(program, [each for name in wrt for each in _elements(name, lengths)])
    outputs = program.outputs()
    if len(outputs) > MOST_OUTPUTS:
        raise TooLarge(
            f"{len(outputs)} statements are used by no other, and at most {MOST_OUTPUTS} outputs are derived",
            fix="Combine them into one, as total = a + b",
        )
    numbers = {name: float(values[name]) for name in program.inputs}
    operations = program.operations
    rows = zip(
        [o.rule for o in operations],
        [o.inputs for o in operations],
        program.evaluate(numbers),
        program.names(),
        strict=True,
    )
    nodes = record_rows(list(rows), [(operation.start, operation.end) for operation in operations])
    for output in outputs:
        _require_real(program, nodes, output)
    passes = [backward_pass(nodes, output.place, output.name or UNNAMED) for output in outputs]
    checks, effects = _measure(program, numbers, nodes, passes, asked, h)
    return Derivation(
        text=text,
        nodes=nodes,
        values={back.output: nodes[back.place].value for back in passes},
        inputs=numbers,
        passes=passes,
        checks=checks,
        effects=effects,
        notes=_notes(program, nodes, passes),
    )


def _flatten(values: Mapping[str, Given]) -> tuple[dict[str, int], dict[str, float]]:
    """The lengths of the vectors among the values, and every number under its own name."""
    lengths: dict[str, int] = {}
    numbers: dict[str, float] = {}
    for name, value in values.items():
        try:
            if isinstance(value, Sequence) or getattr(value, "shape", None):
                elements = [float(x) for x in value]  # type: ignore[union-attr]  # an array has its elements, too
                lengths[name] = len(elements)
                numbers |= {f"{name}[{i}]": x for i, x in enumerate(elements)}
            else:
                numbers[name] = float(value)
        except (TypeError, ValueError) as error:
            what = f"{name} is {quoted(repr(value), 30)}, which is neither a number nor a list of numbers"
            raise PellucidError(what, fix=f"Give it one, as {name}=[4,3,2,1]") from error
        if lengths.get(name) == 0:
            raise PellucidError(f"{name} is a vector without elements", fix=f"Give it some, as {name}=[4,3,2,1]")
    return lengths, numbers


def _elements(name: str, lengths: Mapping[str, int]) -> list[str]:
    return [f"{name}[{i}]" for i in range(lengths[name])] if name in lengths else [name]


def _unused(name: str, program: Program) -> PellucidError:
    return PellucidError(
        f"{quoted(name)} is given a value but the expression does not use it",
        fix=did_you_mean(name, program.inputs, "Take it away"),
    )


def require_values(program: Program, values: Mapping[str, float]) -> None:
    """Every input has a number, and every number has an input."""
    for name, index in program.inputs.items():
        if name not in values:
            given = nearest(name, [v for v in values if v not in program.inputs])
            raise ExpressionError(
                f"{name} has no value",
                text=program.text,
                column=program.operations[index].start + 1,
                fix=f"Write {name} where you wrote {given}" if given else f"Add {name}=1",
            )
    defined = {statement.name for statement in program.statements}
    for name, value in values.items():
        if name in defined:
            raise PellucidError(f"{name} is given a value and also defined", fix=f"Take {name}={value:g} away")
        if name not in program.inputs:
            raise _unused(name, program)
        if not math.isfinite(value):
            raise PellucidError(f"the value of {name} is {value}", fix="Give it a finite number")


def _asked_for(program: Program, wrt: Sequence[str]) -> list[str]:
    for name in wrt:
        if name not in program.inputs:
            known = ", ".join(list(program.inputs)[:6]) or "none"
            raise PellucidError(
                f"{quoted(name)} is not an input of the expression, so there is no gradient toward it",
                fix=did_you_mean(name, program.inputs, f"Its inputs are: {known}"),
            )
    return list(dict.fromkeys(wrt)) or list(program.inputs)


def _require_real(program: Program, nodes: Sequence[GraphNode], output: Output) -> None:
    if not math.isnan(nodes[output.place].value):
        return
    # The first nan made from numbers that were none. One that `where` passed by may stand before it, but then it
    # did not make this output nan, or it is the one to mend all the same.
    culprit = next(
        node
        for node in nodes
        if math.isnan(node.value) and not any(math.isnan(nodes[parent].value) for parent in node.parents)
    )
    rule = RULES[culprit.rule]
    raise NotReal(
        f"{_with_numbers(nodes, culprit)} is not real",
        text=program.text,
        column=culprit.start + 1,
        fix=f"{rule.name} wants {rule.domain}" if rule.domain else "Keep its inputs finite",
    )


def _with_numbers(nodes: Sequence[GraphNode], node: GraphNode) -> str:
    """The operation with its inputs as numbers, such as log(-1) or 1/0."""
    inputs = [f"{nodes[parent].value:g}" for parent in node.parents]
    if node.form == "infix":
        return f"{_bracket(inputs[0])}{node.symbol}{_bracket(inputs[1])}"
    if node.form == "prefix":
        return f"{node.symbol}{_bracket(inputs[0])}"
    if node.form == "call":
        return f"{node.symbol}({', '.join(inputs)})"
    return node.name


def _bracket(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _measure(
    program: Program,
    numbers: Mapping[str, float],
    nodes: Sequence[GraphNode],
    passes: Sequence[BackwardPass],
    asked: Sequence[str],
    h: float | None,
) -> tuple[list[Check], list[Effect]]:
    """Each gradient beside a central difference, and what a nudge of each input does when it is really made."""
    n_affordable = MOST_CHECK_WORK // (3 * len(nodes))
    checks: list[Check] = []
    effects: list[Effect] = []
    for i, name in enumerate(asked):
        x = numbers[name]
        step = default_step(x) if h is None else h
        if x + step == x or x - step == x:
            raise PellucidError(
                f"h={step:g} is lost beside {name}={x:g}", fix="Write {h}", options={"h": default_step(x)}
            )
        is_measured = i < n_affordable
        runs = [program.evaluate({**numbers, name: at}) for at in (x + step, x - step, x + NUDGE) if is_measured]
        for back in passes:
            exact = back.gradients[program.inputs[name]]
            if not is_measured:
                checks.append(Check(back.output, name, exact, None, None, step))
                continue
            above, below, nudged = [run[back.place] for run in runs]
            here = nodes[back.place].value
            found = difference_quotients(x, step, below=below, here=here, above=above, exact=exact)
            central = found[-1]
            checks.append(Check(back.output, name, exact, central.slope, central.error, step, found))
            effects.append(Effect(back.output, name, NUDGE, NUDGE * exact, nudged - here))
    return checks, effects


def _notes(program: Program, nodes: Sequence[GraphNode], passes: Sequence[BackwardPass]) -> list[Note]:
    """What became infinite or lost its meaning on the way, and where the slope is only a convention."""
    notes: list[Note] = []
    for node in nodes:
        if len(notes) == MOST_NOTES:
            break
        has_kink = RULES[node.rule].has_kink if node.parents else None
        if math.isfinite(node.value) and has_kink is None:
            continue
        column = node.start + 1
        inputs = [nodes[parent].value for parent in node.parents]
        if not math.isfinite(node.value) and all(math.isfinite(x) for x in inputs):
            what = _with_numbers(nodes, node) if node.parents else program.text[node.start : node.end][:20]
            state = "infinite" if math.isinf(node.value) else "not real, and the result does not depend on it"
            notes.append(Note(f"{what} at column {column} is {state}", column))
        elif has_kink and node.can_move and has_kink(*inputs) and not _is_shift(program, node):
            slopes = ", ".join(f"{slope:g}" for slope in node.slopes)
            what = f"{_with_numbers(nodes, node)} at column {column} is not differentiable here"
            notes.append(Note(f"{what}; the slope used is torch's: {slopes}", column))
    for back in passes:
        lost = [name for name, index in program.inputs.items() if not math.isfinite(back.gradients[index])]
        if lost and len(notes) < MOST_NOTES:
            column = program.operations[program.inputs[lost[0]]].start + 1
            notes.append(Note(f"the gradient toward {lost[0]} is not finite, so a step along it says nothing", column))
    return notes


def _is_shift(program: Program, node: GraphNode) -> bool:
    """Whether it is the maximum that softmax and its like subtract; it cancels, whichever of equals is taken."""
    return node.rule == "max" and not program.text.startswith("max", node.start)


# Derivatives by measuring: rise over run with a step h, and how good such a measurement can be.


def differences(function: Callable[[float], float], x: float, *, h: float, exact: float) -> list[Difference]:
    """The slope of the function at x by forward, backward and central difference, each with its error.

    >>> [round(d.slope, 6) for d in differences(lambda x: x**3, 2.0, h=0.001, exact=12.0)]
    [12.006001, 11.994001, 12.000001]
    """
    return list(difference_quotients(x, h, below=function(x - h), here=function(x), above=function(x + h), exact=exact))


def difference_quotients(
    x: float, h: float, *, below: float, here: float, above: float, exact: float
) -> tuple[Difference, Difference, Difference]:
    """The three differences from what a function gave at x - h, x and x + h."""
    # x + h is rounded; dividing by the step that was really taken costs nothing and removes that error.
    up, down = (x + h) - x, x - (x - h)
    forward = numerics.divide(above - here, up)
    backward = numerics.divide(here - below, down)
    central = numerics.divide(above - below, up + down)
    return (
        Difference("forward", h, forward, forward - exact),
        Difference("backward", h, backward, backward - exact),
        Difference("central", h, central, central - exact),
    )


def sweep(
    function: Callable[[float], float], x: float, *, exact: float, steps: Sequence[float] = ()
) -> list[list[Difference]]:
    """Differences for ever smaller h: the truncation error falls with h until rounding takes over and rises.

    >>> import math
    >>> rows = sweep(math.sin, 1.0, exact=math.cos(1.0))
    >>> best = min(rows, key=lambda row: abs(row[2].error))
    >>> 1e-7 < best[2].h < 1e-3
    True
    """
    return [differences(function, x, h=h, exact=exact) for h in steps or [10.0**-k for k in range(17)]]


def default_step(x: float) -> float:
    """A millionth, or a millionth of x where x is large: near the best a central difference can do."""
    return 1e-6 * max(1.0, abs(x))
