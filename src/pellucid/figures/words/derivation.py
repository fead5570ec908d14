"""A derivation as words and tables for a terminal."""

import enum
import io
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.formulas import cut, meaning, with_names, with_numbers
from pellucid.figures.words.numbers import bracketed, counted, short
from pellucid.records import BackwardPass, Check, Derivation

MOST_ROWS = 40  # of a listing that --steps shows whole
NARROWEST = 120  # columns assumed where the output is no terminal


class Detail(enum.Enum):
    """How much of a derivation is shown."""

    BRIEF = "the value and the gradients"
    USUAL = "the first steps too"
    WHOLE = "every step"


def show(derivation: Derivation, detail: Detail, *, has_chosen_h: bool = False) -> None:
    """Print the derivation on stdout."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(Group(*_parts(derivation, detail, has_chosen_h)))
    else:
        print(derivation_text(derivation, detail, has_chosen_h=has_chosen_h))


def derivation_text(
    derivation: Derivation, detail: Detail = Detail.USUAL, *, has_chosen_h: bool = False, width: int = NARROWEST
) -> str:
    """The same as plain text, without colours and without blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(Group(*_parts(derivation, detail, has_chosen_h)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _parts(derivation: Derivation, detail: Detail, has_chosen_h: bool) -> Iterator[RenderableType]:
    most = None if detail is Detail.WHOLE else MOST_ROWS
    yield _values(derivation)
    if detail is Detail.BRIEF:
        yield _brief_gradients(derivation)
        yield from _notes(derivation)
        return
    yield _heading("Forward: each number and how it was made")
    yield _forward(derivation, most)
    for back in derivation.passes:
        yield _heading(f"Backward from {back.output}: upstream × local slope = contribution")
        yield _backward(derivation, back, most)
    if not derivation.checks:
        return
    yield _heading("Gradients, beside central differences")
    yield _gradients(derivation, most)
    if has_chosen_h:
        yield _heading("Differences with the step you chose, and their errors")
        yield _differences(derivation.checks[:most])
    if derivation.effects:
        yield _heading("What it means")
        for effect in derivation.effects[:most]:
            yield _indented(Text(meaning(effect)))
        yield from _left_out(len(derivation.effects), most, "input")
    yield from _notes(derivation)


def _heading(text: str) -> RenderableType:
    return Text(f"\n{text}", style="bold")


def _values(derivation: Derivation) -> RenderableType:
    expression = printable(derivation.text if len(derivation.text) <= 200 else derivation.text[:199] + "…")
    if list(derivation.values) == ["output"]:
        return Text.assemble(f"{expression} = ", (short(derivation.value), "bold"))
    listed = ", ".join(f"{name} = {short(value)}" for name, value in derivation.values.items())
    return Text.assemble(f"{expression}\n", (listed, "bold"))


def _table(*columns: tuple[str, str]) -> Table:
    """A table without lines, with one column for each (heading, alignment)."""
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(h for h, _ in columns)
    )
    for heading, alignment in columns:
        table.add_column(heading, justify="right" if alignment == "right" else "left", no_wrap=alignment != "words")
    return table


def _indented(*parts: RenderableType) -> RenderableType:
    return Padding(Group(*parts), (0, 0, 0, 2), expand=False)


def _forward(derivation: Derivation, most: int | None) -> RenderableType:
    given = list(derivation.inputs.items())
    listed = "given  " + ",  ".join(f"{name} = {short(value)}" for name, value in given[:most])
    nodes = [node for node in derivation.nodes if node.form != "given"]
    table = _table(("", "left"), ("", "left"), ("", "left"), ("", "left"), ("", "left"))
    for node in nodes[:most]:
        table.add_row(
            node.name,
            f"= {with_names(derivation.nodes, node)}",
            f"= {with_numbers(derivation.nodes, node)}",
            f"= {short(node.value)}",
            Text(cut(derivation.text[node.start : node.end], 31), "dim"),
        )
    above = [Text(listed), *_left_out(len(given), most, "input")] if given else []
    return _indented(*above, table, *_left_out(len(nodes), most, "node"))


def _backward(derivation: Derivation, back: BackwardPass, most: int | None) -> RenderableType:
    table = _table(("", "right"), ("", "left"), ("", "right"), ("", "left"), ("", "left"), ("", "words"))
    for step in back.steps[:most]:
        so_far = f"sum {short(step.running_sum)} ({step.use}/{step.uses})" if step.uses > 1 else ""
        table.add_row(
            Text(f"{step.number}.", "dim"),
            f"{step.node_name} → {step.parent_name}",
            f"{short(step.upstream)} × {bracketed(step.slope)}",
            f"= {short(step.contribution)}",
            so_far,
            Text(step.because, "dim"),
        )
    if not back.steps:
        return _indented(Text("nothing to do: the output does not depend on any input", "dim"))
    return _indented(table, *_left_out(len(back.steps), most, "step"))


def _gradients(derivation: Derivation, most: int | None) -> RenderableType:
    has_several = len(derivation.values) > 1
    table = _table(
        *([("output", "left")] if has_several else []),
        ("input", "left"),
        ("value", "right"),
        ("gradient", "right"),
        ("central difference", "right"),
        ("disagreement", "right"),
        ("h", "right"),
    )
    for check in derivation.checks[:most]:
        measured = "not known" if check.measured is None else short(check.measured)
        disagreement = "not measured" if check.disagreement is None else f"{check.disagreement:.1e}"
        table.add_row(
            *([check.output] if has_several else []),
            check.variable,
            short(derivation.inputs[check.variable]),
            Text(short(check.exact), "bold"),
            measured,
            disagreement,
            f"{check.h:g}",
        )
    return _indented(table, *_left_out(len(derivation.checks), most, "gradient"))


def _brief_gradients(derivation: Derivation) -> RenderableType:
    has_several = len(derivation.values) > 1
    table = _table(("", "left"), ("", "right"))
    for check in derivation.checks:
        name = f"d{check.output}/d{check.variable}" if has_several else check.variable
        table.add_row(name, short(check.exact))
    return table


def _differences(checks: Sequence[Check]) -> RenderableType:
    table = _table(("input", "left"), ("kind", "left"), ("slope", "right"), ("exact", "right"), ("error", "right"))
    for check in checks:
        for difference in check.differences:
            table.add_row(
                check.variable, difference.kind, short(difference.slope), short(check.exact), f"{difference.error:.1e}"
            )
    return _indented(table)


def _notes(derivation: Derivation) -> Iterator[RenderableType]:
    if derivation.notes:
        yield _heading("Note")
        for note in derivation.notes:
            yield _indented(Text(note.text, style="yellow"))


def _left_out(n: int, most: int | None, noun: str) -> Iterator[RenderableType]:
    if most is not None and n > most:
        yield Text(f"… and {counted(n - most, f'more {noun}')}; --steps shows all", "dim")
