"""What a run's network says of new examples: the right numbers, and a refusal where there is nothing to answer."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import polars
import pytest
import torch

from pellucid.cli import main
from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.figures.words.notes import note_sentences
from pellucid.runs import open_run, read_record
from pellucid.runs.disk import checksummed_json
from pellucid.runs.seal import read_ending
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import load_network
from pellucid.training.inference.prediction import Predictor, read_examples
from pellucid.training.options import TrainOptions
from pellucid.training.run import train_run
from pellucid.training.run_data import load_preparation
from pellucid.training.tasks import open_task

ASKED = {
    "classes": (DataOptions("penguins", target="species"), TrainOptions("mlp", steps=80, kind="table")),
    "numbers": (
        DataOptions("penguins", target="body_mass_g", drop_missing_target=True),
        TrainOptions("mlp", steps=40, size="tiny", kind="table"),
    ),
    "images": (DataOptions("digits"), TrainOptions("logistic", steps=80, kind="images")),
    "rows": (
        DataOptions("digits", task="reconstruction"),
        TrainOptions("autoencoder", steps=20, size="tiny", kind="images"),
    ),
    "hinge": (DataOptions("digits"), TrainOptions("logistic", steps=40, kind="images", loss="hinge")),
    "pairs": (DataOptions("dedupe-sort"), TrainOptions("transformer", steps=60, size="tiny", kind="pairs")),
    "names": (DataOptions("names"), TrainOptions("neural-ngram", steps=2, size="tiny")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("predict")


@pytest.fixture(scope="module")
def runs(folder):
    """One run of each kind, made when it is first asked for."""

    def of(name: str) -> Path:
        place = folder / name
        if not place.exists():
            train_run(*ASKED[name], place, Callbacks())
        return place

    return of


@pytest.fixture(scope="module")
def digits(folder):
    """Twelve digits as PNG files, each named by its row and its class."""
    from PIL import Image

    place = folder / "some digits"
    place.mkdir()
    data = open_data("digits")
    for row in range(12):
        Image.fromarray(data.pixels[row]).save(place / f"{row:02d}-{data.labels[row]}.png")
    return place


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The command in this process: its exit code, what it printed, and what it complained of."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def test_images_are_answered_with_the_probabilities_of_the_network(runs, digits):
    run = open_run(runs("images"))
    found = Predictor(run).predict(read_examples(Predictor(run), [str(digits)]))
    pixels = open_data("digits").pixels[:12]
    numbers = torch.from_numpy(load_preparation(run).read(pixels))
    shares = load_network(run)[0].for_inference()(numbers, torch.zeros(12, 0, dtype=torch.int64)).double().softmax(1)
    for one, row in zip(found.predictions, shares, strict=True):
        assert one.probability == pytest.approx(row.max().item(), rel=1e-6)
        assert one.answer == str(int(row.argmax()))
        assert [name for name, _ in one.ranked] == [str(place) for place in row.argsort(descending=True)[:3].tolist()]
    right = [one.answer == Path(one.what).stem[-1] for one in found.predictions]
    assert sum(right) >= 10  # of 12, most of them seen in training


def test_rows_are_answered_as_they_were_in_training(runs, tmp_path):
    """The rows of dev, written to a file and asked for again, get the answers that the run reports."""
    place = runs("classes")
    task = open_task(ASKED["classes"][0])
    frame = open_data("penguins").frame
    frame[task.sides.places["dev"].tolist()].write_csv(tmp_path / "dev.csv")
    run = open_run(place)
    found = Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "dev.csv")]))

    answers = open_run(place).report().answers
    n_right = sum(
        one.answer == truth
        for one, truth in zip(found.predictions, frame[task.sides.places["dev"].tolist()]["species"], strict=True)
    )
    assert n_right / len(found.predictions) == answers.metrics["accuracy"]
    assert f"{n_right:,} of {len(found.predictions):,} are right" in note_sentences(found.notes)[-1]


def test_a_number_comes_in_its_own_units(runs, tmp_path):
    open_data("penguins").frame.drop("body_mass_g").head(20).write_csv(tmp_path / "new.csv")
    run = open_run(runs("numbers"))
    found = Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "new.csv")]))
    values = [float(one.answer) for one in found.predictions]
    assert 2500 < np.mean(values) < 6500
    assert all(one.probability is None for one in found.predictions)


def test_a_category_never_seen_and_a_column_too_many_are_told(runs, tmp_path):
    table = (
        open_data("penguins").frame.head(4).with_columns(polars.lit("Mars").alias("island"), colour=polars.lit("red"))
    )
    table.write_csv(tmp_path / "odd.csv")
    run = open_run(runs("classes"))
    asked = read_examples(Predictor(run), [str(tmp_path / "odd.csv")])
    assert any("4 cells hold a category" in note for note in note_sentences(asked.notes))
    assert any("'colour'" in note for note in note_sentences(asked.notes))
    assert len(Predictor(run).predict(asked).predictions) == 4


def test_hinge_has_no_probabilities_and_a_reconstruction_has_an_error(runs, digits):
    for name, is_class in (("hinge", True), ("rows", False)):
        run = open_run(runs(name))
        found = Predictor(run).predict(read_examples(Predictor(run), [str(digits / "00-0.png")])).predictions[0]
        assert found.probability is None
        assert found.answer.isdigit() if is_class else found.answer.startswith("error ")


def test_sources_are_answered_greedily_and_by_beam(runs, tmp_path):
    (tmp_path / "sources.txt").write_text("DAA\nABCD\nCCC\n")
    run = open_run(runs("pairs"))
    greedy = Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "sources.txt")]))
    assert [one.what for one in greedy.predictions] == ["DAA", "ABCD", "CCC"]
    beam = Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "sources.txt")]), beam=4)
    for one, other in zip(beam.predictions, greedy.predictions, strict=True):
        shares = [share for _, share in one.ranked]
        assert shares == sorted(shares, reverse=True)
        assert all(0 < share <= 1 for share in shares)
        assert one.answer == other.answer or shares[0] > 0  # a beam finds what is at least as likely
    (tmp_path / "pairs.tsv").write_text("DAA\tAD\nCCC\tC\n")
    assert (
        "of 2 are right"
        in note_sentences(Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "pairs.tsv")])).notes)[
            -1
        ]
    )


def test_the_command_prints_a_table_json_and_csv(runs, digits, tmp_path, capsys):
    place = str(runs("images"))
    code, out, err = said(capsys, "predict", place, str(digits), "--out", str(tmp_path / "answers.csv"))
    assert (code, err) == (0, "")
    assert "probability" in out
    rows = list(csv.DictReader((tmp_path / "answers.csv").read_text().splitlines()))
    code, out, _ = said(capsys, "predict", place, str(digits), "--json")
    document = json.loads(out)
    assert [row["answer"] for row in rows] == [one["answer"] for one in document["predictions"]]
    assert len(rows) == 12


@pytest.mark.parametrize(
    ("name", "words", "complaint"),
    [
        ("images", ["nothing.png"], "nothing.png"),
        ("images", [], "FILE is missing"),
        ("images", ["text.png"], "cannot be read"),
        ("images", ["empty"], "holds no image"),
        ("images", ["--text", "A", "good.png"], "--text is for pairs"),
        ("images", ["--beam", "3", "good.png"], "--beam is for pairs"),
        ("images", ["good.png", "--out", "answers.txt"], "does not end in .csv"),
        ("classes", ["text.png"], ""),
        ("classes", ["short.csv"], "has no column"),
        ("pairs", ["--text", "DAAZ"], "'Z'"),
        ("pairs", ["--text", "ABCDABCDABCD"], "12 letters"),
        ("pairs", [], "no source"),
        ("names", ["good.png"], "pellucid sample"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    name, words, complaint, runs, digits, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.png").write_text("no picture at all\n")
    (tmp_path / "short.csv").write_text("island,year\nBiscoe,2007\nDream,2008\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "good.png").write_bytes((digits / "00-0.png").read_bytes())
    code, out, err = said(capsys, "predict", str(runs(name)), *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) <= 241
    assert complaint in err


def test_a_run_that_was_tampered_with_is_refused(runs, tmp_path, capsys, digits):
    import shutil

    for file, content in (("preparation.json", "{}"), ("preparation.json", "[" * 10**5), ("run.json", "{}")):
        place = tmp_path / f"copy-{file}-{len(content)}"
        shutil.copytree(runs("images"), place)
        (place / file).write_text(content)
        code, out, err = said(capsys, "predict", str(place), str(digits))
        assert (code, out) == (2, ""), err
        assert err.count("\n") == 1


def test_one_new_row_and_a_folder_of_class_folders_are_enough(runs, digits, tmp_path):
    open_data("penguins").frame.head(1).write_csv(tmp_path / "one.csv")
    run = open_run(runs("classes"))
    assert len(Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "one.csv")])).predictions) == 1
    for path in digits.iterdir():
        place = tmp_path / "sorted" / path.stem[-1]
        place.mkdir(parents=True, exist_ok=True)
        (place / path.name).write_bytes(path.read_bytes())
    run = open_run(runs("images"))
    found = Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / "sorted")]))
    n_right = sum(one.answer == Path(one.what).parent.name for one in found.predictions)
    assert f"{n_right} of 12 are right" in note_sentences(found.notes)[-1]


def test_rows_and_images_that_were_trained_on_are_told(runs, folder):
    """Of a table the rows of train, and no others; a file with rows of dev alone is new."""
    run, sides = open_run(runs("classes")), open_task(ASKED["classes"][0]).sides
    frame = open_data("penguins").frame
    notes = {}
    for side in ("train", "dev"):
        frame[sides.places[side]].write_csv(folder / f"{side}.csv")
        notes[side] = " ".join(
            note_sentences(Predictor(run).predict(read_examples(Predictor(run), [str(folder / f"{side}.csv")])).notes)
        )
    assert f"was trained on all of {len(sides.train)} rows" in notes["train"]
    assert "was trained on" not in notes["dev"]
    # A run that was made before they were kept, and before there were seals.
    old = Path(shutil.copytree(run.path, folder / "old"))
    (old / "trained-on.bin").unlink()
    record = read_record(old)
    files = {name: digest for name, digest in record["files"].items() if name != "trained-on.bin"}
    (old / "run.json").write_bytes(checksummed_json({**record, "files": files}))
    (old / "finished.json").write_bytes(checksummed_json({"ending": read_ending(old)["ending"]}))
    predictor = Predictor(open_run(old))
    again = note_sentences(predictor.predict(read_examples(predictor, [str(folder / "train.csv")])).notes)
    assert "was trained on" not in " ".join(again)


def test_mistakes_are_named_as_the_file_numbers_its_lines(tmp_path):
    rows = [f"{place % 7},{place % 5},{'yes' if place % 3 else 'no'}" for place in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,c", *rows]))
    asked = DataOptions(str(tmp_path / "own.csv"), target="c", strategy="random")
    report = train_run(asked, TrainOptions("logistic", steps=2, kind="table"), tmp_path / "run", Callbacks())
    lines = (tmp_path / "own.csv").read_text().splitlines()
    for example in report.answers.examples:
        noun, number = example.what.split()
        assert noun == "line"
        assert lines[int(number) - 1].endswith(example.truth)


def test_of_rows_that_have_a_truth_it_says_how_many_are_right(runs, tmp_path):
    """Some have none: the others are counted all the same; and where no row has one, nothing is said."""
    run = open_run(runs("classes"))
    frame = open_data("penguins").frame.head(20)
    told = frame.with_columns(
        polars.when(polars.int_range(20) < 5).then(None).otherwise(polars.col("species")).alias("species")
    )
    for rows, name in ((told, "some"), (told.head(5), "none"), (frame, "all")):
        rows.write_csv(tmp_path / f"{name}.csv")
    found = {
        name: Predictor(run).predict(read_examples(Predictor(run), [str(tmp_path / f"{name}.csv")]))
        for name in ("some", "none", "all")
    }
    right = [
        one.answer == truth for one, truth in zip(found["some"].predictions[5:], frame["species"][5:], strict=True)
    ]
    says = f"the truth is known of 15 of them: {sum(right)} of 15 are right, {100 * sum(right) / 15:.2f} %"
    assert says in note_sentences(found["some"].notes)
    assert not any("truth" in note for note in note_sentences(found["none"].notes))
    whole = note_sentences(found["all"].notes)
    assert any(note.startswith("the truth is known: ") and "of 20 are right" in note for note in whole)
