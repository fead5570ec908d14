"""`pellucid inspect`: what it prints, and what it promises about other people's code.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle.
"""

import json
import os
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import pellucid
from pellucid.api.inspect import names_in
from pellucid.api.inspect_child import inspect_job
from pellucid.cli import main
from pellucid.errors import ExpressionError, PellucidError
from pellucid.figures.show import record_json, show
from pellucid.figures.words.notes import note_sentences
from pellucid.inspection.sandbox import MOST_PRINTED, run_in_child
from pellucid.inspection.their_code import as_module, insert_missing_commas, load_name
from pellucid.records import Inspection
from pellucid.records.plain import as_plain, from_plain

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 5)
            nn.AvgPool2d(4),
            nn.ReLU(),
            nn.Conv2d(8, 16, 4, padding=1),
            nn.AvgPool2d(2)
            nn.ReLU(),
        )
        self.head = nn.Linear(120, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))
"""


@pytest.fixture
def theirs(tmp_path):
    """Writes a file and gives what `inspect` makes of a name in it, here in this process; all imports are undone."""
    finders, loaded = list(sys.meta_path), set(sys.modules)

    def load(text: str, name: str = "net", file: str = "model.py") -> nn.Module:
        path = tmp_path / file
        path.write_text(text, encoding="utf-8")
        return as_module(load_name(path, name).value, name, path).model

    yield load
    sys.meta_path[:] = finders
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


def job(file: Path, name: str, *inputs: str) -> dict[str, object]:
    model = {"kind": "file", "name": f"{file.name}:{name}", "file": str(file), "of": name}
    return {"models": [model], "inputs": inputs, "batch": ""}


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def refused(theirs, text: str, name: str = "net", **options: str) -> PellucidError:
    with pytest.raises(PellucidError) as caught:
        theirs(text, name, **options)
    assert len("pellucid: " + str(caught.value)) <= 240
    return caught.value


def spoken(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["inspect", *words])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.mark.parametrize(
    ("words", "says", "fix"),
    [
        (["model.py"], "'model.py' does not say which name", "Write model.py:Net; it has Net, make, net"),
        (["model.py:"], "does not say which name", "Write model.py:Net"),
        (["modle.py:net"], "no file called 'modle.py'", "'model.py'"),
        (["names"], "no run, no file.py:name, no expression and no published", "nn.Linear"),
        (["nn.Linear(4"], "never closed at column 10", "Add )"),
        (["nn.Linear(4, 2)", "--input", "2,four"], "'four' is no size", "1,1,32,32"),
        (["nn.Linear(4, 2)", "--input", "2,4", "--batch", "x.npy"], "exclude each other", "Keep one"),
        (["nn.Linear(4, 2)", "--batch", "x.npy"], "no file called 'x.npy'", ".npy, .npz, .safetensors or .pt"),
        (["nn.Linear(4, 2)", "--batch", "model.py"], "no batch", ".npy, .npz, .safetensors or .pt"),
        (["nn.Linear(4, 2)", "--timeout", "0"], "--timeout is 0", "above 0"),
        (["nn.Linear(4, 2)", "--timeout", "nan"], "--timeout is nan", "above 0"),
        (["nn.Linear(4, 2)", "--against", "nn.Linear("], "never closed", "Add )"),
        (["\x1b[2J"], "'\\x1b[2J' is no run", "nn.Linear"),
    ],
)
def test_misuse_is_answered_without_torch(words, says, fix, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("raise RuntimeError\nclass Net: ...\ndef make(): ...\nnet = 1\n_x = 2\n")
    code, out, err = spoken(capsys, *words)
    assert (code, out) == (2, "")
    assert says in err
    assert fix in err
    assert len(err.splitlines()[0]) <= 240


def test_the_names_of_a_file_are_read_without_running_it(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("raise SystemExit\nclass Net: ...\ndef make(): ...\nnet = Net()\n_hidden = 1\n")
    assert names_in(path) == ["Net", "make", "net"]
    path.write_text("def f(:")
    assert names_in(path) == []


@pytest.mark.parametrize(
    ("text", "name", "says", "fix"),
    [
        ("from torch import nn\nnet = nn.Linear(4, 2)", "nett", "nothing called 'nett'", "Perhaps you meant net"),
        ("def first(): ...\nclass Second: ...", "xyz", "nothing called 'xyz'", "It has first, Second"),
        ("net = 3", "net", "'net' of 'model.py' is of the type int", "Name a module"),
        ("def net(): return [1]", "net", "gives something of the type list", "Name a module"),
        ("def net(width, depth=2): ...", "net", "'net' needs width", "def model(): return net(...)"),
    ],
)
def test_what_is_no_module(theirs, text, name, says, fix):
    error = refused(theirs, text, name)
    assert says in error.what
    assert fix in error.fix


@pytest.mark.parametrize(
    "text",
    [
        "from torch import nn\nnet = nn.Linear(4, 2)",
        "from torch import nn\nclass net(nn.Module):\n  def __init__(self, width=4):\n    super().__init__()\n"
        "    self.a = nn.Linear(width, 2)\n  def forward(self, x): return self.a(x)",
        "from torch import nn\ndef net(width=4): return nn.Linear(width, 2)",
        "import functools\nfrom torch import nn\nnet = functools.partial(nn.Linear, 4, 2)",
        "import torch\nfrom torch import nn\ndef net(): return nn.Linear(4, 2), torch.ones(3, 4), None",
    ],
    ids=["module", "class", "function", "partial", "tuple"],
)
def test_what_is_a_module(theirs, text):
    assert sum(one.numel() for one in theirs(text).parameters()) == 10


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("x = 1\nimport nothing_of_that_name", "in model.py:2", "No module named"),
        ("def f():\n    raise ValueError('bad\\nnews')\nnet = f()", "in model.py:2", "raised ValueError: bad"),
        ("import sys\n\nsys.exit(3)", "in model.py:3", "leaves with sys.exit(3)"),
        ("def net():\n    x = 1\n    raise SystemExit", "in model.py:3", "leaves with sys.exit(None)"),
        ("def net():\n    return undefined", "in model.py:2", "NameError"),
        ("raise KeyboardInterrupt", "in model.py:1", "KeyboardInterrupt"),
        ("import torch\nx = torch.ones(2) @ torch.ones(3)", "in model.py:2", "RuntimeError"),
        ("x = 1\nraise ValueError('\\x1b[2J')", "in model.py:2", "\\x1b[2J"),
    ],
)
def test_their_mistakes_have_their_line(theirs, text, where, says):
    error = refused(theirs, text)
    assert error.where == where
    assert says in error.what


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("x = 1\ndef f(:\n", 2, 7), ("x = (1", 1, 5), ("x = 1 2", 1, 7), ("x = '", 1, 5), ("if x\n  y", 1, 5)],
)
def test_a_syntax_error_has_a_caret(theirs, text, line, column):
    error = refused(theirs, text)
    assert isinstance(error, ExpressionError)
    assert error.where == f"in model.py:{line}"
    assert error.column == column
    assert error.excerpt().splitlines()[-1].endswith("^")


def test_missing_commas_of_a_file_are_named_and_read_over():
    source = insert_missing_commas(NET, "model.py")
    assert [error.where for error in source.mistakes] == ["in model.py:10", "in model.py:14"]
    assert "after 'nn.Conv2d(1, 8, 5)'" in source.mistakes[0].what
    assert source.mistakes[0].excerpt().splitlines()[1].index("^") == 2 + NET.splitlines()[9].index(")") + 1
    assert source.text == NET.replace("(1, 8, 5)\n", "(1, 8, 5),\n").replace("AvgPool2d(2)\n", "AvgPool2d(2),\n")


def test_missing_commas_are_found_where_several_stand_together():
    for text, mended in [
        ("x = [nn.A(1 2) nn.B()]", "x = [nn.A(1, 2), nn.B()]"),
        ("x = (1\n 2 # two\n True)", "x = (1,\n 2, # two\n True)"),
        ("f('a' 'b' c)", "f('a' 'b', c)"),
    ]:
        assert insert_missing_commas(text, "model.py").text == mended


def test_names_that_would_shadow_others(theirs, tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random')")
    text = "import torch, random\nfrom torch import nn\nnet = nn.Linear(4, random.choice([2]))"
    for file in ("torch.py", "random.py", "my-model 2.py", "модель.py", "json.py", "2nd.py"):
        assert isinstance(theirs(text, file=file), nn.Linear)
    assert torch.__file__ != str(tmp_path / "torch.py")


def test_what_lies_beside_the_file_is_found(theirs, tmp_path, monkeypatch):
    (tmp_path / "widths.py").write_text("WIDTH = 4")
    assert theirs("from widths import WIDTH\nfrom torch import nn\nnet = nn.Linear(WIDTH, 2)").in_features == 4
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package.parent / "sizes.py").write_text("WIDTH = 6")
    text = "from ..sizes import WIDTH\nfrom torch import nn\nnet = nn.Linear(WIDTH, 2)"
    assert theirs(text, file="package/inner/model.py").in_features == 6
    assert str(tmp_path) not in sys.path


def test_models_of_every_kind(theirs, tmp_path):
    """The table of parameters is there whatever forward does, and is exact."""
    text = """
import torch
from torch import nn

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.ones(3))
    def forward(self, x):
        return {"scores": self.head(self.embed(x)), "none": None}

class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)
    def forward(self, batch, other):
        return self.a(batch["x"])

class Refusing(nn.Sequential):
    def forward(self, x):
        x = self[0](x)
        raise KeyError("\\x1b[31mno")

class Leaving(nn.Linear):
    def forward(self, x):
        raise SystemExit(4)

class Answering(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 2)
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return 7
    def forward(self, x):
        return self.a(x)

refusing = Refusing(nn.Linear(4, 2), nn.Linear(2, 2))
leaving = Leaving(4, 2)
hooked = nn.Linear(4, 2)
def hook(*_): raise ValueError("from a hook")
hooked.register_forward_pre_hook(hook)
empty = nn.Sequential()
odd = nn.ModuleDict({"\\x1b[2J": nn.Linear(4, 2)})
"""
    theirs(text, "Tied")
    path = tmp_path / "model.py"

    def found(name: str, *inputs: str) -> Inspection:
        plain = inspect_job(job(path, name, *inputs))
        json.dumps(plain, allow_nan=False)
        return from_plain(Inspection, plain[0])  # type: ignore[index]

    tied = found("Tied", "2,5:int")
    assert (tied.parameters, tied.parameters_with_ties, tied.buffers) == (36, 72, 3)
    assert tied.failure is None
    unknown = found("Unknown")
    assert unknown.parameters == 10
    assert unknown.failure is None
    assert "none can be guessed" in note_sentences(unknown.notes)[0]
    refusing = found("refusing", "2,4")
    assert refusing.parameters == 16
    assert refusing.failure is not None
    assert refusing.failure.where == f"model.py:{line_of(text, 'raise KeyError')}"
    assert [[str(one) for one in row.outputs] for row in refusing.rows if row.path == "0"] == [
        ["(batch 2, features 2)"]
    ]
    hooked = found("hooked", "2,4")
    assert hooked.failure is not None
    assert "from a hook" in hooked.failure.error
    assert found("Answering", "2,4").parameters == 10
    assert found("empty").parameters == 0
    with pytest.raises(PellucidError, match=rf"sys.exit\(4\) in model.py:{line_of(text, 'raise SystemExit')}"):
        found("leaving", "2,4")
    for name in ("odd", "refusing"):
        shown = repr(pellucid.inspect(theirs(text, name), torch.ones(2, 4)))
        assert "\x1b" not in shown
        assert "\\x1b" in shown


def test_inspecting_changes_nothing_in_the_front_door():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
    before, chance = {name: one.clone() for name, one in model.state_dict().items()}, torch.get_rng_state()
    shown = pellucid.inspect(model, torch.ones(3, 4))
    assert shown.parameters == 28
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(PellucidError, match=r"no nn\.Module"):
        pellucid.inspect(3)


def test_the_table_as_it_is_printed(capsys):
    show(pellucid.inspect("nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU())", torch.ones(2, 1, 9, 9)).record)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU())"
    assert lines[1].split() == ["module", "type", "in", "out", "parameters", "FLOPs", "memory", "time"]
    # 2·25·1 FLOPs for each of 2·8·5·5 numbers of 4 bytes
    assert " ".join(lines[3].split()[:-2]) == "0 Conv2d b2 c1 h9 w9 b2 c8 h5 w5 208 20 k 1.56 KB"
    assert "b batch, c channels, h height, w width" in lines
    assert "208 parameters in 832 B" in lines
    assert "20,000 FLOPs by formula, and the same by operation" in lines


def test_a_record_survives_the_way_out_of_the_child():
    for text in ("nn.Sequential(nn.Linear(4, 8) nn.Linear(9, 2))", "nn.LSTM(4, 8)"):
        record = pellucid.inspect(text).record
        assert from_plain(Inspection, json.loads(json.dumps(as_plain(record)))) == record
        assert json.loads(record_json(record))["parameters"] == record.parameters


def test_two_side_by_side():
    models = [
        {"kind": "expression", "name": text, "text": text}
        for text in ("nn.Linear(6, 2)", "nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))")
    ]
    both = [from_plain(Inspection, one) for one in inspect_job({"models": models, "inputs": ["3,6"], "batch": ""})]  # type: ignore[attr-defined]
    assert [one.parameters for one in both] == [14, 38]
    assert [str(one.rows[0].inputs[0]) for one in both] == ["(batch 3, features 6)"] * 2


def test_a_run_of_our_own(tmp_path):
    from pellucid.data.options import DataOptions
    from pellucid.training.callbacks import Callbacks
    from pellucid.training.options import TrainOptions
    from pellucid.training.run import train_run

    words = tmp_path / "words.txt"
    words.write_text("\n".join(f"{one}{other}" for one in "abcdefgh" for other in "klmnopqr"))
    asked = {
        "words": (DataOptions(str(words)), TrainOptions("transformer", steps=2, size="tiny")),
        "rows": (DataOptions("penguins", target="species"), TrainOptions("mlp", steps=2, size="tiny", kind="table")),
    }
    for name, wishes in asked.items():
        train_run(*wishes, tmp_path / name, Callbacks())
        run = {"kind": "run", "name": name, "run": str(tmp_path / name)}
        (plain,) = inspect_job({"models": [run], "inputs": [], "batch": ""})  # type: ignore[misc, attr-defined]
        found = from_plain(Inspection, plain)
        assert found.failure is None
        assert found.parameters > 0
        assert found.flops_by_operation > 0


@pytest.mark.slow
def test_their_process_is_bounded(tmp_path):
    """One file, several children: each is ended with all that it started, and says why in one line."""
    path = tmp_path / "bad.py"
    path.write_text(
        """
import os, time
from torch import nn
import torch

def waits():
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(1000)
    open("started", "w").write(str(os.getpgid(0)))
    time.sleep(1000)

def leaves():
    print("last words", flush=True)
    os._exit(0)

def huge():
    return nn.Linear(4, torch.empty(100 * 2**30).numel())

def prints():
    line = "x" * (1 << 20)
    while True:
        print(line)
"""
    )
    entry = "pellucid.api.inspect_child:inspect_job"

    def ended(name: str, seconds: float = 60.0) -> str:
        with pytest.raises(PellucidError) as caught:
            run_in_child(entry, job(path, name), seconds=seconds, folder=tmp_path, whose=f"bad.py:{name}")
        assert caught.value.exit_code == 2
        return str(caught.value)

    assert "ended its process with exit code 0 after printing 'last words'" in ended("leaves")
    assert f"printed more than {MOST_PRINTED >> 20} MB" in ended("prints")
    said = ended("huge")
    assert "asks for more memory than the" in said
    assert f"in bad.py:{line_of(path.read_text(), 'torch.empty')}" in said

    # The clock is ours, as a child on a busy machine may need long to begin.
    seconds = 5.0
    while not (tmp_path / "started").exists() and seconds < 100:
        assert f"had not come to its end after {seconds:g} s" in ended("waits", seconds)
        seconds *= 2
    group = int((tmp_path / "started").read_text())
    for _ in range(100):
        if not _is_alive(group):
            break
        time.sleep(0.05)
    assert not _is_alive(group)
    assert not (tmp_path / "__pycache__").exists()


def _is_alive(group: int) -> bool:
    """Whether a process of the group still runs; the dead that nobody buried do not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgid = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgid) == group and state != "Z":
            return True
    return False


def test_the_whole_command_on_a_file_with_missing_commas_and_a_wrong_width(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my model.py").write_text(NET)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    code, out, err = spoken(capsys, "my model.py:Net", "--input", "2,1,32,32")
    assert (code, err) == (1, "")
    assert "a comma is missing after 'nn.Conv2d(1, 8, 5)' in my model.py:10." in out
    assert "a comma is missing after 'nn.AvgPool2d(2)' in my model.py:14." in out
    assert "Linear(120, 10) is fed 144 = 16·3·3 features: nn.Linear(144, 10) works." in out
    assert "in         Linear head, my model.py:20" in out
    assert "  in forward: (2, 16, 3, 3) -> (2, 144)" in out
    assert "running your code: my model.py" in out
    assert sorted(os.listdir(tmp_path)) == ["json.py", "my model.py"]
