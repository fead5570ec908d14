"""`pellucid derive`: read an expression and its numbers, derive it, show every step."""

import re
from pathlib import Path

import click

from pellucid.api.results import require_output_path, write_output
from pellucid.cli.contract import read_expression_input, say_written, show_answer
from pellucid.cli.options import command_named, json_option
from pellucid.errors import ExpressionError, PellucidError, did_you_mean, quoted

_BINDING = re.compile(r"\s*([^=]*?)\s*=(.*)", re.DOTALL)


@command_named(
    "derive",
    'pellucid derive "x^2 + 3*x" x=2',
    'pellucid derive "1/(1+exp(-(w0*x0+w1*x1+w2)))" w0=2 x0=-1 w1=-2 x1=-2 w2=-3',
    'pellucid derive "s = a*b; p = s^2; q = s + a" a=2 b=3 --wrt a',
    'pellucid derive "tanh(w*x + b)" w=1 x=pi/4 b=0.5 --html neuron.html',
    'pellucid derive "softmax(z/T)[0]" "z=[4,3,2,1]" T=1 --wrt T',
    more="""
    Operators, tightest first:  ^ or **   sign -   * /   + -
    Functions:  exp log (or ln) sqrt sin cos tan asin acos atan sinh cosh tanh sigmoid relu
                leaky_relu softplus gelu abs max min sum prod where    Constants:  pi e tau
    Vectors:    [a, b, c], v[0] is the first element; operators and functions go element by
                element; max min sum prod mean softmax log_softmax logsumexp dot take whole ones
    """,
    # An expression may begin with a minus sign. What looks like an option but is none is sorted out below.
    ignore_unknown_options=True,
)
@click.argument("expression")
@click.argument("values", nargs=-1, metavar="[NAME=NUMBER]...")
@click.option("--brief", is_flag=True, help="Only the value and the gradients.")
@click.option("--steps", is_flag=True, help="Every step, however many there are.")
@click.option("--wrt", multiple=True, metavar="NAMES", help="Gradients toward these inputs only: --wrt w0,w1")
@click.option("--h", type=float, help="The step of the differences; shows forward, backward and central ones.")
@click.option("--latex", is_flag=True, help="The derivation as LaTeX.")
@json_option
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Draw the graph into FILE.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="A page that steps through the graph.")
def command(
    expression: str,
    values: tuple[str, ...],
    brief: bool,
    steps: bool,
    wrt: tuple[str, ...],
    h: float | None,
    latex: bool,
    as_json: bool,
    svg: Path | None,
    html: Path | None,
) -> None:
    """Evaluate EXPRESSION, differentiate it, and show every step with its numbers.

    Each gradient is checked by a central difference. EXPRESSION is - to read it from standard input.
    """
    _require_no_option(expression, *values)
    if brief + steps + latex + as_json > 1:
        raise PellucidError("--brief, --steps, --latex and --json exclude each other", fix="Keep one of them")
    if svg:
        require_output_path(svg, (".svg",))
    if html:
        require_output_path(html, (".html", ".htm"))

    from pellucid.api.derive import derive

    if expression == "-":
        from pellucid.autograd.grammar import MOST_CHARACTERS

        expression = read_expression_input(MOST_CHARACTERS)
    names = [name.strip() for part in wrt for name in part.split(",")]
    derivation = derive(expression, read_values(values), wrt=names, h=h)
    if svg:
        write_output(svg, derivation.svg())
    if html:
        write_output(html, derivation.html())

    if as_json:
        show_answer(derivation.record, as_json=True)
    elif latex:
        from pellucid.autograd.latex import derivation_latex

        click.echo(derivation_latex(derivation.record))
    else:
        from pellucid.figures.tables import show_parts
        from pellucid.figures.words.derivation import derivation_parts

        show_parts(derivation_parts(derivation.record, is_brief=brief, is_whole=steps, has_chosen_h=h is not None))
        say_written(svg, html)


def read_values(words: tuple[str, ...]) -> dict[str, float | list[float]]:
    """The numbers in words such as x=2 or angle=pi/4, and the vectors in those such as z=[4,3,2,1]."""
    values: dict[str, float | list[float]] = {}
    for word in words:
        found = _BINDING.fullmatch(word)
        if not found:
            raise PellucidError(
                f"{quoted(word)} is not of the form name=number", fix="Put the expression between quotes, then x=2"
            )
        name, number = found[1], found[2]
        _require_name(name, word)
        if name in values:
            raise PellucidError(f"{name} is given twice", fix=f"Keep one {name}=...")
        values[name] = _number(name, number)
    return values


def _require_name(name: str, word: str) -> None:
    from pellucid.autograd.expression import require_free_name

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise PellucidError(
            f"{quoted(name)} cannot be a name in {quoted(word)}", fix="Begin with a letter, then letters, digits or _"
        )
    require_free_name(name, word, 1)


def _number(name: str, text: str) -> float | list[float]:
    """The value of a constant expression, so that x=pi/4 and x=1e-3 are both understood."""
    from pellucid.autograd.grammar import parse

    if not text.strip():
        raise PellucidError(f"the value of {name} is empty", fix=f"Write {name}=2")
    if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise PellucidError(f"the value of {name} is {text.strip()}", fix="Give it a finite number")
    try:
        program = parse(text)
    except ExpressionError as error:
        raise PellucidError(error.what, where=f"in the value of {name}", fix=error.fix) from error
    if program.inputs:
        other = next(iter(program.inputs))
        raise PellucidError(f"the value of {name} depends on {quoted(other)}", fix=f"Give {name} a number, as {name}=2")
    numbers = program.evaluate({})
    if program.statements[0].name:  # output[0], output[1], ... of a vector
        return [numbers[element.place] for element in program.statements]
    return numbers[-1]


def _require_no_option(*words: str) -> None:
    """Refuse an argument that is a misspelt option: --brif would be read as minus minus brif."""
    options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
    for word in words:
        if re.fullmatch(r"--[a-z]{2,}(=.*)?", word):
            raise PellucidError(
                f"there is no option called {quoted(word)}",
                fix=did_you_mean(word.split("=")[0], options, "If it is an expression, put it in brackets"),
            )
