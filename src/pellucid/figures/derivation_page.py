"""One page on its own that walks through a derivation, forward and then backward, without any network."""

import json
import math
import shlex
from collections.abc import Iterator
from importlib.resources import files

from pellucid.errors import printable
from pellucid.figures.charts.svg import safe
from pellucid.figures.graph.folding import MOST_DRAWN
from pellucid.figures.graph.picture import SWATCHES, bare, called, drawing, key
from pellucid.figures.walk import Plain, walk
from pellucid.figures.words.formulas import cut, meaning
from pellucid.figures.words.numbers import counted, short
from pellucid.records import Check, Derivation, Effect

MOST_ROWS = 200  # of a table of gradients; all outputs together
LONGEST_EXPRESSION = 300
LONGEST_COMMAND = 400
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page_html(derivation: Derivation) -> str:
    """The page as text: picture, steps, tables and all that moves them in one file."""
    drawn = drawing(derivation)
    steps = walk(derivation, drawn.folded)
    text = cut(" ".join(derivation.text.split()), LONGEST_EXPRESSION)
    parts = {
        "POLICY": POLICY,
        "TITLE": safe(f"{cut(text, 60)} · pellucid derive"),
        "STYLE": _asset("page.css"),
        "EXPRESSION": safe(text),
        "VALUES": _values(derivation),
        "SELECTOR": _selector(derivation),
        "PICTURE": bare(drawn.marks, drawn.width, drawn.height),
        "KEY": _key(derivation),
        "LEFT_OUT": _left_out(derivation, steps),
        "TABLES": "".join(_tables(derivation)),
        "NOTES": _notes(derivation),
        "COMMAND": safe(_command(derivation)),
        "DATA": script_safe(json.dumps(steps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)),
        "SCRIPT": _asset("page.js"),
    }
    page = _asset("page.html")
    # Split once, so that nothing in the parts is ever taken for a place to fill.
    pieces = page.split("@@")
    return "".join([parts[piece] if i % 2 else piece for i, piece in enumerate(pieces)])


def _asset(name: str) -> str:
    return files("pellucid.figures").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def script_safe(document: str) -> str:
    """JSON that can stand inside a script element: no text in it can end the element or a line.

    >>> script_safe('"</script>"')
    '"\\\\u003c/script\\\\u003e"'
    """
    for character in "<>&\u2028\u2029":
        document = document.replace(character, f"\\u{ord(character):04x}")
    return document


def _values(derivation: Derivation) -> str:
    values = list(derivation.values.items())
    if [name for name, _ in values] == ["output"]:
        return f"<span>= {safe(short(values[0][1]))}</span>"
    return "".join([f"<span>{safe(name)} = {safe(short(value))}</span>" for name, value in values])


def _selector(derivation: Derivation) -> str:
    if len(derivation.passes) == 1:
        return ""
    last = len(derivation.passes) - 1
    options = [
        f'<option value="{i}"{" selected" if i == last else ""}>{safe(back.output)}</option>'
        for i, back in enumerate(derivation.passes)
    ]
    return f'<label class="selector">Backward from <select id="output">{"".join(options)}</select></label>'


def _key(derivation: Derivation) -> str:
    swatches = key("", 0, 0)
    output = f'<span class="output-name">{safe(called(derivation.passes[-1]))}</span>'
    return (
        f'<svg class="pellucid-graph" width="{SWATCHES - 10:.0f}" height="13" aria-hidden="true">{swatches}</svg> '
        f"raise it and {output} falls (blue) or rises (orange). On each arrow: the local slope."
    )


def _left_out(derivation: Derivation, steps: Plain) -> str:
    """What the page does not show, said before anyone looks for it."""
    words = []
    if len(derivation.nodes) > MOST_DRAWN:
        words.append(
            f"The graph has {counted(len(derivation.nodes), 'node')}. The picture draws the outputs and what is "
            f"nearest to them, and the inputs with the largest gradients; dashed boxes hold the rest."
        )
    n_forward = len(steps["forward"])
    if steps["forward_left_out"]:
        n = n_forward + steps["forward_left_out"]
        words.append(f"Of {counted(n, 'step')} forward the first and the last {n_forward // 2:,} are listed.")
    for output in steps["outputs"]:
        n = len(output["steps"])
        if n < output["n_steps"]:
            whole = counted(output["n_steps"], "step")
            words.append(f"Of {whole} back from {output['name']} the first and the last {n // 2:,} are listed.")
    return f'<p class="left-out">{safe(" ".join(words))}</p>' if words else ""


def _tables(derivation: Derivation) -> Iterator[str]:
    most = max(1, MOST_ROWS // len(derivation.passes))
    effects = {(effect.output, effect.variable): effect for effect in derivation.effects}
    for i, back in enumerate(derivation.passes):
        checks = [check for check in derivation.checks if check.output == back.output]
        shown = checks
        if len(checks) > most:
            strongest = sorted(range(len(checks)), key=lambda at: -_strength(checks[at]))[:most]
            shown = [checks[at] for at in sorted(strongest)]
        rows = [_row(derivation, check, effects.get((check.output, check.variable))) for check in shown]
        more = ""
        if len(checks) > len(shown):
            more = f"<p>The {len(shown)} largest of {counted(len(checks), 'gradient')}.</p>"
        yield (
            f'<section class="gradients" data-output="{i}"><h2>Gradients of {safe(called(back))}, beside central '
            f'differences</h2>{more}<div class="scroll"><table><thead><tr><th>input</th><th>value</th><th>gradient</th>'
            f"<th>central difference</th><th>disagreement</th><th>what it means</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table></div></section>"
        )


def _strength(check: Check) -> float:
    return abs(check.exact) if math.isfinite(check.exact) else math.inf


def _row(derivation: Derivation, check: Check, effect: Effect | None) -> str:
    measured = "not measured" if check.measured is None else short(check.measured)
    disagreement = "not known" if check.disagreement is None else f"{check.disagreement:.1e}"
    numbers = [short(derivation.inputs[check.variable]), short(check.exact), measured, disagreement]
    cells = "".join([f"<td>{safe(number)}</td>" for number in numbers])
    means = meaning(effect) if effect else "not measured"
    return f'<tr><th scope="row">{safe(check.variable)}</th>{cells}<td class="meaning">{safe(means)}</td></tr>'


def _notes(derivation: Derivation) -> str:
    if not derivation.notes:
        return ""
    items = "".join([f"<li>{safe(note.text)}</li>" for note in derivation.notes])
    return f'<section class="notes"><h2>Notes</h2><ul>{items}</ul></section>'


def _command(derivation: Derivation) -> str:
    """What to type in a terminal to read the same steps."""
    if len(derivation.text) > LONGEST_COMMAND or len(derivation.inputs) > 40:
        return "pellucid derive EXPRESSION x=1 ... --steps"
    values = [shlex.quote(f"{name}={value!r}") for name, value in derivation.inputs.items()]
    return " ".join(["pellucid derive", shlex.quote(printable(derivation.text)), *values, "--steps"])
