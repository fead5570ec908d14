"""What may be asked of a training, refused before anything is read and before torch is loaded."""

import dataclasses
import subprocess
import sys

import pytest

from pellucid.errors import PellucidError
from pellucid.models.neural import networks
from pellucid.training.schedule import DECAYS as DECAYS_OF_SCHEDULE
from pellucid.training.wishes import DECAYS, SETTINGS, TrainingWishes, windows_of


def test_the_settings_are_those_of_the_configurations():
    for name, card in networks().items():
        fields = [field.name for field in dataclasses.fields(card.config)]
        assert ["vocab_size", *SETTINGS[name]] == fields, name
    assert DECAYS == DECAYS_OF_SCHEDULE


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"training": {"rate": 0.0}}, "rate is 0"),
        ({"training": {"rate": -1.0}}, "rate is -1"),
        ({"training": {"rate": 1e9}}, "rate is 1e"),
        ({"training": {"rate": float("nan")}}, "rate is nan"),
        ({"training": {"batch": 0}}, "batch is 0. The nearest that can be is 1"),
        ({"training": {"optimizer": "adam"}}, "Perhaps you meant adamw"),
        ({"training": {"decay": "cosin"}}, "Perhaps you meant cosine"),
        ({"training": {"clip": -1.0}}, "clip is -1"),
        ({"training": {"threads": 0}}, "threads is 0"),
        ({"steps": -1}, "steps is -1"),
        ({"minutes": 0.0}, "minutes is 0"),
        ({"minutes": float("inf")}, "minutes is inf"),
        ({"seed": -1}, "the seed is -1"),
        ({"seed": 2**64}, "the seed is"),
        ({"size": "mediun"}, "Perhaps you meant medium"),
        ({"model": "transfomer"}, "Perhaps you meant transformer"),
        ({"model": "ngram"}, "ngram only counts"),
        ({"network": {"width": 30, "n_heads": 4}}, "width 30 cannot be shared equally by 4 heads"),
        ({"network": {"dropout": 1.0}}, "dropout is 1"),
        ({"network": {"depth": 0}}, "depth is 0"),
        ({"network": {"width": 10**9}}, "GB"),
        ({"model": "mlp", "network": {"n_heads": 2}}, "--heads changes nothing for mlp"),
        ({"model": "gru", "network": {"norm": "batch"}}, "--norm changes nothing for gru"),
    ],
    ids=str,
)
def test_row_71_what_cannot_be_is_refused(wishes, words):
    with pytest.raises(PellucidError) as refused:
        TrainingWishes(**wishes)
    assert words in str(refused.value)


def test_wishes_need_no_torch():
    code = "import sys, pellucid.training.wishes; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize(
    "words",
    [
        ("train", "nowhere.txt"),
        ("train", "--rate", "0"),
        ("train", "--model", "mpl"),
        ("train", "--resume", "nothing"),
        ("train", "names", "--data", "names"),
        ("train", "--minutes", "1", "--steps", "5"),
        ("train", "--fresh-optimizer"),
        ("train", "--tokens", "letters"),
        ("compare", "--models", "mlp,mlp"),
        ("compare", "--models", "mlpp"),
        ("rate", "--seeds", "0"),
    ],
    ids=" ".join,
)
def test_what_is_refused_early_loads_no_torch(tmp_path, words):
    code = (
        "import sys, pellucid.cli as c\n"
        "try: c.main(sys.argv[1:])\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, encoding="utf-8", cwd=tmp_path, check=True
    )
    assert run.stdout.splitlines()[-1] == "2 False", run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_where_a_context_belongs():
    assert windows_of("transformer", {"context": 32}) == (32, {"context": 32})
    assert windows_of("neural-ngram", {"context": 32}) == (0, {})
