"""Where shapes disagree: the right layer, the two numbers, where they come from, and repairs that really work."""

import ast
import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.figures.words import shapes
from pellucid.figures.words.inspection import broadcast_sentence, inspection_notes
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.shapes import (
    LONGEST_CHAIN,
    chain_lines,
    failure_sentence,
    fed_words,
    origin_place,
    wanted_words,
)
from pellucid.inspection.expression.modules import build_module
from pellucid.inspection.expression.syntax import InputShape, parse_shape
from pellucid.inspection.inspect import guess_inputs, inspect_expression, inspect_module, make_inputs, silent_broadcasts
from pellucid.inspection.instrument.isolation import Snapshot
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.shapes import causes, remedies
from pellucid.inspection.shapes.causes import attempt_forward
from pellucid.inspection.shapes.xray import explain_failure
from pellucid.records import SizeOrigin

MISTAKEN = """nn.Sequential(
    nn.Conv2d(1, 8, 5)
    nn.AvgPool2d(4),
    nn.ReLU(),
    nn.Conv2d(8, 16, 4, padding=1),
    nn.AvgPool2d(2)
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(120, 10),
    nn.Softmax(dim=1))"""


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def tokens(below: int, *sizes: int) -> torch.Tensor:
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes) % below


class View(nn.Module):
    """The commonest mistake of all: a shape of another picture, written into forward."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.first, self.second = nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, images):
        pooled = functional.max_pool2d(self.conv(images).relu(), 2)
        return self.second(self.first(pooled.view(-1, 120)))


class Heads(nn.Module):
    def __init__(self, width=30, n_heads=4):
        super().__init__()
        self.n_heads, self.head_width = n_heads, width // n_heads
        self.queries = nn.Linear(width, width)

    def forward(self, x):
        return self.queries(x).view(*x.shape[:2], self.n_heads, self.head_width).transpose(1, 2)


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.queries(x) @ self.keys(x)


class Beside(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(8, 16), nn.Linear(8, 24), nn.Linear(32, 2)

    def forward(self, x):
        return self.head(torch.cat([self.left(x), self.right(x)], -1))


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 8), nn.Embedding(10, 8)

    def forward(self, x):
        return self.tokens(x) + self.positions(torch.arange(x.shape[1]))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 64, batch_first=True, bidirectional=True), nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


FLAT = "nn.Flatten(), nn.Linear(200, 10)"
PICTURE = (2, 3, 9, 9)

# What is written, the shape that comes, where it fails, and the first repair.
CASES = {
    "features": ("nn.Sequential(nn.Flatten(), nn.Linear(120, 10))", (2, 16, 3, 3), "1", "nn.Linear(144, 10)"),
    "channels": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.Conv2d(16, 4, 3))", PICTURE, "1", "nn.Conv2d(8, 4, 3)"),
    "flatten": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.Linear(200, 10))", PICTURE, "1", FLAT),
    "flatten and features": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.Linear(9, 10))", PICTURE, "1", FLAT),
    "num_features": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.BatchNorm2d(16))", PICTURE, "1", "nn.BatchNorm2d(8)"),
    "rank of a norm": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.BatchNorm1d(8))", PICTURE, "1", "nn.BatchNorm2d(8)"),
    "groups": ("nn.Sequential(nn.Conv2d(3, 8, 5), nn.GroupNorm(3, 9))", PICTURE, "1", "nn.GroupNorm(2, 8)"),
    "layer norm": ("nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(64))", (2, 8), "1", "nn.LayerNorm(32)"),
    "hidden size": ("nn.Sequential(nn.Linear(8, 32), nn.LSTM(16, 4))", (2, 5, 8), "1", "nn.LSTM(32, 4)"),
    "transposed": ("nn.Sequential(nn.Linear(784, 10))", (784, 5), "0", "x.T before nn.Linear(784, 10)"),
    "channels last": ("nn.Conv2d(3, 8, 5)", (2, 9, 9, 3), "", "x.permute(0, 3, 1, 2) before nn.Conv2d(3, 8, 5)"),
    "no channel": ("nn.Conv2d(1, 8, 5)", (6, 9, 9), "", "x.unsqueeze(1) before nn.Conv2d(1, 8, 5)"),
    "no batch": ("nn.Conv2d(1, 8, 5)", (9, 9), "", "x[None, None] before nn.Conv2d(1, 8, 5)"),
    "flat picture": ("nn.Conv2d(1, 8, 5)", (2, 784), "", "nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 8, 5)"),
    "small": ("nn.Sequential(nn.MaxPool2d(8), nn.Conv2d(1, 4, 3))", (2, 1, 16, 16), "1", "an input of (2, 1, 24, 24)"),
    "one row": ("nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))", (1, 4), "1", "a batch of at least two rows"),
    "a tuple": ("nn.Sequential(nn.GRU(8, 16), nn.Linear(16, 2))", (5, 2, 8), "1", "x[0] before nn.Linear(16, 2)"),
    "attention": (
        "nn.Sequential(nn.TransformerEncoderLayer(16, 4))",
        (5, 2, 12),
        "0.self_attn",
        "nn.Linear(12, 16) before TransformerEncoderLayer",
    ),
    "three mistakes": (
        "nn.Sequential(nn.Linear(8, 32), nn.Linear(31, 16), nn.Linear(15, 4), nn.Linear(3, 2))",
        (2, 8),
        "1",
        "nn.Linear(32, 16); nn.Linear(16, 4); nn.Linear(4, 2)",
    ),
}
WRITTEN = {name: case for name, case in CASES.items() if case[3].startswith("nn.") and " before" not in case[3]}


@pytest.mark.parametrize(("text", "sizes", "path", "works"), CASES.values(), ids=CASES)
def test_the_layer_and_a_repair_that_works(text, sizes, path, works):
    model = build_module(text).module
    found = explain_failure(model, (numbers(*sizes),))
    assert found is not None
    assert found.seen.path == path
    assert failure_sentence(found.seen).endswith(f": {works} works")
    assert len(found.seen.repairs) <= 3


@pytest.mark.parametrize(("text", "sizes"), [case[:2] for case in WRITTEN.values()], ids=WRITTEN)
def test_what_is_written_anew_really_runs(text, sizes):
    """Read again from the text alone, without anything of the search for repairs."""
    mended = inspect_expression(build_module(text), (numbers(*sizes),)).mended
    assert mended
    assert attempt_forward(build_module(mended).module, (numbers(*sizes),)).error is None


def test_a_network_with_missing_commas_and_a_wrong_width():
    seen = inspect_expression(build_module(MISTAKEN), (numbers(2, 1, 32, 32),))
    assert [mistake.description for mistake in seen.mistakes] == [
        "a comma is missing between nn.Conv2d(1, 8, 5) and nn.AvgPool2d(...) in line 2 at column 23",
        "a comma is missing between nn.AvgPool2d(2) and nn.ReLU(...) in line 6 at column 20",
    ]
    failure = seen.failure
    assert failure is not None
    assert failure_sentence(failure) == "Linear(120, 10) is fed 144 = 16·3·3 features: nn.Linear(144, 10) works"
    assert (failure.path, failure.kind) == ("7", "Linear")
    assert failure.origin == SizeOrigin((16, 3, 3), shape=(2, 16, 3, 3), layer="Flatten 6", is_given=True)
    assert fed_words(failure) == "144 = 16·3·3 features"
    assert origin_place(failure.origin) == "of (2, 16, 3, 3) that Flatten 6 is given"
    assert wanted_words(failure) == "120 features: in_features of nn.Linear(120, 10)"
    chain = chain_lines(failure)
    assert chain[0] == "input: (2, 1, 32, 32)"
    assert chain[-2:] == ["Flatten 6: (2, 16, 3, 3) -> (2, 144)", "Linear 7: (2, 144) -> fails"]
    assert "mat1 and mat2 shapes cannot be multiplied" in failure.error
    # What was seen up to there, and all parameters: 208 + 2,064 + 1,210 as it was written.
    assert seen.parameters == 3_482
    assert [[str(one) for one in row.outputs] for row in seen.rows if row.path == "6"] == [["(batch 2, features 144)"]]
    mended = inspect_module(build_module(seen.mended).module, (numbers(2, 1, 32, 32),))
    assert mended.failure is None
    assert mended.parameters == 3_722  # counted by hand


@pytest.mark.parametrize(
    ("model", "inputs", "path", "says"),
    [
        (View(), numbers(2, 1, 28, 28), "", "x.flatten(1) in place of x.view(-1, 120); nn.Linear(864, 84) works"),
        (Heads(), numbers(2, 5, 30), "", "n_heads = 3, which divides 30, in place of 4 works"),
        (Scores(), numbers(2, 5, 8), "", "x @ y.mT works"),
        (Beside(), numbers(2, 8), "head", "Linear(32, 2) is fed 40 = 16 + 24 features: nn.Linear(40, 2) works"),
        (Reader(), numbers(2, 7, 8), "head", "Linear(64, 5) is fed 128 = 2·64 features: nn.Linear(128, 5) works"),
        (Positions(), tokens(50, 2, 16), "positions", "is fed the number 15: inputs of at most 10 positions works"),
        (nn.Embedding(10, 4), 13 - tokens(14, 2, 14), "", "is fed the number 13: nn.Embedding(14, 4) works"),
        (nn.Embedding(10, 4), numbers(2, 3), "", "inputs of whole numbers works"),
        (nn.Linear(4, 2), tokens(9, 2, 4), "", "of the type int64: x.float() before nn.Linear(4, 2) works"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_in_modules_of_ones_own(model, inputs, path, says):
    found = explain_failure(model, (inputs,))
    assert found is not None
    assert found.seen.path == path
    assert failure_sentence(found.seen).endswith(says)
    has_code = type(model).__module__ == __name__
    assert found.seen.where.startswith("test_xray.py:") == has_code


def test_the_line_is_the_one_that_failed():
    found = explain_failure(View(), (numbers(2, 1, 28, 28),))
    assert found is not None
    line = int(found.seen.where.rpartition(":")[2])
    with open(__file__, encoding="utf-8") as file:
        assert "pooled.view(-1, 120)" in file.readlines()[line - 1]


def test_what_nobody_can_mend_is_told_without_a_repair():
    class Refusing(nn.Module):
        def forward(self, x):
            raise ValueError("never\nin your life")

    found = explain_failure(nn.Sequential(nn.Linear(4, 2), Refusing()), (numbers(2, 4),))
    assert found is not None
    assert failure_sentence(found.seen) == "Refusing 1 raised ValueError: never"
    assert found.seen.repairs == ()


def test_a_long_way_is_cut():
    layers = [nn.Linear(4, 4) for _ in range(40)]
    found = explain_failure(nn.Sequential(*layers, nn.Linear(5, 1)), (numbers(2, 4),))
    assert found is not None
    assert len(chain_lines(found.seen)) == LONGEST_CHAIN + 1
    assert chain_lines(found.seen)[-1] == "Linear 40: (2, 4) -> fails"


def test_an_error_that_was_caught_is_none():
    class Trying(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrong, self.right = nn.Linear(5, 1), nn.Linear(4, 1)

        def forward(self, x):
            try:
                return self.wrong(x)
            except RuntimeError:
                return self.right(x)

    assert explain_failure(Trying(), (numbers(2, 4),)) is None


def pictures(in_features: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(in_features, 2))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [(pictures(9), numbers(3, 1, 8, 8)), (pictures(144), numbers(3, 1, 8, 8)), (Heads(), numbers(2, 5, 30))],
    ids=["fails", "runs", "own"],
)
def test_looking_changes_nothing(model, inputs):
    model.register_forward_hook(lambda *_: None)
    model.eval()
    state = Snapshot(Specimen(model, (inputs,)))
    weights = copy.deepcopy(model.state_dict())
    inspect_module(model, (inputs,))
    inspect_module(model)
    assert state.restore() == []
    assert all(torch.equal(one, weights[name]) for name, one in model.state_dict().items())


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 1)

    def forward(self, x, targets):
        return (self.head(x) - targets).square().mean()


class Builtin(Loss):
    def forward(self, x, targets):
        return functional.mse_loss(self.head(x), targets)


class Gates(nn.Module):
    """Ordinary broadcasts: a gate, a bias, a mask, a table of angles, distances to a codebook as long as the batch."""

    def __init__(self, width=8):
        super().__init__()
        self.gate, self.bias = nn.Linear(width, 1), nn.Parameter(torch.zeros(width))
        self.codes = nn.Parameter(torch.randn(3, width))

    def forward(self, x):
        angles = torch.arange(x.shape[1]).float()[:, None] * self.bias
        pairs = x[:, None] * torch.ones(x.shape[1], x.shape[1]).tril()
        near = x.square().sum(1, keepdim=True) + self.codes.square().sum(1) - 2 * x @ self.codes.T
        rows = x.unsqueeze(1) - x.unsqueeze(0)
        return torch.sigmoid(self.gate(x)) * x + self.bias + angles.sum() + pairs.sum() + near.sum() + rows.sum()


@pytest.mark.parametrize("model", [Loss(), Builtin()], ids=["minus", "mse_loss"])
def test_rows_against_rows_are_named(model):
    found = silent_broadcasts(model, (numbers(6, 8), numbers(6)))
    assert len(found) == 1
    said = broadcast_sentence(found[0], "Loss")
    assert "(6, 1)" in said
    assert "is (6, 6)" in said
    assert "test_xray.py:" in said
    assert silent_broadcasts(model, (numbers(6, 8), numbers(6, 1))) == []
    assert silent_broadcasts(model, (numbers(1, 8), numbers(1))) != []  # of one row nothing could be seen


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Gates(), numbers(3, 8)),
        (Gates(), numbers(5, 8)),
        (Gates(3), numbers(3, 3)),
        (nn.TransformerEncoderLayer(8, 2, batch_first=True), numbers(5, 5, 8)),
        (nn.TransformerEncoderLayer(8, 2), numbers(5, 5, 8)),
        (nn.Sequential(nn.Conv2d(1, 1, 3), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(9, 1)), numbers(3, 1, 5, 5)),
        (nn.LSTM(3, 3), numbers(3, 3, 3)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_ordinary_broadcasts_are_not_named(model, inputs):
    assert silent_broadcasts(model, (inputs,)) == []


def test_a_broadcast_is_in_the_table():
    seen = inspect_module(Loss(), (numbers(6, 8), numbers(6)))
    assert seen.failure is None
    assert len(seen.broadcasts) == 1
    assert not seen.has_found_something_wrong


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("nn.Linear(7, 2)", "2,7"),
        ("nn.Sequential(nn.ReLU(), nn.Embedding(5, 4))", "2,16:int"),
        ("nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(5408, 10))", "2,3,28,28"),
        ("nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 10))", "2,3,3,3"),
        ("nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU())", "2,3,32"),
        ("nn.LSTM(4, 8)", "16,2,4"),
        ("nn.LSTM(4, 8, batch_first=True)", "2,16,4"),
        ("nn.Bilinear(3, 4, 5)", "2,3 2,4"),
        ("nn.MultiheadAttention(8, 2)", "16,2,8 16,2,8 16,2,8"),
        ("nn.Transformer(8, 2, 1, 1)", "16,2,8 16,2,8"),
        ("nn.BatchNorm2d(6)", "2,6,32,32"),
        ("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2), 1)", "16,2,8 16,2,8"),
        ("nn.LSTMCell(4, 8)", "2,4"),
        ("nn.EmbeddingBag(9, 4)", "2,16:int"),
        ("nn.ReLU()", ""),
    ],
)
def test_an_input_is_guessed_where_it_can_be_told(text, shapes):
    model = build_module(text).module
    guess = guess_inputs(model)
    assert " ".join(map(str, guess.shapes)) == shapes
    assert "guessed" in note_sentences([guess.note])[0]
    if shapes:
        assert attempt_forward(copy.deepcopy(model), make_inputs(guess.shapes, model)).error is None


def test_a_guess_proves_only_what_no_input_could_mend():
    def flattened(in_features: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 8, 5), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(in_features, 10))

    assert inspect_module(flattened(120)).failure is None  # 8·15·1, of a picture that is no square
    assert "proves nothing" in list(inspection_notes(inspect_module(flattened(120))))[1]
    assert inspect_module(flattened(121)).failure is not None  # no multiple of 8 channels
    assert inspect_module(nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))).failure is not None
    assert inspect_module(nn.TransformerDecoderLayer(16, 2), (numbers(5, 2, 16), numbers(5, 2, 17))).failure is not None


def test_without_an_input_there_is_still_a_table():
    seen = inspect_module(nn.Sequential(nn.ReLU(), nn.ReLU()))
    assert [row.path for row in seen.rows] == ["", "0", "1"]
    assert seen.parameters == 0
    assert "none can be guessed" in note_sentences(seen.notes)[0]


def test_lazy_modules_need_an_input_and_get_it():
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    with pytest.raises(PellucidError, match="needs an input shape"):
        inspect_module(lazy)
    assert inspect_module(lazy, (numbers(2, 6),)).parameters == 28


def test_weights_that_are_not_held_are_counted():
    seen = inspect_expression(build_module("nn.Sequential(nn.Linear(100000, 50000), nn.Linear(50000, 2))"), ())
    assert seen.parameters == 100_001 * 50_000 + 100_002
    assert seen.failure is None
    assert any("only shapes were followed" in note for note in note_sentences(seen.notes))


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("1,1,32,32", InputShape((1, 1, 32, 32), "float")),
        (" (2, 16):int ", InputShape((2, 16), "int")),
        ("2,16:int", InputShape((2, 16), "int")),
        ("2x3x8", InputShape((2, 3, 8), "float")),
        ("4:bool", InputShape((4,), "bool")),
        ("4,:double", InputShape((4,), "double")),
    ],
)
def test_shapes_are_read(word, shape):
    assert parse_shape(word) == shape


@pytest.mark.parametrize(
    "word", ["", ",", "2,-1", "2,0", "a,b", "2,3:tokens", "2.5,3", "99999999,99999999", "1e3", "9" * 30]
)
def test_shapes_that_are_none_are_refused(word):
    with pytest.raises(PellucidError) as caught:
        parse_shape(word)
    assert len(str(caught.value)) < 230


def test_every_kind_of_fact_has_its_words():
    """Read off the source: a fact without words would only be seen where shapes disagree in just that way."""
    said = {**shapes.FED, **shapes.WANTED, **shapes.CHANGES, **shapes.REASONS, "operation": ""}
    made = set()
    for module in (causes, remedies):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "fact" and node.args:
                made.update(one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant))
    assert made == set(said)
