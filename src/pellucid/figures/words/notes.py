"""Notes in words: what whoever reads data, samples, answers or an inspection should know."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pellucid.errors import one_line, quoted
from pellucid.figures.words.notation import count_of, with_article
from pellucid.records import Statement, as_plain

NOT_KNOWN = "not known"
MOST_CLASSES, MOST_COLUMNS = 5, 5  # that a note names

Sentences = Mapping[str, str | Callable[..., str]]

# Why a column is not read.
LEFT_OUT = MappingProxyType(
    {
        "empty": "has no value",
        "constant": "is the same in every row",
        "constant in train": "is the same in every row of train",
        "group": "is the group, whose values train and dev do not share,",
        "order": "only tells an order",
        "text": "holds text that names no groups",
        "identifier": "has another whole number in every row, as identifiers have,",
    }
)
KEPT_AS_TEXT = MappingProxyType({"huge": "numbers beyond 2^53", "leading zero": "numbers that begin with 0"})
TARGET_REASONS = MappingProxyType(
    {
        "texts": "it holds texts",
        "few whole numbers": "few whole numbers",
        "numbers": "it holds numbers",
        "asked": "asked for",
    }
)


def _line_ends(n_crlf: int, n_cr: int, n_separators: int, newlines: str) -> str:
    counts = {"CRLF": n_crlf, "lone CR": n_cr, "U+0085, U+2028 or U+2029": n_separators}
    odd = ", ".join([f"{n:,} {what}" for what, n in counts.items() if n])
    return (
        f"made LF: {odd}" if newlines == "unix" else f"line ends kept as they are: {odd}; newlines=unix makes each LF"
    )


def _target(column: str, n_classes: int, because: str) -> str:
    task = f"classification into {n_classes} classes" if n_classes else "regression"
    otherwise = "task=regression to predict a number" if n_classes else "task=classification to predict a class"
    return f"{column}: {task} ({TARGET_REASONS[because]}); {otherwise}"


def _none_as_category(column: str, counts: Mapping[str, int]) -> str:
    which = " and ".join([f"{quoted(word)} {n:,} times" for word, n in counts.items()])
    return f"{quoted(column)} holds {which}, read as a category; missing_values=words reads it as missing"


def _unknown_columns(columns: Sequence[str], n: int) -> str:
    more = f" and {n - len(columns):,} more" if n > len(columns) else ""
    return f"not read, for the network does not know them: {', '.join([quoted(name, 20) for name in columns])}{more}"


def _strata(n: int, tops: Sequence[float], n_too_small: int, n_sides: int) -> str:
    bins = ", ".join([f"{100 * top:.3g} %" for top in tops])
    said = f"{n:,} strata: quantile bins{f', the top {bins} in bins of their own' if bins else ''}"
    return said + (f"; {n_too_small:,} of them have fewer than {n_sides} rows, which all train" if n_too_small else "")


def _near_not_counted(without: Sequence[str], n_rows: int, n_forms: int) -> str:
    how = f"without {', '.join(without)}" if without else "after rounding"
    return f"near-duplicates not counted: {how}, {n_rows:,} rows have at most {n_forms:,} different forms"


def _image_size(n_sizes: int, size: Sequence[int], read_as: Sequence[int]) -> str:
    came = f"of {n_sizes:,} sizes" if n_sizes > 1 else f"{size[0]}×{size[1]}"
    return f"the images are {came}, and are read as {read_as[0]}×{read_as[1]}; image_size changes that"


def _trained_on(n: int, n_all: int, one: str) -> str:
    how_many = f"{'all' if n == n_all > 1 else f'{n:,}'} of {count_of(n_all, one)}"
    return f"the network was trained on {how_many}: it may know the answers by heart, and says less well of others"


def _truth_known(n: int, n_known: int, n_all: int) -> str:
    of_some = f" of {n_known:,} of them" if n_known < n_all else ""
    return f"the truth is known{of_some}: {n:,} of {n_known:,} are right, {100 * n / n_known:.2f} %"


def _no_run_named(model: str, data: str, steps: int, seed: int) -> str:
    return f"no run was named: {with_article(model)} of {data}, {steps} steps, seed {seed}"


# Every kind of note: a sentence with its facts in braces, or a function of them.
NOTES: Sentences = MappingProxyType(
    {
        "written": "{sentence}",  # of a run from before notes had kinds
        "data-unknown": "what the model was trained on is not known, so how much of this is copied is not known either",
        # Exports
        "exported-alone": "without its counts the network has {alone:.4f} nats a token where both together have "
        "{both:.4f}, on {n:,} tokens of dev",
        "export-unchecked": "{tool} is not installed, so the {file} file was read back and not loaded by it",
        # Texts, lists and pairs
        "byte-order-mark": "a byte order mark at the start was left out",
        "cr-read-as-lf": "lines end in CR alone, read as LF",
        "crlf-left-out": "{n:,} lines end in CRLF, which was left out",
        "line-ends": _line_ends,
        "only-white-space": "there is nothing but white space in it",
        "nul": "a NUL at character {character:,}; only tokens=bytes can take it",
        "empty-lines": "{n:,} empty lines were left out",
        "repeated-items": "{n:,} of the {n_all:,} items repeat an earlier one",
        "spaced-items": "{n:,} items begin or end with white space, which is kept",
        "repeated-pairs": "{n:,} of the {n_all:,} pairs repeat an earlier one",
        "contradicting-pairs": "{n:,} pairs give a source another target than before",
        "set-not-file": "the set that comes with pellucid, not the file; for the file write ./{name}",
        "python-version": "other versions of Python have other texts",
        # Columns of a table
        "missing-cells": lambda gaps: f"missing cells: {', '.join([f'{name} {n:,}' for name, n in gaps.items()])}",
        "no-value": lambda column: f"{quoted(column)} has no value at all",
        "none-as-category": _none_as_category,
        "kept-as-text": lambda column, why: (
            f"{quoted(column)} holds {KEPT_AS_TEXT[why]}, so it is kept as text and not rounded"
        ),
        "dates": lambda column: f"{quoted(column)} holds dates, which sort in time",
        "dates-day-first": lambda column, written, day: (
            f"{quoted(column)} holds dates, day first, as {written} is {day}; they sort in time"
        ),
        "looks-like-dates": lambda column: (
            f"{quoted(column)} looks like dates, kept as text; write them as 2024-12-31 to use their order"
        ),
        "looks-like-numbers": lambda column, cell: (
            f"{quoted(column)} looks like numbers, as {quoted(cell)}; as_number={column} reads them"
        ),
        "text-by-one-cell": lambda column, cell, place, n: (
            f"{quoted(column)} is text because of {quoted(cell)} ({place}); {n:,} of its cells are numbers"
        ),
        "texts-and-numbers": lambda column, line: (
            f"{quoted(column)} mixes texts and numbers, so it is text; first text on line {line:,}"
        ),
        # Folders of images
        "unreadable-images": "{n:,} images that cannot be read were left out",
        "hidden-files": "{n:,} hidden files and folders were left out",
        "links": "{n:,} links were not followed",
        "files-elsewhere": "{n:,} files outside class folders, or folders inside them, were left out",
        "classes-without-images": "{n:,} classes have no readable image and were left out",
        "repeated-images": "{n:,} images are byte for byte the same as an earlier one",
        "images-in-several-classes": "{n:,} images stand in more than one class",
        "animated-images": "{n:,} images have several frames; the first is used",
        "image-size": _image_size,
        "images-in-colour": "the images have colour, and are read as rgb; colour=gray changes that",
        "images-in-gray": (
            "none of {n:,} images looked at has colour, so they are read as gray; colour=rgb changes that"
        ),
        "single-images": "{n:,} classes have one image, which stays in train",
        # What is predicted, and from what
        "target": _target,
        "rows-without-target": "{n:,} of {n_all:,} rows have no {target} and were left out",
        "single-members": "{n:,} classes have one member, which stays in train",
        "late-classes": lambda classes: (
            "never in train, so no model can know them: "
            + ", ".join([quoted(name, 24) for name in classes[:MOST_CLASSES]])
        ),
        "repeated-rows": "{n:,} rows repeat an earlier one",
        "few-forms": "the rows have {n:,} different forms only, so equal ones stand on every side",
        "left-out": lambda column, why: f"{column} {LEFT_OUT[why]} and was left out",
        "left-out-as-asked": lambda columns: f"left out as asked: {', '.join(columns)}",
        "date-parts": lambda column, parts: f"{column} is read as its {', '.join(parts)}",
        "number-as-category": "the order of {column} tells little, so each of its numbers is read as a category too",
        "unknown-columns": _unknown_columns,
        "unknown-categories": "{n:,} cells hold a category that the network was not trained on",
        "context-cut": "context {asked} needs {needed} tokens on each side and one has {smaller:,}: {used} is used",
        # A division
        "not-compared": lambda columns: (
            f"not compared, for they hold text: {', '.join(map(quoted, columns[:MOST_COLUMNS]))}"
        ),
        "edits-not-looked-for": ("{noun} one edit apart were not looked for: {n_characters:,} characters are too many"),
        "near-not-counted": _near_not_counted,
        "strata": _strata,
        "target-missing": "{n:,} of {n_all:,} rows have no {target}; train leaves them out",
        "tells-order": "{column} tells an order: for a model that is to foresee what comes later, take strategy=time",
        # Samples, scores and predictions
        "letters-left-out": lambda noun, letters: (
            f"{noun}: {', '.join(map(quoted, letters))} left out, never seen in the data"
        ),
        "prompt-cut": "the prompt has {n:,} tokens; the last {n_used:,} were used",
        "input-cut": "the input has {n:,} tokens; the last {n_used:,} are read",
        "one-sample": "temperature 0 always takes the likeliest token, so one sample stands for all",
        "samples-cut": "… marks a sample that had no end after {n:,} tokens and was cut",
        "loss-infinite": "the loss is infinite: {n} never seen after what stands before; s 0.1 mends it",
        "data-gone": "what is new is not known: {error}",
        "data-changed": "what is new is not known: {name} is not what the run was trained on any more",
        "train-too-long": "what was copied is not known: train has {n:,} tokens",
        "trained-on": _trained_on,
        "truth-known": _truth_known,
        "rung-ended": "{name}: {verdict}; it ended by {reason} after {step:,} of {steps:,} steps",
        # Modules
        "weights-not-held": "its weights are larger than is held here: only shapes were followed",
        "input-guessed": lambda shapes: f"no input was given: {' and '.join(shapes)} was guessed",
        "guess-refused": lambda shapes: (
            f"no input was given: {' and '.join(shapes)} was guessed, and no other size that was tried fits"
        ),
        "no-guess": "no input was given and none can be guessed: give one",
        "lazy-parameters": "its lazy parameters got their shapes from these inputs",
        "broadcasts-not-looked-for": "silent broadcasts were not looked for, as a forward takes {seconds:.1f} s",
        "ran-once": lambda error, message: one_line(f"it ran once, and then raised {error}: {message}"),
        "pass-changed": "one pass through the model changed {what}; it was put back",
        "rule-changed": "the rule {rule} changed {what}; it was put back",
        "file-mended": "{file} was read as if mended: {mistake}",
        "own-process": lambda files, n_printed: (
            f"running your code: {', '.join(files)} was run in a process of its own"
            + (f", which printed {n_printed:,} bytes" if n_printed else "")
        ),
        "shapes-only": "only shapes were followed: nothing was computed, and no weight is held",
        "published": (
            "published: {parameters:,} parameters, {multiply_adds:g} · 10⁹ multiply-adds for 224 × 224 pixels; "
            "here {own_parameters:,} and {own_multiply_adds:.3f} · 10⁹, each of which is 2 FLOPs"
        ),
        # What a picture was drawn from
        "drawn-of-data": "{description}",
        "drawn-of-run": "{run}: {model} on {description}",
        "no-run-named": _no_run_named,
    }
)


def note_sentences(notes: Iterable[Statement]) -> list[str]:
    """Each note in words.

    >>> note_sentences([Statement("empty-lines", {"n": 1200}), Statement("dates", {"column": "born"})])
    ['1,200 empty lines were left out', "'born' holds dates, which sort in time"]
    """
    return [fill_sentence(NOTES, note) for note in notes]


def fill_sentence(sentences: Sentences, said: Statement) -> str:
    """The sentence with its facts. A run's folder may come from anyone: what does not fit is not known.

    >>> fill_sentence({"pace": "{n:,} steps"}, Statement("pace", {"n": "many"}))
    'not known'
    """
    sentence = sentences.get(said.kind, NOT_KNOWN)
    try:
        return sentence.format(**said.facts) if isinstance(sentence, str) else sentence(**said.facts)
    except (LookupError, ValueError, AttributeError, TypeError, ArithmeticError):
        return NOT_KNOWN


def plain_with_notes(record: object) -> Any:
    """The record as what JSON can hold, its notes in words."""
    return _say_notes(as_plain(record))


def _say_notes(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_say_notes(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    said = {name: _say_notes(item) for name, item in plain.items()}
    notes = plain.get("notes")
    if isinstance(notes, list) and all(isinstance(note, dict) and set(note) == {"kind", "facts"} for note in notes):
        said["notes"] = note_sentences([Statement(**note) for note in notes])
    return said
