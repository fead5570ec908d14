"""What may be asked of a training, refused before anything is read and before torch is loaded."""

import re
import subprocess
import sys

import pytest

from pellucid.api.drawn_records import DrawOptions
from pellucid.api.train import compare, rate
from pellucid.cli.options import given_flags
from pellucid.cli.train import command
from pellucid.data.kinds import KINDS
from pellucid.data.options import DataOptions
from pellucid.data.splits import SplitRequest
from pellucid.decoding.options import SampleOptions
from pellucid.errors import PellucidError
from pellucid.layers.losses import LOSSES as LOSSES_OF_LAYERS
from pellucid.layers.losses import PENALTIES as PENALTIES_OF_LAYERS
from pellucid.models.catalogue import compared_networks, default_network, networks_for
from pellucid.models.counting import COUNT_MODELS, CountOptions
from pellucid.options import options_of, types_of
from pellucid.training.options import LOSSES, PENALTIES, TrainOptions, network_settings, require_network, windows_of


def test_what_options_name_is_what_there_is():
    assert tuple(LOSSES) == tuple(LOSSES_OF_LAYERS)
    assert tuple(PENALTIES) == tuple(PENALTIES_OF_LAYERS)


def test_one_name_is_one_option():
    # `order` was a column of a table and the n of an n-gram at once, and the command could be given neither.
    declared = [*options_of(DataOptions), *options_of(TrainOptions), *network_settings()]
    assert sorted(declared) == sorted(set(declared))
    with command.make_context("train", ["rows.csv", "--order", "day", "--n", "3"]) as ctx:
        assert given_flags(ctx, ("order", "n")) == {"order": "day", "n": 3}


def test_every_kind_of_data_has_its_networks():
    for kind in KINDS:
        assert default_network(kind).name in networks_for(kind)
        assert set(compared_networks(kind)) <= set(networks_for(kind))


@pytest.mark.parametrize(
    ("model", "kind", "words"),
    [
        ("cnn", "list", "cnn reads images, and the data are a list. Choose one of neural-ngram"),
        ("rnn", "images", "rnn reads lists and texts, and the data are images"),
        ("encoder", "table", "encoder reads pairs, and the data are a table"),
        ("vitt", "images", "Perhaps you meant vit"),
        ("lstn", "", "Perhaps you meant lstm"),
    ],
)
def test_a_network_for_other_data_is_refused(model, kind, words):
    with pytest.raises(PellucidError) as refused:
        require_network(model, kind)
    assert words in str(refused.value)


def test_before_the_data_are_known_only_the_impossible_is_refused():
    TrainOptions(model="mlp", kind="", network={"context": 3})  # of a list
    TrainOptions(model="mlp", kind="", network={"dropout": 0.1})  # of a table
    TrainOptions(model="", kind="", network={"patch": 4})
    with pytest.raises(PellucidError, match="patch changes nothing for mlp"):
        TrainOptions(model="mlp", kind="", network={"patch": 4})


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"learning_rate": 0.0}, "learning rate is 0"),
        ({"learning_rate": -1.0}, "learning rate is -1"),
        ({"learning_rate": 1e9}, "learning rate is 1e"),
        ({"learning_rate": float("nan")}, "learning rate is nan"),
        ({"batch_size": 0}, "batch size is 0. The nearest that can be is 1"),
        ({"optimizer": "adam"}, "Perhaps you meant adamw"),
        ({"schedule": "cosin"}, "Perhaps you meant cosine"),
        ({"clip": -1.0}, "clip is -1"),
        ({"threads": 0}, "the number of threads is 0"),
        ({"steps": -1}, "the number of steps is -1"),
        ({"minutes": 0.0}, "the time budget in minutes is 0"),
        ({"minutes": float("inf")}, "the time budget in minutes is inf"),
        ({"seed": -1}, "the seed is -1"),
        ({"seed": 2**64}, "the seed is"),
        ({"size": "mediun"}, "Perhaps you meant medium"),
        ({"model": "transfomer"}, "Perhaps you meant transformer"),
        ({"model": "ngram"}, "ngram only counts"),
        ({"network": {"width": 30, "n_heads": 4}}, "width 30 cannot be shared equally by 4 heads"),
        ({"network": {"dropout": 1.0}}, "dropout is 1"),
        ({"network": {"depth": 0}}, "depth is 0"),
        ({"network": {"width": 10**9}}, "GB"),
        ({"model": "mlp", "network": {"n_heads": 2}}, "n_heads changes nothing for mlp"),
        ({"model": "gru", "network": {"norm": "batch"}}, "norm changes nothing for gru"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wishes, words):
    with pytest.raises(PellucidError) as refused:
        TrainOptions(**wishes)
    assert words in str(refused.value)


@pytest.mark.parametrize("config", [DataOptions, TrainOptions, SampleOptions, CountOptions, SplitRequest, DrawOptions])
def test_a_refusal_names_one_thing(config):
    assert_refused_in_the_singular(options_of(config), types_of(config))


def test_a_refused_setting_of_a_network_is_one_thing():
    settings = network_settings()
    types = {name: type_ for name, (_, type_) in settings.items()}
    assert_refused_in_the_singular({name: declared for name, (declared, _) in settings.items()}, types)


def assert_refused_in_the_singular(options, types):
    """Neither "there is no newlines called" nor "examples is -5"."""
    n_refused = 0
    for name, declared in options.items():
        noun = declared.noun or name.replace("_", " ")
        if declared.choices or types[name] in (int, float):
            with pytest.raises(PellucidError) as refused:
                declared.check(noun, "?", types[name])
            n_refused += 1
            thing = re.match(r"(?:there is no )?(.+?) (?:of|to|in|called|is) ", str(refused.value))
            assert not re.search(r"[^s]s$", thing[1]), str(refused.value)
    assert n_refused


def test_wishes_need_no_torch():
    code = "import sys, pellucid.training.options; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "False"


EARLY = (
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
)


def test_what_is_refused_early_loads_no_torch(run_together):
    for said in run_together(EARLY):
        assert (said.code, "torch" in said.loaded) == (2, False), said
        assert said.err.count("\n") == 1, said


def test_where_a_context_belongs():
    assert windows_of("transformer", {"context": 32}) == (32, {"context": 32})
    assert windows_of("neural-ngram", {"context": 32}) == (0, {})


@pytest.mark.parametrize("name", COUNT_MODELS)
def test_a_count_model_has_no_learning_rate_and_is_on_every_ladder(name):
    words = f"{name} only counts and is no network: .* pellucid train --model {name}"
    for verb in (rate, compare):
        with pytest.raises(PellucidError, match=words):
            verb("my names.txt", **({"model": name} if verb is rate else {"models": [name]}))


IDLE = {
    ("train", "names", "--loss", "hinge"): "--loss changes nothing for a list",
    ("train", "names", "--penalty", "l2"): "--penalty changes nothing for a list",
    ("train", "--resume", ""): "--resume is empty",
    ("train", "names", "--name", ""): "--name is empty",
    ("train", "penguins", "--target", "species", "--strength", "1"): "--strength changes nothing without --penalty",
    ("train", "penguins", "--target", "species", "--momentum", "0.5"): "--momentum changes nothing for adamw",
    ("train", "names", "--matrix-learning-rate", "1", "--optimizer", "sgd"): "changes nothing for sgd",
    ("train", "names", "--steps", "٣"): "--steps is '٣'. Write numbers with the digits 0 to 9 alone",
    ("train", "names", "--seed", "1_0"): "--seed is '1_0'",
    ("sample", "names", "--count", "３"): "--count is '３'",
    ("draw", "dead-unit", "--seed", "٣"): "--seed is '٣'",
    ("derive", "x^2", "x=1", "--h", "٣"): "--h is '٣'",
}


def test_what_would_change_nothing_or_is_no_plain_number_is_refused(run_together, tmp_path):
    for said, says in zip(run_together(IDLE), IDLE.values(), strict=True):
        assert (said.code, said.out) == (2, ""), said
        assert says in said.err
        assert "torch" not in said.loaded
    assert list(tmp_path.iterdir()) == []
