"""`pellucid doctor`, as a user runs it: on a run, and on a file of someone's own."""

import json
import textwrap

import numpy as np
import pytest
import torch

import pellucid as package
from pellucid.cli import main
from pellucid.runs import open_run
from pellucid.training.run import MOST_ROWS, load_specimen

FILE = """
import time

import torch
from torch import nn

print("their own words")


class Net(nn.Module):
    def __init__(self, last=nn.Identity()):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3), last)

    def forward(self, x):
        return self.layers(x)


def patient(last=nn.Identity()):
    torch.manual_seed(0)
    model, x = Net(last), torch.randn(64, 8)
    return model, x, x[:, :3].argmax(1), nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=1e-3)


def ill():
    return patient(nn.Softmax(-1))


def for_ever():
    while True:
        time.sleep(0.01)  # which costs nobody a processor


def raises():
    return 1 / 0
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "net.py").write_text(FILE)
    return "net.py"


def told(run, code=0):
    assert run.returncode == code, run.stdout + run.stderr
    assert run.stderr == ""
    return run.stdout


def refused(run):
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert len(run.stderr) <= 241
    return run.stderr


def test_what_is_broken_is_told_with_its_numbers_and_ends_with_1(pellucid, file):
    words = told(pellucid("doctor", f"{file}:ill", "--rule", "double-softmax"), code=1)
    assert words.startswith("ill: 1 broken; 0 things proven sound")
    assert "0.5514" in words  # ln(1 + 2/e), which the loss of three classes cannot go below
    for label in ("means", "try", "again"):
        assert f"\n  {label:<6}" in words
    assert "their own words" not in words


def test_a_class_with_a_batch_and_a_loss_by_name(pellucid, file, tmp_path):
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "batch.npz", inputs=x.numpy(), targets=x[:, :3].argmax(1).numpy())
    words = ("doctor", f"{file}:Net", "--batch", "batch.npz", "--loss", "cross-entropy", "--json")
    said = json.loads(told(pellucid(*words)))
    assert said["is_ill"] is False
    assert "broken" not in {finding["severity"] for finding in said["findings"]}
    assert {"initial-loss", "no-gradient"} <= {f["rule"] for f in said["findings"] if f["severity"] == "sound"}
    assert (
        next(rule["passed_over"] for rule in said["rules"] if rule["rule"] == "weight-decay") == "needs the optimizer"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["net.py:for_ever", "--timeout", "4"], "had not come to its end after 4 s"),
        (["net.py:raises"], "ZeroDivisionError: division by zero in net.py:"),
        (["net.py:Net"], "there is no batch for 'Net'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_a_file_does_wrong_is_one_line(pellucid, file, words, says):
    assert says in refused(pellucid("doctor", *words))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["net.py"], "does not say which name"),
        (["other.py:net"], "there is no file called 'other.py'"),
        (["nothing"], "there is no run called 'nothing'"),
        ([], "no model is named"),
        (["net.py:patient", "--timeout", "0"], "--timeout is 0"),
        (["nothing", "--loss", "mse"], "--loss changes nothing for the run 'nothing'"),
        (["net.py:patient", "--data", "own.csv"], "--data is for a run"),
    ],
    ids=str,
)
def test_what_is_asked_wrongly_is_refused_before_torch_is_loaded(pellucid, file, words, says):
    assert says in refused(pellucid("doctor", *words))


# Runs


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run on names and one on a table, trained for a moment."""
    folder = tmp_path_factory.mktemp("doctored")
    (folder / "own.txt").write_text(
        "\n".join(f"{first}{end}" for first in "abcdefgh" for end in ("na", "li", "mo", ""))
    )
    rows = "\n".join(f"{n},{'ab'[n % 2]},{'xy'[n % 3 == 0]}" for n in range(60))
    (folder / "own.csv").write_text(textwrap.dedent("n,letter,kind\n") + rows + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        package.train("own.txt", model="transformer", steps=4, size="tiny", name="list")
        package.train("own.csv", model="mlp", steps=4, size="tiny", name="table", target="kind")
    return folder


@pytest.mark.parametrize("name", ["list", "table"])
def test_a_run_is_a_patient_with_its_own_data_and_loss(place, name, monkeypatch):
    monkeypatch.chdir(place)
    patient = load_specimen(open_run(place / "runs" / name))
    assert patient.model.training
    assert 0 < patient.n_rows <= MOST_ROWS
    assert patient.loss_of(patient.outputs()).dim() == 0
    rows = {tuple(map(float, row)) for row in patient.inputs[0].tolist()}
    for inputs, _ in patient.more:
        assert not rows & {tuple(map(float, row)) for row in inputs[0].tolist()}


def test_the_doctor_of_a_run_brings_what_training_saw(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "list", "--rule", "dead-units", "--rule", "update-ratio", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert said["name"].startswith("transformer of the run list, weights of step ")
    assert {finding["rule"] for finding in said["findings"]} == {"dead-units", "update-ratio"}
    assert {finding["step"] for finding in said["findings"] if finding["rule"] == "update-ratio"} == {4}


def test_a_run_whose_data_are_gone_is_refused_until_they_are_given(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "own.csv").rename(place / "gone.csv")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "table"])
    assert ended.value.code == 2
    assert "the data file of table is gone" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "table", "--data", "gone.csv", "--rule", "no-gradient"])
    assert "no-gradient: all" in capsys.readouterr().out
    assert ended.value.code == 0


def test_a_rule_is_explained(pellucid):
    said = told(pellucid("doctor", "--explain", "future-leak"))
    assert "outputs of a causal module move" in said
    assert "can't see" in said
    assert json.loads(told(pellucid("doctor", "--explain", "cannot-overfit", "--json")))["follows"] == ["any"]
    for words, wrong in (
        (["--explain", "future-leek"], "Perhaps you meant future-leak"),
        (["--explain", "future-leak", "net.py:patient"], "Leave one of them out"),
        ([], "no model is named"),
    ):
        refused = pellucid("doctor", *words)
        assert refused.returncode == 2
        assert wrong in refused.stderr
