"""The knobs of every lesson: listed by --help, refused outside their range, and each changes what is measured."""

from typing import Any

import pytest

from pellucid.api.draw import draw
from pellucid.cli import main
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import Lesson, all_lessons
from pellucid.options import Option, flag_of, options_of, types_of
from pellucid.records import as_plain

# Settings that make each lesson quick, and for each knob a value that must be seen in what is measured.
SMALL: dict[str, dict[str, Any]] = {
    "batch-size": {
        "source": "penguins",
        "target": "species",
        "batch_sizes": (4, 8),
        "examples": 8,
        "steps": 1,
        "seeds": 1,
    },
    "dead-unit": {"hidden": 8, "steps": 1, "batch": 2},
    "decay": {"steps": 20},
    "gains": {"hidden": 8, "depth": 2},
    "heads-or-width": {"width": 4, "heads": (1.0, 2.0), "wide": 8, "steps": 1, "repeats": 1},
    "hockey-stick": {"hidden": 8, "steps": 3},
    "parallel-steps": {"length": 8, "width": 4},
    "path-length": {"length": 6, "width": 4},
    "saturation": {"hidden": 8, "batch": 2},
    "pooling-shifts": {"steps": 2, "shift": 1, "trainings": 1, "pooling": "max"},
    "separable": {"steps": 40},
    "vit-resolution": {"steps": 2, "sizes": (8, 12)},
    "streaming": {"steps": 3, "look_ahead": (0, 2), "context": 4},
}
OTHER: dict[str, dict[str, Any]] = {
    "batch-size": {
        "target": "island",
        "model": "logistic",
        "norm": "batch",
        "batch_sizes": (4, 16),
        "examples": 16,
        "steps": 2,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "scaling": "linear",
        "seeds": 2,
        "seed": 2,
    },
    "convolution-like": {"order": (2, 1, 3), "kernel": (0.2, 0.6, 0.2), "scales": (2.0,)},
    "dead-unit": {
        "seed": 2,
        "activation": "tanh",
        "scale": 2.0,
        "steps": 2,
        "learning_rate": 30.0,
        "batch": 8,
        "hidden": 9,
    },
    "decay": {"seed": 2, "learning_rate": 3.0, "steps": 12, "at": 0.5, "divisor": 2.0},
    "dice": {"dice": 2, "sides": 4, "order": 3, "rounds": 50, "seed": 2},
    "grid-partition": {"removed": (2, 1, 3)},
    "logits": {"label": 0, "height": 2.0, "temperature": 3.0, "seed": 2, "logits": (1.0, 1.0)},
    "losses": {
        "wrong": 0.2,
        "span": 3.0,
        "flat": 0.2,
        "seed": 2,
        "points": 9,
        "flipped": 0.4,
        "weights": 2.0,
    },
    "slope": {"expression": "sin(y)", "at": 1.0, "h": 0.1, "span": 1.0},
    "gains": {"seed": 2, "activation": "relu", "depth": 3, "hidden": 9, "factors": (2.0,)},
    "hand-set-attention": {"input": "B A START A B STOP"},
    "heads-and-groups": {"seed": 2, "width": 12, "heads": 2, "kernel": 5},
    "heads-or-width": {
        "seed": 2,
        "width": 8,
        "heads": (2.0,),
        "wide": 16,
        "data": "copy-back",
        "steps": 2,
        "repeats": 2,
    },
    "score-scale": {"seed": 2, "widths": (2.0, 8.0), "keys": 3, "deviation": 2.0},
    "hockey-stick": {"seed": 2, "scale": 2.0, "learning_rate": 1.0, "steps": 2, "hidden": 9},
    "masks": {"length": 5, "before": 0, "after": 2, "padding": 1},
    "one-hot": {"input": "abcd", "n": 3, "vocabulary": "zemabcd", "seed": 2},
    "parallel-steps": {"length": 4, "width": 8, "depth": 2, "batch": 2},
    "patches": {"patch": 4},
    "path-length": {"length": 5, "width": 8, "cell": "lstm", "scale": 2.0, "seed": 2},
    "positions": {"seed": 2, "length": 5, "width": 4, "steps": 20},
    "road": {"input": "abc", "seed": 2, "width": 4},
    "saturation": {"seed": 2, "scale": 0.01, "batch": 4, "activation": "relu", "hidden": 9},
    "scalar-rnn": {"steps": 4, "weights": (2.0,), "activation": "tanh", "input": 2.0, "target": 1.0},
    "separable": {"margin": 1.0, "weight_decay": 0.1, "steps": 30, "points": 6, "seed": 2},
    "sensitivity": {"seed": 2, "time": 5, "width": 4, "key": 1, "length": 2.0},
    "smoothing": {"after": "q", "added": (0.0, 3.0), "boundary": "two"},
    "streaming": {"seed": 2, "look_ahead": (1,), "context": 2, "noise": 1.0, "steps": 2},
    "network-diagram": {"model": "nn.Linear(3, 2)", "input": "1,1,36,36"},
    "pooling-shifts": {"pooling": "average", "shift": 2, "steps": 3, "trainings": 2, "seed": 2},
    "samples": {"each": 3, "seed": 2},
    "vit-resolution": {"seed": 2, "steps": 20, "patch": 4, "sizes": (8, 10)},
    "token-costs": {"input": "two words", "width": 8, "layers": 2, "bpe": 300},
}
OF_READING = {"source", "kind", "encoding"}  # how a file is read, which is tested with the readers

KNOBS = [(name, knob) for name, lesson in all_lessons().items() for knob in options_of(lesson.knobs)]
TURNED = [(name, knob) for name, knob in KNOBS if knob not in OF_READING and name != "positions"]


@pytest.mark.parametrize("name", all_lessons())
def test_every_lesson_has_its_knobs_in_one_declaration(name: str) -> None:
    lesson = all_lessons()[name]
    assert set(lesson.options) - OF_READING == set(OTHER[name]), "a knob is tried here, or it is none"
    assert set(lesson.options) - set(options_of(lesson.knobs)) <= {"source"}
    assert not lesson.argument or lesson.argument in lesson.options


@pytest.mark.parametrize("name", all_lessons())
def test_every_knob_is_listed_with_its_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["draw", name, "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for knob, declared in options_of(all_lessons()[name].knobs).items():
        assert f"--{flag_of(knob, declared)} " in shown
        assert " ".join(declared.help.split(";")[0].rstrip(".").split()) in shown


@pytest.mark.parametrize(("name", "knob"), KNOBS)
def test_a_value_that_cannot_be_is_refused_before_anything_is_measured(name: str, knob: str) -> None:
    lesson = all_lessons()[name]
    type_ = types_of(lesson.knobs)[knob]
    for value in _impossible(options_of(lesson.knobs)[knob], type_):
        with pytest.raises(PellucidError):
            lesson.knobs(**{knob: value})


def _impossible(declared: Option, type_: Any) -> list[Any]:
    if declared.choices:
        return ["nonsense"]
    bounds = [] if declared.minimum is None else [declared.minimum - 1]
    bounds += [] if declared.maximum is None else [declared.maximum + 1]
    if type_ is str:
        return []
    assert bounds, "a number without any bound takes whatever a slip of the finger gives it"
    if type_ is int:
        return [int(bound) for bound in bounds]
    if type_ is float:
        return bounds
    return [(), *[(bound,) for bound in bounds]]


@pytest.fixture(scope="module")
def measured() -> dict[str, object]:
    return {}


@pytest.mark.parametrize(("name", "knob"), TURNED)
def test_every_knob_changes_what_is_measured(name: str, knob: str, measured: dict[str, object]) -> None:
    lesson = all_lessons()[name]
    small = SMALL.get(name, {})
    if name not in measured:
        measured[name] = _numbers(lesson, small)
    assert _numbers(lesson, {**small, knob: OTHER[name][knob]}) != measured[name]


def _numbers(lesson: Lesson[Any], settings: dict[str, Any]) -> object:
    """What was measured, without the words that tell how, and without what a clock said."""
    plain = as_plain(lesson.measure(lesson.knobs(**settings)))
    return {key: value for key, value in plain.items() if key not in ("source", "seed", "knobs", "timings")}


@pytest.mark.slow
def test_the_knobs_of_positions_change_what_is_measured_together() -> None:
    """Two transformers are trained each time, so all knobs are turned at once; each shows in another part."""
    lesson = all_lessons()["positions"]
    record = lesson.measure(lesson.knobs(**OTHER["positions"]))
    kinds = {kind.kind: kind for kind in record.kinds}
    assert len(kinds["index"].encodings) == 5
    assert len(kinds["sinusoidal"].encodings[0]) == 4
    assert any(any(row) for row in kinds["relative"].products), "before any step they are 0"
    assert record.source.endswith("after 20 steps, seed 2")


def test_python_takes_the_knobs_of_the_command() -> None:
    assert draw("scalar-rnn", steps=5).record.runs[0].sums[4:]
    for options, said in [
        ({"steps": 1}, "steps is 1"),
        ({"scale": 1.0}, "'scale' changes nothing in scalar-rnn|scale.* changes nothing"),
        ({"stepz": 1}, "Perhaps you meant steps"),
    ]:
        with pytest.raises(PellucidError, match=said):
            draw("scalar-rnn", **options)
