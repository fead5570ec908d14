"""Adding a thing is adding a row or a file: it is then in --help, in compare, in the docs and in the contracts.

What is added is added before the rest is loaded, in a process of its own; a new lesson is in test_draw.py.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.cli import COMMANDS
from pellucid.cli.options import ONLY_TRAIN
from pellucid.data.options import DataOptions
from pellucid.models.counting import CountOptions
from pellucid.options import flag_of, options_of
from pellucid.training.options import COUNTING, TrainOptions, all_options, network_settings

ROOT = Path(__file__).parent.parent

AROUND = """
import contextlib, importlib.util, io, json, sys

sys.path.insert(0, {folder!r})

def said(*words):
    from pellucid.cli import main
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit:
            pass
    return " ".join((out.getvalue() + err.getvalue()).split())

def commands_page():
    found = importlib.util.spec_from_file_location("docs_build", {build!r})
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return " ".join(module.commands_page().split())

"""


def run_with(code: str, folder: Path) -> dict[str, object]:
    """What a process prints as JSON that runs this code in a folder."""
    around = AROUND.format(folder=str(folder), build=str(ROOT / "docs" / "build.py"))
    (folder / "names.txt").write_text("\n".join(f"{a}{b}{c}" for a in "bdfglmnr" for b in "aeiou" for c in "nlst"))
    done = subprocess.run([sys.executable, "-c", around + code], capture_output=True, encoding="utf-8", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_network_is_a_row_and_its_config(tmp_path):
    (tmp_path / "bells.py").write_text(
        "from dataclasses import dataclass\n"
        "from pellucid.models.sequences.configs import RecurrentConfig\n"
        "from pellucid.options import option\n"
        "@dataclass(frozen=True)\n"
        "class BellConfig(RecurrentConfig):\n"
        '    bells: int = option(2, "Number of bells.", minimum=1)\n'
    )
    found = run_with(
        "import dataclasses, pellucid.models.catalogue as catalogue\n"
        "from bells import BellConfig\n"
        'gru = catalogue.find_network("gru", "list")\n'
        "tiny = BellConfig(vocab_size=5, width=16, depth=2)\n"
        'new = dataclasses.replace(gru, name="belfry", summary="A tower.", config=BellConfig, tiny=tiny)\n'
        "catalogue.NETWORKS = (*catalogue.NETWORKS, new)\n"
        "import pellucid\n"
        "run = pellucid.train('names.txt', model='belfry', steps=3, size='tiny', bells=4, threads=1)\n"
        "print(json.dumps({\n"
        '    "help": said("train", "--help"), "all": said("train", "--help-all"), "page": commands_page(),\n'
        '    "refused": said("train", "names.txt", "--model", "belfry", "--bells", "0"),\n'
        '    "idle": said("train", "names.txt", "--model", "gru", "--bells", "3"),\n'
        '    "compared": catalogue.compared_networks("list"), "contracts": list(catalogue.networks_for("list")),\n'
        '    "command": run.report.command, "config": dict(run.run.config)}))\n',
        tmp_path,
    )
    assert "belfry" in found["help"]
    assert "--bells INTEGER Number of bells." in found["all"]
    assert "--bells INTEGER Number of bells." in found["page"]
    assert "| belfry | list, text | A tower. |" in found["page"]
    assert "bells is 0" in found["refused"]
    assert "--bells changes nothing for gru. Leave it out, or choose belfry." in found["idle"]
    assert "belfry" in found["compared"]
    assert "belfry" in found["contracts"]  # what tests/contracts are made of
    assert " ".join(found["command"]).endswith("--model belfry --steps 3 --seed 1 --size tiny --threads 1 --bells 4")
    assert found["config"]["bells"] == 4


@pytest.mark.slow
def test_an_optimizer_a_schedule_and_a_position_encoding_are_rows(tmp_path):
    found = run_with(
        "import pellucid.layers.positions as positions\n"
        'positions.ENCODINGS["compass"] = positions.ENCODINGS["learned"]\n'
        "positions.POSITIONS = tuple(positions.ENCODINGS)\n"
        "import pellucid.training.optimizers as optimizers\n"
        "def build(model, plan):\n"
        "    import torch\n"
        "    parameters = optimizers.named_trainable(model)\n"
        "    adagrad = torch.optim.Adagrad(optimizers.parameter_groups(parameters, plan), lr=plan.learning_rate)\n"
        "    return [optimizers.TorchRule(parameters, adagrad, ['step', 'sum'])]\n"
        "row = optimizers.OptimizerCard('adagrad', 'Smaller where gradients were large.', build, learning_rate=0.05)\n"
        "optimizers.OPTIMIZERS = {**optimizers.OPTIMIZERS, row.name: row}\n"
        'optimizers.SCHEDULES = {**optimizers.SCHEDULES, "stairs": optimizers.SCHEDULES["step"]}\n'
        "import pellucid\n"
        "asked = dict(optimizer='adagrad', schedule='stairs', positions='compass', start='scratch')\n"
        "run = pellucid.train('names.txt', **asked, steps=3, size='tiny', threads=1)\n"
        "print(json.dumps({\n"
        '    "help": said("train", "--help"), "all": said("train", "--help-all"), "page": commands_page(),\n'
        '    "plan": run.report.plan._asdict(), "config": dict(run.run.config)}))\n',
        tmp_path,
    )
    assert "Optimizer: muon, adamw, sgd or adagrad." in found["help"]
    for page in (found["all"], found["page"]):
        assert "Learning rate schedule: linear, cosine, step, constant or stairs." in page
        assert "relative, alibi or compass." in page
    assert (found["plan"]["optimizer"], found["plan"]["schedule"]) == ("adagrad", "stairs")
    assert found["plan"]["learning_rate"] == 0.05
    assert found["config"]["positions"] == "compass"


def test_an_option_of_train_is_a_field(tmp_path):
    (tmp_path / "patient.py").write_text(
        "from dataclasses import dataclass\n"
        "from pellucid.options import option\n"
        "from pellucid.training.options import TrainOptions\n"
        "@dataclass(frozen=True)\n"
        "class PatientOptions(TrainOptions):\n"
        '    patience: int | None = option(None, "Evaluations to wait for a gain.", minimum=2)\n'
    )
    found = run_with(
        "import pellucid.training.options as options\n"
        "from patient import PatientOptions\n"
        "options.TrainOptions = PatientOptions\n"
        "import pellucid\n"
        "run = pellucid.train('names.txt', steps=3, size='tiny', threads=1, patience=4)\n"
        "try:\n"
        "    pellucid.train('names.txt', patience=1)\n"
        "except pellucid.PellucidError as error:\n"
        "    refused = str(error)\n"
        "print(json.dumps({\n"
        '    "help": said("train", "--help"), "all": said("train", "--help-all"), "rate": said("rate", "--help-all"),\n'
        '    "page": commands_page(), "refused": refused, "near": said("train", "--patiense", "3"),\n'
        '    "command line": said("train", "names.txt", "--patience", "1"),\n'
        '    "asked": run.run.record["asked"], "command": run.report.command}))\n',
        tmp_path,
    )
    for page in (found["all"], found["rate"], found["page"]):
        assert "--patience INTEGER Evaluations to wait for a gain." in page
    assert "--patience" not in found["help"]  # only what is common
    assert "patience is 1. The nearest that can be is 2." in found["refused"]
    assert "patience is 1. The nearest that can be is 2." in found["command line"]
    assert "--patience" in found["near"]
    assert found["asked"]["patience"] == 4
    assert " ".join(found["command"]).endswith("--threads 1 --patience 4")


@pytest.mark.slow
def test_a_sampling_filter_is_a_row_and_a_function(tmp_path):
    (tmp_path / "first.py").write_text(
        "import numpy as np\n"
        "def first(logits, n):\n"
        "    return np.where(np.arange(logits.shape[-1]) < n, logits, -np.inf)\n"
    )
    found = run_with(
        "import pellucid.decoding.options as options\n"
        "from pellucid.options import Option\n"
        "from first import first\n"
        'row = options.SamplingFilter("first", int, Option("Only the first tokens.", noun="first", minimum=1),'
        " first)\n"
        "options.FILTERS = (*options.FILTERS, row)\n"
        "import pellucid\n"
        "samples = pellucid.sample('names.txt', first=3, count=4).samples\n"
        "print(json.dumps({\n"
        '    "help": said("sample", "--help"), "page": commands_page(), "texts": [one.text for one in samples],\n'
        '    "refused": said("sample", "names.txt", "--first", "0"),\n'
        '    "idle": said("sample", "names.txt", "--first", "2", "--beam", "2")}))\n',
        tmp_path,
    )
    assert "--first INTEGER Only the first tokens." in found["help"]
    assert "--first INTEGER Only the first tokens." in found["page"]
    assert set("".join(found["texts"])) <= {"a", "b"}
    assert "first is 0" in found["refused"]
    assert "--first changes nothing with --beam" in found["idle"]


@pytest.mark.slow
def test_a_data_set_is_a_file(tmp_path):
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "rivers.py").write_text(
        "from pellucid.data.kinds import ListData\n"
        "from pellucid.data.sets import DatasetCard\n"
        "def load(seed=0, n=60):\n"
        "    items = [f'{a}{b}a' for a in ('ob', 'ter', 'rhi', 'lo', 'vol', 'dan') for b in 'bcdfglmnrt']\n"
        "    return ListData('rivers', items[:n], because='made up', fingerprint='f' * 64)\n"
        "DATASET = DatasetCard('rivers', 'list', 'Sixty rivers.', 'made up', 'CC0', True, load)\n"
    )
    found = run_with(
        "import pellucid.data.sets as sets\n"
        f"sets.__path__.append({str(tmp_path / 'sets')!r})\n"
        "import pellucid\n"
        "samples = pellucid.sample('rivers', count=3).samples\n"
        "print(json.dumps({\n"
        '    "page": commands_page(), "near": said("train", "rivrs"), "n": len(samples)}))\n',
        tmp_path,
    )
    assert "| rivers | list | Sixty rivers. |" in found["page"]
    assert "Perhaps you meant the data set rivers" in found["near"]
    assert found["n"] == 3


@pytest.mark.slow
def test_an_option_of_the_data_is_a_field(tmp_path):
    found = run_with(
        "import dataclasses, pellucid.data.options as options\n"
        "from pellucid.options import option\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class MoreOptions(options.DataOptions):\n"
        '    echoes: int = option(2, "Number of echoes.", minimum=1, kinds=("list",))\n'
        "options.DataOptions = MoreOptions\n"
        "import pellucid\n"
        "run = pellucid.train('names.txt', echoes=3, steps=3, size='tiny', threads=1)\n"
        "print(json.dumps({\n"
        '    "all": said("train", "--help-all"), "page": commands_page(), "command": run.report.command,\n'
        '    "refused": said("train", "names.txt", "--echoes", "0"),\n'
        '    "idle": said("train", "moons", "--target", "moon", "--echoes", "3")}))\n',
        tmp_path,
    )
    assert "--echoes INTEGER Number of echoes." in found["all"]
    assert "--echoes INTEGER Number of echoes." in found["page"]
    assert "--echoes 3" in " ".join(found["command"])
    assert "echoes is 0" in found["refused"]
    assert "--echoes changes nothing for a table. Leave it out." in found["idle"]


def test_a_rule_is_a_file(tmp_path):
    (tmp_path / "named.py").write_text(
        "from pellucid.inspection.rules import DoctorRule\n"
        "from pellucid.records import Finding\n"
        "def check(specimen):\n"
        "    yield Finding.sound('the module', specimen.name, 'it has a name')\n"
        "RULE = DoctorRule('named', 'the module has a name', 'reads its name', check, 'what it is')\n"
    )
    found = run_with(
        "import pellucid.inspection.rules as rules\n"
        "rules.__path__.append({!r})\n"
        "found = importlib.util.spec_from_file_location('docs_build', {!r})\n"
        "build = importlib.util.module_from_spec(found)\n"
        "found.loader.exec_module(build)\n"
        "import pellucid, torch\n"
        "diagnosis = pellucid.doctor(torch.nn.Linear(2, 2), torch.ones(3, 2), rules=['named'])\n"
        "print(json.dumps({{'page': build.doctor_page(), 'rules': [one.rule for one in diagnosis.findings],\n"
        "    'refused': said('doctor', 'x', '--rule', 'namd')}}))\n".format(
            str(tmp_path), str(ROOT / "docs" / "build.py")
        ),
        tmp_path,
    )
    assert "| named | the module has a name |" in found["page"]
    assert found["rules"] == ["named"]


@pytest.mark.parametrize("command", ["train", "rate"])
def test_every_field_is_an_option(command):
    """Of the data, of the training and of every network: a flag with the help of its declaration, also in the docs."""
    params = {one.name: one for one in importlib.import_module(f"pellucid.cli.{command}").command.params}
    page = " ".join((ROOT / "docs" / "commands.md").read_text().split())
    passed_over = {"minutes", "steps", "seed", *ONLY_TRAIN} if command == "rate" else set()
    for name, declared in all_options().items():
        if name in passed_over:
            continue
        flags = [f"--{flag_of(name, declared)}", *(f"--{alias}" for alias in declared.aliases)]
        assert params[name].opts == flags
        assert declared.help.partition(";")[0].rstrip(".") in params[name].help
        assert f"{flags[0]} " in page


def test_every_field_is_a_parameter_and_an_unknown_one_brings_the_nearest():
    from pellucid import PellucidError, sample, train

    declared = {*options_of(DataOptions), *options_of(TrainOptions), *network_settings(), *COUNTING}
    assert declared == set(all_options())
    assert set(COUNTING) <= set(options_of(CountOptions))
    with pytest.raises(PellucidError, match=r"'learning_rat'\. Perhaps you meant learning_rate"):
        train("names", learning_rat=0.1)
    with pytest.raises(PellucidError, match=r"'temprature'\. Perhaps you meant temperature"):
        sample("names", temprature=0.1)


def test_every_command_is_in_the_docs():
    page = (ROOT / "docs" / "commands.md").read_text()
    assert all(f"## pellucid {name}\n" in page for name in COMMANDS)
