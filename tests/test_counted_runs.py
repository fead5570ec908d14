"""`pellucid train --model bigram`: a run of a model that only counts, used as any other run."""

import json

import pytest

import pellucid
from pellucid.api.draw import draw
from pellucid.cli import main
from pellucid.data import open_data
from pellucid.errors import PellucidError
from pellucid.figures.show import record_text
from pellucid.models.counting import CountOptions
from pellucid.models.counting.fitting import fit_count_model
from pellucid.models.sequences.on_counting import COUNTS_FILE
from pellucid.runs import open_run
from pellucid.runs.disk import Damaged

NAMES = [f"{first}{middle}{last}" for first in "abcdefgh" for middle in ("an", "el", "or") for last in "aeio"]
TEXT = " ".join(NAMES) + "\n"
MODELS = (
    {"model": "uniform"},
    {"model": "unigram"},
    {"model": "bigram"},
    {"model": "bigram", "s": 0.1},
    {"model": "ngram"},
    {"model": "ngram", "n": 3, "smoothing": "witten-bell"},
    {"model": "ngram", "n": 2, "smoothing": "add", "s": 0.5},
    {"model": "ngram", "smoothing": "auto"},
    {"model": "ngram", "n": 3, "discount": 0.6},
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.txt").write_text("\n".join(NAMES) + "\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize("asked", MODELS, ids=str)
def test_a_run_of_a_count_model_says_what_the_model_says(folder, asked):
    run = pellucid.train("own.txt", **asked)
    given = {name: str(value) if name == "n" else value for name, value in asked.items()}
    direct = fit_count_model(open_data("own.txt"), CountOptions(**given))
    own = run.report.rung
    assert (own.is_counted, own.parameters) == (True, direct.model.n_stored)
    assert own.dev == pytest.approx(direct.facts.dev.nats, abs=1e-12)
    # Counted again from the folder, with what was chosen on dev, it scores and draws as the model itself does.
    theirs = pellucid.score("own.txt", "hela", **given).record
    assert [one.nats for one in run.score("hela").record.surprises] == [one.nats for one in theirs.surprises]
    made = pellucid.sample("own.txt", seed=3, **given).record.samples
    assert run.sample(seed=3).record.samples == made
    assert "" not in [one.name for one in run.report.ladder.rungs]
    assert len({one.name for one in run.report.ladder.rungs}) == len(run.report.ladder.rungs)


def test_a_text_from_memory_is_counted_too(folder):
    run = pellucid.train(NAMES, model="bigram")
    assert run.report.data.items["train"] > 10
    (folder / "text.txt").write_text(TEXT * 3, "utf-8")
    text = pellucid.train("text.txt", model="ngram", n=3, kind="text", tokens="words")
    assert text.score(" hela").record.loss.nats > 0
    assert "Kneser–Ney 3-gram" in repr(text)


def test_the_report_says_nothing_of_steps(folder):
    run = pellucid.train("own.txt", model="bigram", name="b")
    said, page = " ".join(record_text(run.report).split()), (run.folder / "report.html").read_text("utf-8")
    assert "It was counted once: there are no steps." in said
    assert f"it keeps {run.report.rung.parameters:,} numbers" in said
    assert "epochs" not in said + page
    assert "How it learned" not in page
    assert "Its health" not in page
    best = run.report.ladder.best_count
    behind = f"{run.report.rung.dev - best.dev:.4f} behind the best that only counts here, the {best.name}"
    assert behind in said
    assert behind in page
    best = pellucid.train("own.txt", model="ngram", name="best")
    assert ("the best that only counts here." in repr(best)) == (best.report.rung == best.report.ladder.best_count)


def test_what_is_impossible_for_it_is_told(folder):
    said = repr(pellucid.train("own.txt", model="unigram", s=0.0))
    assert "behind the best that only counts here" in said  # every letter stands in train
    once = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]  # each pair stands on one side
    said = repr(pellucid.train(once, model="bigram", s=0.0))
    assert "some of dev is impossible, and its loss infinite; the best that only counts here, the" in said


def test_the_commands_take_it_as_any_other_run(folder, capsys):
    def refused(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code == 2
        return capsys.readouterr().err

    run = pellucid.train("own.txt", model="bigram", name="b")
    assert pellucid.resume("b").report.rung == run.report.rung
    assert draw("ladder", run.folder).drawing.title
    nothing = "b is a run of bigram, which only counts: "
    assert refused("draw", "loss-curves", "b", "--out", "x.svg") == (
        f"pellucid: {nothing}nothing was learned that loss-curves could show. "
        "Draw ladder of it, or bigram-matrix of own.txt.\n"
    )
    for verb in ("inspect", "doctor"):
        expected = f"pellucid: {nothing}it has no network. Try pellucid sample b, or train a network.\n"
        assert refused(verb, "b") == expected
    assert open_run("b").model == "bigram"
    assert json.loads((run.folder / "run.json").read_text("utf-8"))
    assert (run.report.command[-4:-2]) == ("--model", "bigram")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"model": "bigram", "minutes": 1}, "minutes changes nothing for bigram, which only counts"),
        ({"model": "bigram", "n": 3}, "n changes nothing for bigram"),
        ({"model": "ngram", "s": 0.1}, "s changes nothing for ngram with kneser-ney"),
        ({"model": "ngram", "width": 8}, "width changes nothing for ngram, which only counts"),
        ({"model": "mlp", "smoothing": "add"}, "smoothing changes nothing for a network"),
        ({"smoothing": "add"}, "smoothing changes nothing for a network"),
        ({"model": "bigran"}, "no model called 'bigran'. Perhaps you meant bigram"),
        ({"model": "bigram", "kind": "table"}, "list or text is wanted"),
    ],
)
def test_what_would_change_nothing_is_refused(folder, asked, words):
    with pytest.raises(PellucidError, match=words):
        pellucid.train("own.txt", **asked)


def test_damage_is_refused_in_one_line(folder):
    run = pellucid.train("own.txt", model="bigram", name="b")
    whole = (run.folder / COUNTS_FILE).read_bytes()
    for content in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        (run.folder / COUNTS_FILE).write_bytes(content)
        with pytest.raises(Damaged, match=r"^counts\.safetensors of 'b' is damaged: its content is not") as refused:
            pellucid.score("b", "hela")
        assert "\n" not in str(refused.value)
    (run.folder / COUNTS_FILE).unlink()
    with pytest.raises(Damaged, match=r"^counts\.safetensors of 'b' is damaged: it is missing"):
        pellucid.sample("b")
    (run.folder / COUNTS_FILE).write_bytes(whole)
    (run.folder / "run.json").write_text("{}", "utf-8")
    with pytest.raises(PellucidError):
        pellucid.score("b", "hela")


def test_one_that_was_stopped_is_made_again(folder):
    run = pellucid.train("own.txt", model="bigram", name="b")
    (run.folder / "finished.json").unlink()
    with pytest.raises(PellucidError, match="only counts and was stopped before it had"):
        pellucid.resume("b")
