"""What every kind of note owes: a sentence, all of its facts, and a place where it is made by its name, not as text."""

import ast
import inspect
import json
import string
from pathlib import Path

import pytest
from tests.tiny_records import TINY_RUN

import pellucid
from pellucid.figures.show import record_json
from pellucid.figures.words.notes import NOT_KNOWN, NOTES, note_sentences
from pellucid.figures.words.training import data_lines
from pellucid.records import Ladder, Statement, as_plain, from_plain
from pellucid.runs import RunWriter, open_run

SOURCES = sorted(Path(pellucid.__file__).parent.rglob("*.py"))
EXAMPLES = {
    "written": {"sentence": "3 empty lines were left out"},
    "data-unknown": {},
    "exported-alone": {"alone": 2.4849, "both": 1.9514, "n": 10_655},
    "export-unchecked": {"tool": "llama-cpp-python", "file": "GGUF"},
    "byte-order-mark": {},
    "cr-read-as-lf": {},
    "crlf-left-out": {"n": 3},
    "line-ends": {"n_crlf": 1, "n_cr": 0, "n_separators": 2, "newlines": "keep"},
    "only-white-space": {},
    "nul": {"character": 11},
    "empty-lines": {"n": 3},
    "repeated-items": {"n": 1, "n_all": 4},
    "spaced-items": {"n": 3},
    "repeated-pairs": {"n": 1, "n_all": 4},
    "contradicting-pairs": {"n": 3},
    "set-not-file": {"name": "names"},
    "python-version": {},
    "missing-cells": {"gaps": {"age": 2, "sex": 1100}},
    "no-value": {"column": "age"},
    "none-as-category": {"column": "alley", "counts": {"None": 50, "NA": 2}},
    "kept-as-text": {"column": "id", "why": "leading zero"},
    "dates": {"column": "born"},
    "dates-day-first": {"column": "born", "written": "31.12.2024", "day": "2024-12-31"},
    "looks-like-dates": {"column": "born"},
    "looks-like-numbers": {"column": "price", "cell": "$1.50"},
    "text-by-one-cell": {"column": "b", "cell": "oops", "place": "a.csv:9", "n": 200},
    "texts-and-numbers": {"column": "a", "line": 2},
    "unreadable-images": {"n": 3},
    "hidden-files": {"n": 3},
    "links": {"n": 3},
    "files-elsewhere": {"n": 3},
    "classes-without-images": {"n": 3},
    "repeated-images": {"n": 3},
    "images-in-several-classes": {"n": 3},
    "animated-images": {"n": 3},
    "image-size": {"n_sizes": 1, "size": (65, 64), "read_as": (32, 32)},
    "images-in-colour": {},
    "images-in-gray": {"n": 100},
    "single-images": {"n": 3},
    "target": {"column": "species", "n_classes": 3, "because": "texts"},
    "rows-without-target": {"n": 11, "n_all": 344, "target": "sex"},
    "single-members": {"n": 3},
    "late-classes": {"classes": ["c", "d"]},
    "repeated-rows": {"n": 3},
    "few-forms": {"n": 6},
    "left-out": {"column": "id", "why": "identifier"},
    "left-out-as-asked": {"columns": ["born", "code"]},
    "date-parts": {"column": "sold", "parts": ["month", "day"]},
    "number-as-category": {"column": "school"},
    "unknown-columns": {"columns": ["a", "b", "c"], "n": 4},
    "unknown-categories": {"n": 4},
    "context-cut": {"asked": 256, "needed": 257, "smaller": 100, "used": 99},
    "not-compared": {"columns": ["name", "city"]},
    "edits-not-looked-for": {"noun": "items", "n_characters": 30_000_000},
    "near-not-counted": {"without": [], "n_rows": 100, "n_forms": 2},
    "strata": {"n": 12, "tops": [0.05, 0.01], "n_too_small": 1, "n_sides": 3},
    "target-missing": {"n": 1, "n_all": 300, "target": "kind"},
    "tells-order": {"column": "day"},
    "letters-left-out": {"noun": "the prompt", "letters": ["É", "!"]},
    "prompt-cut": {"n": 2000, "n_used": 1000},
    "input-cut": {"n": 2000, "n_used": 1000},
    "one-sample": {},
    "samples-cut": {"n": 1000},
    "loss-infinite": {"n": 2},
    "data-gone": {"error": "own.txt is gone"},
    "data-changed": {"name": "own.txt"},
    "train-too-long": {"n": 3_000_000},
    "trained-on": {"n": 12, "n_all": 12, "one": "row"},
    "truth-known": {"n": 10, "n_known": 11, "n_all": 12},
    "rung-ended": {"name": "mlp", "verdict": "good fit", "reason": "plateau", "step": 800, "steps": 1000},
    "weights-not-held": {},
    "input-guessed": {"shapes": ["2,3,28,28", "2,16:int"]},
    "guess-refused": {"shapes": ["2,3,28,28"]},
    "no-guess": {},
    "lazy-parameters": {},
    "broadcasts-not-looked-for": {"seconds": 4.25},
    "ran-once": {"error": "ValueError", "message": "only once"},
    "pass-changed": {"what": "tensor 0 of batch 0"},
    "rule-changed": {"rule": "ties", "what": "the optimizer"},
    "file-mended": {"file": "net.py", "mistake": "a comma is missing"},
    "own-process": {"files": ["net.py"], "n_printed": 1200},
    "shapes-only": {},
    "published": {
        "parameters": 25_557_032,
        "multiply_adds": 4.1,
        "own_parameters": 25_557_032,
        "own_multiply_adds": 4.089,
    },
    "drawn-of-data": {"description": "names: a list of 30,000 items"},
    "drawn-of-run": {"run": "first", "model": "mlp", "description": "names: a list of 30,000 items"},
    "no-run-named": {"model": "mlp", "data": "names", "steps": 400, "seed": 1},
}


def facts_of(kind: str) -> set[str]:
    """The facts that a sentence is made with."""
    sentence = NOTES[kind]
    if isinstance(sentence, str):
        return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
    return set(inspect.signature(sentence).parameters)


def calls_of(name: str) -> list[tuple[str, ast.Call]]:
    """Every call of a function or class in the package, and its file and line."""
    texts = ((path, path.read_text()) for path in SOURCES)
    return [
        (f"{path.name}:{node.lineno}", node)
        for path, text in texts
        if name in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


@pytest.mark.parametrize("kind", NOTES)
def test_every_kind_has_a_sentence_that_says_all_of_its_facts(kind):
    facts = EXAMPLES[kind]
    assert set(facts) == facts_of(kind)
    (said,) = note_sentences([Statement(kind, facts)])
    assert said != NOT_KNOWN
    assert "{" not in said
    for fact in facts.values():
        if isinstance(fact, str) and fact not in ("keep", "texts", "leading zero", "identifier"):
            assert fact in said
    # What came back from a run's folder is said as what went in.
    assert note_sentences([from_plain(Statement, json.loads(json.dumps(as_plain(Statement(kind, facts)))))]) == [said]


def test_every_note_is_made_by_its_name_with_the_facts_that_its_sentence_wants():
    made = calls_of("make_note")
    for where, call in made:
        assert isinstance(call.args[0], ast.Constant), f"{where} makes a note without naming its kind"
        assert {keyword.arg for keyword in call.keywords} == facts_of(call.args[0].value), where
    kinds = {call.args[0].value for _, call in made if isinstance(call.args[0], ast.Constant)}
    assert kinds == set(NOTES) - {"written"}


@pytest.mark.parametrize(
    "note",
    [
        Statement("from tomorrow", {}),
        Statement("links", {}),
        Statement("links", {"n": "many"}),
        Statement("missing-cells", {"gaps": 3}),
        Statement("left-out", {"column": "a", "why": "a whim"}),
        Statement("truth-known", {"n": 1, "n_known": 0, "n_all": 0}),
        Statement("links", {"n": 1, "self": 2, "sentences": 3}),
    ],
)
def test_what_a_strange_folder_holds_stops_nothing(note):
    (said,) = note_sentences([note])
    assert said in (NOT_KNOWN, "1 links were not followed")


def test_notes_are_sentences_in_json_and_kinds_in_a_folder():
    notes = (Statement("empty-lines", {"n": 3}),)
    ladder = Ladder("names", (), notes)
    assert json.loads(record_json(ladder))["notes"] == ["3 empty lines were left out"]
    assert as_plain(ladder)["notes"] == [{"kind": "empty-lines", "facts": {"n": 3}}]
    report = json.loads(record_json(TINY_RUN))
    assert report["data"]["notes"] == note_sentences(TINY_RUN.data.notes)
    assert report["plan"]["reasons"] == as_plain(TINY_RUN.plan.reasons)


def test_a_folder_from_before_notes_had_kinds_is_read_and_shown(tmp_path):
    sentences = ["3 empty lines were left out", "line ends kept as they are: {n} CRLF"]
    record = {"data": {**as_plain(TINY_RUN.data), "notes": sentences}, "seed": 1}
    with RunWriter.create(tmp_path / "old", record, n_bytes=1000):
        data = open_run(tmp_path / "old").data
    assert note_sentences(data.notes) == sentences
    assert data_lines(data)[-2:] == [f"note: {sentence}" for sentence in sentences]
