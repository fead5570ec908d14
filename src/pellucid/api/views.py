"""Answers of the other functions here as pages show them: their records as JSON, with the terminal's words beside."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError, quoted
from pellucid.records import as_plain

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.api.speak import Speaker
    from pellucid.autograd.expression import Program
    from pellucid.figures.picture import Picture
    from pellucid.records import ClaimResult, Derivation, Diagnosis, Inspection


def import_whole_packages() -> None:
    """Import the packages that import their own parts, before several threads ask for them.

    Of two threads of which one imports a package and the other begins with a part of it each waits for the other.
    Python then gives one of them half a module: an answer 500, now and then, where two pages were opened at once.
    """
    for name in ("pellucid.autograd", "pellucid.claims", "pellucid.export"):
        importlib.import_module(name)


def plain_derivation_walk(expression: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A derivation with its graph, its steps forward and backward, its checks, and LaTeX to copy.

    A name without a value gets 1, so that something can be seen while one types; which they are is told.
    """
    from pellucid.api.derive import derive
    from pellucid.autograd.grammar import parse
    from pellucid.autograd.latex import derivation_latex
    from pellucid.figures.derivation_page import walk_steps
    from pellucid.figures.graph.picture import bare_graph, draw_graph
    from pellucid.figures.words.derivation import effect_words
    from pellucid.figures.words.notation import short

    lengths = {name: len(value) for name, value in values.items() if isinstance(value, list) and value}
    program = parse(expression, lengths)
    names = list(dict.fromkeys(name.partition("[")[0] for name in program.inputs))
    given = {name: _as_value(name, values.get(name, 1.0)) for name in names}
    record = derive(expression, given).record
    drawn = draw_graph(record)
    effects = {(effect.output, effect.variable): effect for effect in record.effects}
    return {
        "expression": record.text,
        "names": names,
        "values": given,
        "guessed": [name for name in names if name not in values],
        "outputs": [{"name": name, "value": value, "shown": short(value)} for name, value in record.values.items()],
        "svg": bare_graph(drawn.marks, drawn.width, drawn.height, has_styles=False),
        "width": drawn.width,
        "height": drawn.height,
        "steps": walk_steps(record, drawn.folded),
        "checks": [
            {
                **check._asdict(),
                "value": short(record.inputs[check.variable]),
                "shown": short(check.exact),
                "measured_shown": "not measured" if check.measured is None else short(check.measured),
                "effect": effect_words(effects[check.output, check.variable])
                if (check.output, check.variable) in effects
                else "",
            }
            for check in record.checks[:200]
        ],
        "curves": _nudged(program, record),
        "notes": [note.text for note in record.notes],
        "latex": derivation_latex(record),
        "n_nodes": len(record.nodes),
    }


MOST_NUDGED = 12  # inputs whose curves are drawn
CURVE_POINTS = 61


def _nudged(program: Program, record: Derivation) -> dict[str, Any]:
    """The last output over each input, the others held: a curve around where it stands, and its slope there."""
    back = record.passes[-1]
    found = {}
    for name in list(record.inputs)[:MOST_NUDGED]:
        at = record.inputs[name]
        reach = max(2.0, abs(at))
        xs = [at - reach + 2 * reach * i / (CURVE_POINTS - 1) for i in range(CURVE_POINTS)]
        ys = [program.evaluate({**record.inputs, name: x})[back.place] for x in xs]
        slope = next(
            (check.exact for check in record.checks if check.variable == name and check.output == back.output), 0.0
        )
        found[name] = {"x": xs, "y": ys, "at": at, "value": record.nodes[back.place].value, "slope": slope}
    return found


def graph_styles() -> str:
    """The style sheet of graphs that a page shows inside itself, light or dark."""
    from pellucid.figures.picture import asset

    return f"{asset('graph.css')}\n{asset('graph-dark.css')}"


def page_svg(picture: Picture) -> str:
    """A picture as a page shows it, light or dark as the page is."""
    from pellucid.figures.picture import follow_page

    return follow_page(picture.svg)


def _as_value(name: str, value: object) -> Any:
    if isinstance(value, list) and value and all(_is_number(one) for one in value):
        return [float(one) for one in value]
    if _is_number(value):
        return float(value)  # type: ignore[arg-type]  # a number, as was just seen
    raise PellucidError(f"the value of {quoted(name)} is no number", fix=f"Give one, such as {name}=2")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain_xray(text: str, shape: str = "") -> dict[str, Any]:
    """A module that is written as an expression: its rows, what disagrees, what mends it, and what it costs."""
    from pellucid.figures.words.inspection import inspection_notes, short_shape, total_lines
    from pellucid.figures.words.shapes import (
        chain_lines,
        failure_sentence,
        fed_words,
        origin_place,
        repair_words,
        wanted_words,
    )

    seen = _inspect_expression(text, shape)
    failure = seen.failure
    return {
        "rows": [
            {
                "path": row.path,
                "kind": row.kind,
                "inputs": [short_shape(one) for one in row.inputs],
                "outputs": [short_shape(one) for one in row.outputs],
                "parameters": row.parameters,
                "flops": row.own_flops,
                "share_of_time": row.share_of_time,
                "n_calls": row.n_calls,
            }
            for row in seen.rows
        ],
        "parameters": seen.parameters,
        "flops": seen.flops_by_operation,
        "totals": list(total_lines(seen)),
        "notes": list(inspection_notes(seen)),
        "mistakes": as_plain(seen.mistakes),
        "mended": seen.mended,
        "failure": {
            "sentence": failure_sentence(failure),
            "path": failure.path,
            "fed": fed_words(failure),
            "origin": origin_place(failure.origin),
            "wanted": wanted_words(failure),
            "torch": failure.error,
            "chain": [
                {"text": line, "is_failed": step.is_failed}
                for line, step in zip(chain_lines(failure), failure.chain, strict=False)
            ],
            "repairs": [repair_words(repair) for repair in failure.repairs],
        }
        if failure
        else None,
    }


def _inspect_expression(text: str, shape: str) -> Inspection:
    """In this process: an expression is our own language, and runs nobody's code."""
    from pellucid.inspection.expression.modules import build_module
    from pellucid.inspection.expression.syntax import parse_shape
    from pellucid.inspection.inspect import inspect_expression, make_inputs

    made = build_module(text)
    inputs = make_inputs([parse_shape(shape)], made.module) if shape.strip() else ()
    return inspect_expression(made, inputs, " ".join(text.split()))


def plain_lesson(name: str, knobs: Mapping[str, Any]) -> dict[str, Any]:
    """The picture of a lesson with these knobs, its title, and what was measured, in sentences."""
    from pellucid.api.draw import draw
    from pellucid.errors import require_one_of
    from pellucid.lessons.lesson import all_lessons

    require_one_of("lesson", name, all_lessons())
    given: dict[str, Any] = {knob: tuple(value) if isinstance(value, list) else value for knob, value in knobs.items()}
    drawn = draw(name, None, **given)
    picture = drawn.drawing
    return {
        "title": picture.title,
        "caption": list(picture.caption),
        "svg": page_svg(picture),
        "notes": list(drawn.notes),
    }


@functools.cache
def plain_claims() -> dict[str, Any]:
    """The whole ledger in short, its families and its tally."""
    from pellucid.api.claims import list_claims
    from pellucid.claims.claim import all_families
    from pellucid.figures.words.claims import claim_verdict_words, deciding_words, tally_words

    ledger = list_claims()
    return {
        "tally": tally_words(ledger),
        "families": {name: family.title for name, family in all_families().items()},
        "claims": [
            {
                "id": one.id,
                "family": one.family,
                "where": one.where,
                "statement": one.statement,
                "verdict": one.verdict,
                "words": claim_verdict_words(one),
                "because": deciding_words(one) or one.reason,
                "seconds": one.seconds,
                "covers": list(one.covers),
            }
            for one in ledger.results
        ],
    }


def plain_claim_in_full(name: str) -> dict[str, Any]:
    """One claim with its numbers, its rule, its control, and how it was tested."""
    from pellucid.api.claims import find_result

    return _claim_with_words(find_result(name))


def run_one_claim(name: str) -> dict[str, Any]:
    """A claim run here and now, and whether its verdict is the stored one."""
    from pellucid.api.claims import find_result, run_claims

    before = find_result(name)
    ledger = run_claims([name])
    (result,) = ledger.results
    return {**_claim_with_words(result), "stored_verdict": before.verdict, "is_same": result.verdict == before.verdict}


def _claim_with_words(result: ClaimResult) -> dict[str, Any]:
    from pellucid.figures.claims_page import draw_claim_result
    from pellucid.figures.tables import plain_table
    from pellucid.figures.words.claims import claim_verdict_words, condition_lines, numbers_table

    try:
        svg = page_svg(draw_claim_result(result)) if result.numbers else ""
    except PellucidError:
        svg = ""
    return {
        **as_plain(result),
        "words": claim_verdict_words(result),
        "table": plain_table(numbers_table(result)) if result.numbers else None,
        "lines": list(condition_lines(result)),
        "svg": svg,
    }


def plain_findings(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """What the doctor found, the gravest first, with its advice."""
    from pellucid.figures.words.inspection import advice_words, finding_heading

    return [
        {**finding._asdict(), "heading": finding_heading(finding), "advice": advice_words(finding)}
        for finding in diagnosis.findings
    ]


def plain_samples(
    speaker: Speaker, *, prompt: str, temperature: float, seed: int, count: int, filters: Mapping[str, float]
) -> dict[str, Any]:
    """Samples with their provenance, and how they were drawn, in words."""
    from pellucid.decoding.options import SampleOptions
    from pellucid.figures.words.counting import drawing_words, novelty_words, tally

    options = SampleOptions(
        count=1 if temperature == 0 else count,
        prompt=prompt,
        temperature=temperature,
        seed=seed,
        length=None if speaker.model.is_list else 160,
        filters=filters,
    )
    found, provenances = speaker.samples(options)
    return {
        "drawing": drawing_words(found),
        "tally": tally(found.samples) if speaker.model.is_list and found.samples else "",
        "samples": [
            {**sample._asdict(), "words": novelty_words(sample), "provenance": provenance}
            for sample, provenance in zip(found.samples, provenances, strict=True)
        ],
    }


def plain_surprise(name: str, speaker: Speaker, text: str) -> dict[str, Any]:
    """The surprise of every token of a text under one model."""
    scored = speaker.score(text)
    nats = sum(one.nats for one in scored.surprises)
    return {
        "run": name,
        "surprises": as_plain(scored.surprises),
        "nats": nats,
        "mean": nats / max(1, len(scored.surprises)),
    }


def plain_token_mistakes(run: str | Path) -> dict[str, Any]:
    """What a run's network of a list or a text gets wrong on dev, with the picture of its calibration."""
    from pellucid.figures.drawings.calibration import draw_calibration
    from pellucid.figures.tables import plain_table
    from pellucid.figures.words.answers import token_confusion_table, token_mistake_lines
    from pellucid.figures.words.notation import token_label
    from pellucid.runs import open_run
    from pellucid.training.inference.token_mistakes import measure_token_mistakes

    seen = measure_token_mistakes(open_run(run))
    return {
        **as_plain(seen),
        "lines": token_mistake_lines(seen),
        "parts": [
            {
                **as_plain(part),
                "tokens": [
                    {**as_plain(one), "label": token_label(one.token), "likeliest_label": token_label(one.likeliest)}
                    for one in part.tokens
                ],
            }
            for part in seen.parts
        ],
        "confusion_table": plain_table(token_confusion_table(seen.confusions)),
        "svg": page_svg(draw_calibration(seen)),
    }
