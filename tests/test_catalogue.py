"""The catalogue of networks: one row each, and everything that lists networks follows from the rows."""

import dataclasses
import subprocess
import sys

import pytest

from pellucid.data.kinds import KINDS
from pellucid.errors import PellucidError
from pellucid.layers import feed_forward, norms
from pellucid.layers.positions import ENCODINGS, POSITIONS, build_positions
from pellucid.models import settings
from pellucid.models.catalogue import NETWORKS, compared_networks, default_network, find_network, networks_for
from pellucid.models.examples import cnn, vit
from pellucid.models.examples.configs import ExampleShape
from pellucid.models.pairs import encoder_decoder
from pellucid.options import flag_of, options_of, types_of

BY_THE_DATA = ("vocab_size", "longest_source", "longest_target", "numbers", "categories", "outputs", "rotary_base")


def test_every_kind_of_data_has_its_networks():
    for kind in KINDS:
        assert default_network(kind).name in networks_for(kind)
        assert set(compared_networks(kind)) <= set(networks_for(kind))
        assert len([card for card in NETWORKS if kind in card.default_for]) == 1
        assert len(networks_for(kind)) == len([card for card in NETWORKS if kind in card.kinds])  # no name twice


@pytest.mark.parametrize("card", NETWORKS, ids=lambda card: f"{card.name}-{card.kinds[0]}")
def test_everything_that_a_user_may_set_is_declared(card):
    """Several numbers for one setting, as the kernels of a cnn, are for Python alone."""
    fields = [field for field in dataclasses.fields(card.config) if field.name not in BY_THE_DATA]
    assert list(options_of(card.config)) == [field.name for field in fields if "tuple" not in str(field.type)]


def test_a_setting_of_one_name_has_one_help_one_flag_and_one_type():
    found: dict[str, set[object]] = {}
    for card in NETWORKS:
        for name, declared in options_of(card.config).items():
            assert declared.help.endswith("."), name
            found.setdefault(name, set()).add((declared.help, flag_of(name, declared), types_of(card.config)[name]))
    assert {name: said for name, said in found.items() if len(said) > 1} == {}
    assert set(found) >= set(settings.SETTINGS)


def test_the_choices_are_those_of_the_layers():
    assert tuple(feed_forward.ACTIVATIONS) == settings.ACTIVATIONS
    assert norms.NORMS == settings.NORMS
    assert tuple(encoder_decoder.ENCODER_BLOCKS) == tuple(encoder_decoder.DECODER_BLOCKS) == settings.FORMS
    assert tuple(vit.PROJECTIONS) == settings.SETTINGS["projection"].choices
    assert tuple(cnn.POOLS) == settings.SETTINGS["pool"].choices
    assert tuple(cnn.HEADS) == settings.SETTINGS["head"].choices


@pytest.mark.parametrize("name", POSITIONS)
def test_every_position_encoding_can_be_built(name):
    encoding = build_positions(name, length=8, width=16, n_heads=4, is_causal=True)
    assert type(encoding).__name__ == ENCODINGS[name].split(":")[1]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("cnn", "list", "cnn reads images, and the data are a list. Choose one of neural-ngram"),
        ("rnn", "images", "rnn reads lists and texts, and the data are images"),
        ("encoder", "table", "encoder reads pairs, and the data are a table"),
        ("vitt", "images", "Perhaps you meant vit"),
    ],
)
def test_a_network_for_other_data_is_refused(name, kind, words):
    with pytest.raises(PellucidError) as refused:
        find_network(name, kind)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind", "size", "shape", "n_parameters"),
    [
        ("transformer", "list", "medium", (27, 16), 200_064),
        ("cnn", "images", "tiny", (ExampleShape((1, 32, 32), (), 10),), 3_722),
        ("cnn", "images", "small", (ExampleShape((1, 8, 8), (), 10),), 29_066),
        ("residual-cnn", "images", "small", (ExampleShape((1, 8, 8), (), 10),), 19_706),
        ("vit", "images", "small", (ExampleShape((1, 8, 8), (), 10),), 27_274),
        ("encoder-decoder", "pairs", "tiny", (11, 8, 8), 8_107),
        ("encoder", "pairs", "tiny", (11, 8, 8), 7_099),
        ("rnn-encoder-decoder", "pairs", "tiny", (11, 8, 8), 19_755),
        ("transformer", "pairs", "tiny", (11, 8, 8), 6_496),
    ],
)
def test_sizes_have_the_parameters_that_are_said(name, kind, size, shape, n_parameters):
    card = find_network(name, kind)
    assert card.build(card.of_size(size, *shape)).n_parameters == n_parameters


def test_the_catalogue_needs_neither_torch_nor_numpy():
    code = "import sys, pellucid.models.catalogue; print('torch' in sys.modules, 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "False False"


ADDED_NETWORK = """
from dataclasses import dataclass

from torch import nn

from pellucid.models.contracts import ExampleModel
from pellucid.models.settings import setting
from pellucid.options import check_options, option


@dataclass(frozen=True)
class StripesConfig:
    numbers: tuple[int, ...]
    categories: tuple[int, ...]
    outputs: int
    width: int = setting("width", 4)
    stripes: int = option(3, "Number of stripes of the test network.", minimum=1)

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def of_size(cls, size, inputs):
        return cls(inputs.numbers, inputs.categories, inputs.outputs)


class Stripes(ExampleModel):
    def __init__(self, config):
        super().__init__()
        self.head = nn.Linear(config.numbers[0], config.outputs)

    def forward(self, numbers, codes):
        return self.head(numbers)
"""
WITH_A_NETWORK = """
import sys
from pellucid.models import catalogue
from stripes import StripesConfig
catalogue.NETWORKS = (*catalogue.NETWORKS, catalogue.NetworkCard(
    name="stripes", summary="a network of a test", kinds=("table",), config=StripesConfig, network="stripes:Stripes",
    tiny=StripesConfig((5,), (), 3), compared_on=("table",)))
from pellucid.models.examples.configs import ExampleShape
card = catalogue.find_network("stripes", "table")
assert "stripes" in catalogue.compared_networks("table")
assert card.build(card.of_size("tiny", ExampleShape((5,), (), 3))).n_parameters == 18
"""


def run_python(code: str, folder: object) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=folder)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_network_is_its_file_and_one_row(tmp_path):
    """Then it is compared, can be asked for by name, and its own setting is an option of train."""
    (tmp_path / "stripes.py").write_text(ADDED_NETWORK, encoding="utf-8")
    help_of = "from pellucid.cli import main\nmain(['train', '--help-all'])"
    assert "--stripes INTEGER" in run_python(WITH_A_NETWORK + help_of, tmp_path)
    refused = "from pellucid.errors import PellucidError\ntry: catalogue.find_network('stripe', 'table')\n"
    assert "Perhaps you meant stripes" in run_python(
        WITH_A_NETWORK + refused + "except PellucidError as error: print(error)", tmp_path
    )


def test_a_position_encoding_is_its_class_and_one_row(tmp_path):
    """Then it is a choice of `positions` everywhere, and a transformer can be built with it."""
    (tmp_path / "halves.py").write_text(
        "import torch\nfrom pellucid.layers.positions.encodings import Positions\n\n\n"
        "class Halves(Positions):\n    acts_on = 'input'\n\n"
        "    def embeddings(self, start, end):\n        return torch.arange(start, end)[:, None] / 2\n",
        encoding="utf-8",
    )
    code = (
        "import torch\nfrom pellucid.layers import positions\n"
        "positions.ENCODINGS['halves'] = 'halves:Halves'\npositions.POSITIONS = tuple(positions.ENCODINGS)\n"
        "from pellucid.models.catalogue import find_network\n"
        "import dataclasses\ncard = find_network('transformer', 'list')\n"
        "model = card.build(dataclasses.replace(card.tiny, positions='halves')).eval()\n"
        "tokens = torch.tensor([[0, 1, 2]])\n"
        "logits, _ = model.read(tokens, model.begin(1))\n"
        "assert torch.allclose(logits, model(tokens)[:, -1])\n"
        "from pellucid.cli import main\nmain(['train', '--help-all'])"
    )
    assert "halves" in run_python(code, tmp_path)
