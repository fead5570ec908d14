"""Data that Python holds: read as a file of the same content would be, trained on, and answered in the same shape."""

import datetime
import html
import sys
import types
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from tests.tiny_records import TINY_RUN

from pellucid.api.draw import draw
from pellucid.api.notebook import NotebookCallbacks
from pellucid.api.run import predict
from pellucid.api.split import split
from pellucid.api.train import compare, rate, resume, train
from pellucid.data import open_data
from pellucid.data.readers.memory import read_memory
from pellucid.errors import PellucidError, Stopped
from pellucid.figures.words.notes import note_sentences
from pellucid.records import Step, Timing
from pellucid.training.callbacks import Callbacks

ROWS = {
    "width": [1.5, None, 3.0, 4.5],
    "petals": [3, 4, 5, 6],
    "colour": ["red", "blue", None, "red"],
    "is_wild": [True, False, True, True],
    "seen": [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
}


class Dataset:
    """As one of Hugging Face: columns by name, which `datasets` gives as lists or as columns of its own."""

    def __init__(self, columns):
        self.columns_by_name, self.features = dict(columns), dict.fromkeys(columns, "any")

    @property
    def column_names(self):
        return list(self.columns_by_name)

    def __getitem__(self, name):
        return self.columns_by_name[name]

    def __len__(self):
        return len(next(iter(self.columns_by_name.values())))

    def add_column(self, name, column):
        return Dataset({**self.columns_by_name, name: column})

    def select(self, rows):
        return Dataset({name: [column[row] for row in rows] for name, column in self.columns_by_name.items()})


FRAMES = {
    "pandas": pandas.DataFrame(ROWS),
    "pandas with types of its own": pandas.DataFrame(ROWS).convert_dtypes().astype({"colour": "category"}),
    "Polars": polars.DataFrame(ROWS),
    "columns": ROWS,
    "columns of arrays": {name: np.array(column, dtype=object) for name, column in ROWS.items()},
    "rows": [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)],
    "Arrow": pyarrow.table(ROWS),
    "Hugging Face": Dataset(ROWS),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=list(FRAMES))
def test_every_frame_is_the_same_table(frame):
    table = read_memory(frame)
    assert {column.name: (column.kind, column.n_missing) for column in table.columns} == {
        "width": ("numeric", 1),
        "petals": ("numeric", 0),
        "colour": ("category", 1),
        "is_wild": ("category", 0),
        "seen": ("order", 0),
    }
    wanted = read_memory(polars.DataFrame(ROWS))
    assert table.frame.to_dict(as_series=False) == wanted.frame.to_dict(as_series=False)
    assert table.fingerprint == wanted.fingerprint
    changed = read_memory(polars.DataFrame({**ROWS, "petals": [3, 4, 5, 7]}))
    assert changed.fingerprint != wanted.fingerprint


def test_a_table_in_memory_is_that_of_its_file(tmp_path):
    open_data("penguins").frame.write_csv(tmp_path / "penguins.csv")
    from_file = open_data(tmp_path / "penguins.csv")
    for frame in (polars.read_csv(tmp_path / "penguins.csv"), pandas.read_csv(tmp_path / "penguins.csv")):
        in_memory = read_memory(frame)
        assert in_memory.columns == from_file.columns
        assert in_memory.frame.equals(from_file.frame)
        assert in_memory.place_of(2) == "row 3"


@pytest.mark.parametrize("as_given", [list, tuple, np.array, pandas.Series, lambda x: polars.Series("x", x), iter])
def test_texts_are_a_list_and_its_file_is_the_same(tmp_path, as_given):
    names = open_data("names").items[:50]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    found, from_file = read_memory(as_given(names)), open_data(tmp_path / "names.txt", kind="list")
    assert (found.kind, found.items, found.fingerprint) == ("list", from_file.items, from_file.fingerprint)


def test_a_frame_of_one_column_of_texts_is_a_list_and_of_two_are_pairs_if_asked():
    one = pandas.DataFrame({"name": ["emma", None, "ava", "mia"]})
    assert read_memory(one).items == ["emma", "ava", "mia"]
    assert read_memory(one, kind="table").kind == "table"
    assert read_memory(one, kind="text").read() == "emma\nava\nmia"
    two = polars.DataFrame({"from": ["ab", "cd"], "to": ["ba", "dc"]})
    assert read_memory(two).kind == "table"
    pairs = [("ab", "ba"), ("cd", "dc")]
    assert read_memory(two, kind="pairs").pairs == read_memory(pairs).pairs == pairs


def test_arrays_are_tables_and_images():
    rows = np.arange(12.0).reshape(4, 3)
    assert read_memory(rows).frame.columns == ["x1", "x2", "x3"]
    with_target = read_memory((rows, np.array(["a", "b", "a", "b"])))
    assert with_target.frame["target"].to_list() == ["a", "b", "a", "b"]
    frame = pandas.DataFrame(rows, columns=list("xyz"))
    assert read_memory((frame, pandas.Series([1, 0, 1, 0]))).frame.columns == ["x", "y", "z", "target"]
    images = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3))
    found = read_memory((images, np.array([7, 3, 7, 7])))
    assert (found.classes, found.labels.tolist()) == (("3", "7"), [1, 0, 1, 1])
    assert np.array_equal(found.pixels, images)
    fractions = read_memory((np.array([[[0.0, 0.5, 1.0]]]), np.array([0])))
    assert fractions.pixels.tolist() == [[[0, 128, 255]]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (17, r"data cannot be read from an int\. Give a DataFrame"),
        (None, "data cannot be read from a NoneType"),
        ([], "the list is empty"),
        ([1, 2, 3], "item 1 is an int, and no text"),
        (["a", 2.5], "item 2 is a float, and no text"),
        (["a\nb"], "item 1 holds a line break"),
        ([("a", "b\tc")], "item 1 holds a tab"),
        ([("a", "b"), ("c",)], "item 2 has 1 parts, and 2 are wanted"),
        ({"a": 5}, "'a' is no column but an int"),
        ({"a": [1, 2], "b": [1]}, "of different length: 1 to 2"),
        ({"a": [1, 2], "b": [[1], [2]]}, "row 1 of column 'b' holds a list"),
        ({"train": Dataset(ROWS), "test": Dataset(ROWS)}, "several sets of data: 'train', 'test'. Give one of them"),
        (pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "columns 1 and 2 of DataFrame are both called 'a'"),
        (pandas.DataFrame({"a": []}), "no rows"),
        ((np.zeros((3, 2)), np.zeros(2)), "do not belong together"),
        ((np.full((3, 2, 2), 300), np.zeros(3)), "the pixels reach from 0 to 300"),
        ((np.zeros((3, 2, 2, 4)), np.zeros(3)), "3 × 2 × 2 × 4 holds no images"),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(given, words):
    with pytest.raises(PellucidError, match=words) as error:
        read_memory(given)
    assert "\n" not in str(error.value)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_list_in_memory_trains_as_its_file_does(inside, tmp_path):
    names = open_data("names").items[::60]
    (tmp_path / "own.txt").write_text("\n".join(names) + "\n")
    asked = {"steps": 5, "size": "tiny", "threads": 1, "model": "mlp", "kind": "list"}
    from_file, in_memory = train("own.txt", **asked), train(names, **asked)
    assert in_memory.folder.name == "data-mlp"
    weights = [run.folder / "model.safetensors" for run in (from_file, in_memory)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    drawn = in_memory.sample(2)
    assert "what is new is not known: the data of data-mlp came from Python's memory" in note_sentences(drawn.notes)[-1]


class StopAt(Callbacks):
    def on_step(self, step, timing):
        import signal

        if step.step == 3:
            self.stop.ask(signal.SIGTERM)


def test_a_stopped_run_goes_on_when_it_is_given_its_data_again(inside):
    names = open_data("names").items[::60]
    asked = {"steps": 6, "size": "tiny", "threads": 1, "model": "mlp"}
    whole = train(names, name="whole", **asked)
    with pytest.raises(Stopped):
        train(names, name="stopped", callbacks=StopAt(), **asked)
    with pytest.raises(PellucidError, match=r"the data of stopped came from Python's memory; .*Pass them with data"):
        resume("stopped")
    with pytest.raises(PellucidError, match=r"^it is not what stopped was trained on"):
        resume("stopped", data=names[:-1])
    resumed = resume("stopped", data=names)
    weights = [run.folder / "model.safetensors" for run in (whole, resumed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """On a frame, with a class that is a whole number."""
    folder = tmp_path_factory.mktemp("classifier")
    draw = np.random.default_rng(0)
    frame = pandas.DataFrame({"a": draw.normal(size=300), "b": draw.choice(["x", "y"], 300)})
    frame["kind"] = ((frame.a > 0) & (frame.b == "x")).astype(int)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run = train(frame, target="kind", steps=60, size="tiny", threads=1)
    return folder / run.folder, frame


def test_a_frame_comes_back_as_a_frame_of_the_same_kind(classifier):
    run, frame = classifier
    new = frame.drop(columns="kind").iloc[5:15].set_axis(list("abcdefghij"))
    found = predict(run, new)
    assert isinstance(found, pandas.DataFrame)
    assert list(found.columns) == ["a", "b", "predicted_kind", "predicted_kind_probability"]
    assert list(found.index) == list("abcdefghij")
    assert "predicted_kind" not in new.columns  # what was given stays as it was
    assert set(found.predicted_kind) <= {0, 1}
    assert (found.predicted_kind.to_numpy() == frame.kind.iloc[5:15].to_numpy()).mean() >= 0.8
    in_polars = predict(run, polars.DataFrame({"a": new.a.to_numpy(), "b": new.b.to_list()}))
    assert isinstance(in_polars, polars.DataFrame)
    assert in_polars["predicted_kind"].to_list() == found.predicted_kind.to_list()
    assert in_polars["predicted_kind_probability"].to_list() == found.predicted_kind_probability.to_list()
    columns = {"a": new.a.tolist(), "b": new.b.tolist()}
    assert predict(run, columns) == {
        **columns,
        **found[["predicted_kind", "predicted_kind_probability"]].to_dict("list"),
    }
    assert predict(run, Dataset(columns))["predicted_kind"] == found.predicted_kind.to_list()
    assert predict(run, pyarrow.table(columns))["predicted_kind"].to_pylist() == found.predicted_kind.to_list()
    rows = new.to_dict("records")
    assert [row["predicted_kind"] for row in predict(run, rows)] == found.predicted_kind.to_list()
    (one,) = predict(run, rows[:1])
    assert one["predicted_kind_probability"] == pytest.approx(found.predicted_kind_probability.iloc[0], rel=1e-6)


def test_a_file_is_answered_as_the_frame_in_it(classifier, tmp_path):
    run, frame = classifier
    frame.drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)
    from_file = predict(run, tmp_path / "new.csv").predictions
    in_memory = predict(run, frame.drop(columns="kind"))
    assert [one.answer for one in from_file] == [str(answer) for answer in in_memory.predicted_kind]
    assert [one.probability for one in from_file] == pytest.approx(in_memory.predicted_kind_probability.tolist())


def test_two_arrays_and_answers_as_an_array(inside):
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(200, 3))
    run = train((rows, rows @ [1.0, -2.0, 0.5]), steps=60, size="tiny", threads=1)
    assert (run.report.data.target, run.report.data.task) == ("target", "regression")
    answers = run.predict(rows[:20])
    assert isinstance(answers, np.ndarray)
    assert answers.dtype == np.float64
    assert np.corrcoef(answers, rows[:20] @ [1.0, -2.0, 0.5])[0, 1] > 0.8
    images = draw.integers(0, 2, 80)
    pixels = (images[:, None, None] * 200 + draw.integers(0, 50, (80, 6, 6))).astype(np.uint8)
    run = train((pixels, images), model="logistic", steps=40, threads=1)
    assert (run.predict(pixels[:9]) == images[:9]).mean() > 0.8


def test_pairs_are_answered_with_a_list(inside):
    words = [f"{a}{b}{c}" for a in "abcde" for b in "abcde" for c in "abc"]
    run = train([(word, word[::-1]) for word in words], steps=5, size="tiny", threads=1)
    answers = run.predict(["abc", "eda"])
    assert len(answers) == 2
    assert all(isinstance(answer, str) for answer in answers)
    with pytest.raises(PellucidError, match="source 2 is no text"):
        run.predict(["abc", 5])


LONG = {"size": [float(i % 17) for i in range(60)], "kind": ["big" if i % 17 > 8 else "small" for i in range(60)]}
DIVIDED = {
    "pandas": pandas.DataFrame(LONG, index=range(100, 160)),
    "Polars": polars.DataFrame(LONG),
    "columns": LONG,
    "rows": [dict(zip(LONG, row, strict=True)) for row in zip(*LONG.values(), strict=True)],
    "Arrow": pyarrow.table(LONG),
    "Hugging Face": Dataset(LONG),
}


@pytest.mark.parametrize("given", DIVIDED.values(), ids=list(DIVIDED))
def test_what_is_divided_comes_back_in_parts_of_the_same_kind(inside, given):
    pandas.DataFrame(LONG).to_csv("long.csv", index=False)
    on_disk = split("long.csv", strategy="hash")
    found = split(given, strategy="hash")
    assert found.files == ()
    assert not Path("data-split").exists()
    for side in ("train", "dev", "test"):
        part = getattr(found, side)
        assert type(part) is type(given)
        theirs = polars.read_parquet(on_disk.folder / f"{side}.parquet")
        assert read_memory(part, fewest_rows=1).frame["size"].to_list() == theirs["size"].to_list()
    with pytest.raises(PellucidError, match=r"parts are files\. Read train from 'long-split'"):
        _ = on_disk.train


def test_lists_pairs_and_arrays_are_divided_too_and_written_where_it_is_said(inside):
    names = [f"name {i}" for i in range(60)]
    found = split(names, out="parts")
    assert sorted(found.train + found.dev + found.test) == sorted(names)
    assert Path("parts/dev.txt").read_text("utf-8").splitlines() == found.dev
    pairs = split([(name, name[::-1]) for name in names])
    assert pairs.dev[0][0] == pairs.dev[0][1][::-1]
    values, classes = np.arange(120.0).reshape(60, 2), np.arange(60) % 2
    examples, targets = split((values, classes)).test
    assert (classes[(examples[:, 0] / 2).astype(int)] == targets).all()
    series = split(pandas.Series(names, index=range(7, 67)))
    assert [names[place - 7] for place in series.dev.index] == series.dev.tolist()


def test_frames_are_compared_and_searched_as_their_files_are(inside):
    frame = polars.DataFrame(LONG)
    ladder = compare(frame, target="kind", models=["logistic"], steps=3, threads=1)
    assert "logistic" in [rung.name for rung in ladder.record.rungs]
    assert rate(frame, target="kind", model="logistic", seeds=(1,), threads=1).record.seeds == (1,)


def test_a_notebook_sees_the_progress_and_the_report(inside, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    run = train(open_data("names").items[::60], steps=5, size="tiny", threads=1, model="mlp")
    said = capsys.readouterr().out
    assert said.startswith("\r")
    assert "step 5 of 5 (100 %)  loss " in said
    assert said.endswith("\n")
    framed = run._repr_html_()
    assert framed.startswith('<iframe sandbox srcdoc="&lt;!doctype html&gt;')
    assert html.unescape(framed.split('"')[1]) == (run.folder / "report.html").read_text()
    (run.folder / "report.html").unlink()
    assert run._repr_html_() == f"<pre>{html.escape(repr(run))}</pre>"


def test_a_notebook_is_shown_each_answer_once(inside, monkeypatch):
    """rich shows whatever it renders, and so an empty cell stood above every table."""
    shown = []
    display = types.ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    run = train(open_data("names").items[::60], model="bigram")
    assert "bigram" in repr(run.table())
    assert shown == []
    drawn = draw("ladder", run.folder)
    assert drawn._repr_svg_().startswith("<svg")
    assert repr(drawn).splitlines()[1] == drawn.drawing.title


def test_a_notebook_keeps_the_last_line_alone(monkeypatch, capsys):
    class Shown(list):
        def update(self, data, raw):
            self[:] = [data["text/plain"]]

    shown = Shown()
    display = types.ModuleType("IPython.display")
    display.display = lambda data, raw, display_id: shown
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    heard = NotebookCallbacks(lambda report: "")
    heard.on_plan(TINY_RUN.plan._replace(steps=2), TINY_RUN.network, "runs/x")
    for step in (1, 2):
        heard.on_step(Step(step, 3.0, 10, 0.1, 1.0), Timing(step, 1.0, 10.0))
    assert shown == ["━━━━━━━━━━━━━━━━━━━━ step 2 of 2 (100 %)  loss 3.0000  10 tokens/s"]
    assert capsys.readouterr().out == ""


def test_a_line_is_closed_where_a_training_ends_early(capsys):
    heard = NotebookCallbacks(lambda report: "")
    heard.on_plan(TINY_RUN.plan._replace(steps=100), TINY_RUN.network, "runs/x")
    heard.on_step(Step(1, 3.0, 10, 0.1, 1.0), Timing(1, 1.0, 10.0))
    assert not capsys.readouterr().out.endswith("\n")
    heard.on_finding(TINY_RUN.findings[0])
    heard.on_finding(TINY_RUN.findings[0])
    assert capsys.readouterr().out == "\n"


def test_elsewhere_training_is_silent(inside, capsys):
    train(open_data("names").items[::60], steps=2, size="tiny", threads=1, model="mlp")
    assert capsys.readouterr() == ("", "")
