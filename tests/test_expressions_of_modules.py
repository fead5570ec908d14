"""Modules written as expressions: the same as torch makes, every mistake with its place, and nothing that is run."""

import pytest
import torch
from torch import nn

from pellucid.errors import ExpressionError, PellucidError, TooLarge
from pellucid.inspection.expression.modules import (
    LARGEST_HELD,
    build_module,
    constructors,
    rebuild_module,
    signature_of,
    spell_module,
)
from pellucid.inspection.expression.syntax import DEEPEST, MOST_CHARACTERS, ConstructorCall, parse_module


def refusal(text: str) -> PellucidError:
    with pytest.raises(PellucidError) as caught:
        build_module(text)
    assert len("pellucid: " + str(caught.value)) <= 240
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("nn.Linear(4, 2)", nn.Linear(4, 2)),
        ("torch.nn.Linear(4, 2, bias=False)", nn.Linear(4, 2, bias=False)),
        ("ReLU()", nn.ReLU()),
        ("net = nn.Conv2d(1, 8, (3, 5), padding='same')", nn.Conv2d(1, 8, (3, 5), padding="same")),
        ("nn.Linear(16*3*3, 2*5 - 1, True)", nn.Linear(144, 9, True)),
        ("nn.Dropout(1e-1)", nn.Dropout(0.1)),
        ("nn.LeakyReLU(-.5)", nn.LeakyReLU(-0.5)),
        ("nn.Flatten(start_dim=-2)", nn.Flatten(-2)),
        ("nn.LayerNorm([3, 4],)", nn.LayerNorm([3, 4])),
        ('nn.RNN(4, 8, 2, "relu", batch_first=True)', nn.RNN(4, 8, 2, "relu", batch_first=True)),
        ("nn.Embedding(10, 4, padding_idx=None)", nn.Embedding(10, 4)),
        (
            "nn.Sequential(\n  nn.Linear(4, 8),  # wide\n  nn.ReLU(),\n  nn.Sequential(nn.Linear(8, 2)),\n)",
            nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 2))),
        ),
        ("nn.ModuleList([nn.Linear(1, 2), nn.ReLU()])", nn.ModuleList([nn.Linear(1, 2), nn.ReLU()])),
        (
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), num_layers=2)",
            nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), num_layers=2),
        ),
    ],
)
def test_it_is_what_torch_makes(text, module):
    made = build_module(text).module
    assert repr(made) == repr(module)
    shapes = [(name, one.shape, one.dtype, one.is_meta) for name, one in made.named_parameters()]
    assert shapes == [(name, one.shape, one.dtype, False) for name, one in module.named_parameters()]


@pytest.mark.parametrize(
    ("text", "column", "says", "fix"),
    [
        ("", 1, "empty", "nn.Linear(4, 2)"),
        ("nn.Linear(4, 2", 10, "never closed", "Add )"),
        ("nn.Linear 4, 2)", 11, "stands behind the end", "nn.Sequential"),
        ("nn.ReLU())", 10, "never opened", "Take it away"),
        ("nn.Linear(4,,2)", 13, "',' stands where", "Add what is missing"),
        ("nn.ReLU()()", 10, "'(' stands behind", "nn.Sequential"),
        ("nn.Linear(4, 2]", 15, "']' stands where a comma or ) is wanted", "Take it away"),
        ("nn.Linear(4, '2)", 14, "never closed", "Add '"),
        ("nn.Linaer(4, 2)", 1, "no module called 'Linaer'", "nn.Linear"),
        ("nn.Sequential(nn.relu())", 15, "no module called 'relu'", "nn.ReLU"),
        ("nn.Sequential(nn.ReLU)", 15, "a class, and no layer yet", "nn.ReLU(...)"),
        ("nn.Linear(4)", 1, "missing a required argument: 'out_features'", "in_features, out_features"),
        ("nn.GRU(4)", 1, "'hidden_size'", "input_size, hidden_size"),
        ("nn.Linear(4, 2, bais=True)", 22, "no argument called 'bais'", "bias"),
        ("nn.Linear(4, out_features=2, 3)", 30, "behind one with a name", "Put it first"),
        ("nn.Linear(4, 2, bias=True, bias=True)", 33, "given twice", "Keep one"),
        ("nn.Linear(4, nn.ReLU() + 2)", 14, "no number", "comma"),
        ("nn.Linear(4, -nn.ReLU())", 14, "no number", "Take it away"),
        ("nn.Linear(4, 4 // 0)", 16, "division by 0", "another"),
        ("nn.Linear(2**3, 4)", 13, "'*' stands where", "Add"),
        ("nn.Linear(99999999999999, 4)", 11, "larger than any layer", "smaller"),
        ("nn.Linear(999999999999*999999999999, 4)", 23, "larger than any layer", "smaller"),
        ("nn.MultiheadAttention(64, 7)", 1, "num_heads is 7", "num_heads=8 works"),
        ("nn.TransformerEncoderLayer(30, 4)", 1, "nhead is 4", "nhead=3 works"),
        ("nn.GroupNorm(3, 16)", 1, "num_groups is 3", "num_groups=2 works"),
        ("nn.Conv2d(6, 9, 3, groups=4)", 1, "groups is 4", "groups=3 works"),
        ("nn.Sequential(3)", 1, "not a Module subclass", "modules"),
        ("[nn.ReLU()]", 1, "no module", "nn.Linear"),
        ("nn.Linear(4, 2) if True", 17, "'if' stands behind", "nn.Sequential"),
        ("__import__('os')", 1, "no module called", "file.py:name"),
        ("nn.Linear.__class__(4)", 1, "no module called", "file.py:name"),
        ("F.relu(nn.ReLU())", 1, "no module called 'F.relu'", "file.py:name"),
        ("nn.Module()", 1, "no module called 'Module'", ""),
        ("nn.Linear(4; 2)", 12, "(U+003B) has no meaning", ""),
        ("nn.Linear(4, 2)\nnn.ReLU()", 1, "stands behind the end", "nn.Sequential"),
        ("nn.Linear(4, “2”)", 14, "has no meaning", "plain quotes"),
    ],
)
def test_a_mistake_has_its_column(text, column, says, fix):
    error = refusal(text)
    assert isinstance(error, ExpressionError)
    assert (error.column, says in error.what, fix in error.fix) == (column, True, True), str(error)
    assert error.excerpt().splitlines()[-1] == " " * (column + 1) + "^"


def test_missing_commas_are_named_and_read_over():
    text = "nn.Sequential(\n  nn.Conv2d(1, 8, 5)\n  nn.AvgPool2d(4), nn.Conv2d(8 16, 4)\n  nn.ReLU() nn.Flatten())"
    written = parse_module(text)
    assert [error.where for error in written.mistakes] == [
        "in line 2 at column 21",
        "in line 3 at column 31",
        "in line 3 at column 38",
        "in line 4 at column 12",
    ]
    assert "between nn.Conv2d(1, 8, 5) and nn.AvgPool2d(...)" in written.mistakes[0].what
    assert written.mistakes[0].excerpt() == "    nn.Conv2d(1, 8, 5)\n                      ^"
    mended = parse_module(written.mended_text)
    assert not mended.mistakes
    assert isinstance(mended.root, ConstructorCall)
    assert [node.name for _, node in mended.root.arguments] == [
        *("nn.Conv2d", "nn.AvgPool2d", "nn.Conv2d", "nn.ReLU", "nn.Flatten"),
    ]
    assert repr(build_module(text).module) == repr(build_module(written.mended_text).module)


def test_every_layer_knows_its_place():
    text = "nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU()))"
    made = build_module(text)
    assert {path: text[slice(*place)] for path, place in made.places.items()} == {
        "": text,
        "0": "nn.Linear(4, 8)",
        "1": "nn.Sequential(nn.ReLU())",
        "1.0": "nn.ReLU()",
    }


def test_the_same_weights_every_time_and_the_users_chance_untouched():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, other = (build_module("nn.Linear(4, 2)").module.weight for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_too_large_is_not_made():
    assert not build_module(f"nn.Linear({LARGEST_HELD // 4}, 2)").is_held
    made = build_module("nn.Embedding(1000000000000, 100000)")
    assert not made.is_held
    assert sum(one.numel() for one in made.module.parameters()) == 10**17
    for text in ("nn.LSTM(4, 4, num_layers=1000000000)", "nn.LSTM(4, 4, 1000000000)"):
        assert isinstance(refusal(text), TooLarge)
    layer = "nn.TransformerEncoderLayer(8, 2)"
    assert isinstance(refusal(f"nn.TransformerEncoder({layer}, 1000000)"), TooLarge)


@pytest.mark.parametrize(
    "text",
    [
        *("(" * 100_000, "[" * (DEEPEST + 1), "-" * 100_000, "x" * (MOST_CHARACTERS + 1), "nn." * 60_000, "1" * 5_000),
        *("1+" * 99_000 + "1", "nn." * 60_000 + "x", "nn.Linear(4, 04)", "nn.Linear(4=2)", "nn.Linear(a.b=2)"),
    ],
)
def test_hostile_texts_are_refused_at_once(text):
    refusal(text)


def test_lazy_layers_are_made_without_their_shapes():
    assert isinstance(build_module("nn.Sequential(nn.LazyLinear(4), nn.ReLU())").module[0], nn.LazyLinear)


def test_many_layers_are_read():
    text = f"nn.Sequential({', '.join(['nn.ReLU()'] * 2_000)})"
    assert len(build_module(text).module) == 2_000


def test_every_constructor_has_its_arguments():
    """None hides them behind *args but those that take any number of modules."""
    open_ended = {
        name
        for name, kind in constructors().items()
        if any(one.kind is one.VAR_POSITIONAL for one in signature_of(kind).parameters.values())
        and kind.__init__ is not nn.Module.__init__  # which refuses every argument
    }
    assert open_ended <= {"Sequential", "Identity", "NLLLoss2d"}
    assert len(constructors()) > 100


@pytest.mark.parametrize(
    "text",
    [
        "nn.Linear(120, 10)",
        "nn.Linear(4, 2, bias=False)",
        "nn.Conv2d(1, 8, 5, stride=2, padding=1, bias=False)",
        "nn.Conv2d(4, 8, (3, 5), groups=2)",
        "nn.ConvTranspose2d(4, 8, 3, stride=2)",
        "nn.BatchNorm2d(8)",
        "nn.GroupNorm(2, 8)",
        "nn.LayerNorm(8)",
        "nn.RMSNorm((2, 3))",
        "nn.Embedding(10, 4, padding_idx=0)",
        "nn.LSTM(4, 8, num_layers=2, batch_first=True, bidirectional=True)",
        "nn.GRU(4, 8)",
        "nn.RNN(4, 8, nonlinearity='relu')",
        "nn.MultiheadAttention(16, 4, batch_first=True)",
        "nn.MaxPool2d(2)",
    ],
)
def test_what_is_spelled_is_what_was_written(text):
    module = build_module(text).module
    assert spell_module(module) == text
    assert repr(rebuild_module(module)) == repr(module)
