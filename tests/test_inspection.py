"""The table of any module: its rows, what it costs, and that looking changes nothing."""

import dataclasses
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.figures.words.inspection import (
    cost_notes,
    field_sentence,
    row_notes,
    scaling_sentence,
    versus_cells,
    versus_sentences,
)
from pellucid.figures.words.notes import note_sentences
from pellucid.inspection.instrument.isolation import borrow_module
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.table.cost_scaling import cost_scaling, polynomial
from pellucid.inspection.table.module_table import table_of_trace, tabulate_module
from pellucid.inspection.table.receptive_field import FieldAxis, through
from pellucid.inspection.table.trace import ForwardFailed, trace_forward
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records.inspection import CostScaling, Inspection, ModuleRow, NamedShape, Versus


def row(seen: Inspection, path: str) -> ModuleRow:
    return next(one for one in seen.rows if one.path == path)


def shapes(*written: str) -> tuple[NamedShape, ...]:
    """Shapes as people write them: "(batch 2, 4, features 16)"."""
    pairs = [[size.rpartition(" ")[::2] for size in one.strip("()").split(", ")] for one in written]
    return tuple(NamedShape(tuple(int(size) for _, size in one), tuple(name for name, _ in one)) for one in pairs)


def encoder(depth: int, width: int, n_heads: int = 2, *, batch_first: bool = True) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(width, n_heads, 4 * width, dropout=0.0, batch_first=batch_first)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def causal(n: int) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(n)


# --- rows -------------------------------------------------------------------------------------------------------------


class Backwards(nn.Module):
    """Registered in one order, called in another; one part twice, one never."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.unused = nn.Linear(3, 3)
        self.twice = nn.Linear(4, 4)
        self.first = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.twice(self.twice(self.first(x))))


def test_rows_come_in_the_order_of_first_calls():
    seen = tabulate_module(Backwards(), torch.randn(5, 3), name="backwards")
    assert (seen.name, seen.kind) == ("backwards", "Backwards")
    assert [(one.path, one.n_calls) for one in seen.rows] == [
        *(("", 1), ("first", 1), ("twice", 2), ("last", 1), ("unused", 0)),
    ]
    assert row(seen, "twice").flops_by_formula == row(seen, "twice").flops_by_operation == 2 * (2 * 5 * 4 * 4)
    assert (row(seen, "unused").n_calls, row(seen, "unused").readers) == (0, ())
    assert row(seen, "unused").parameters == 12
    assert seen.parameters == 10 + 12 + 20 + 16
    assert seen.sequential_depth == 4


def test_time_is_shared_out():
    seen = tabulate_module(nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 8)), torch.randn(64, 64))
    assert seen.seconds > 0
    assert all(0 <= one.share_of_time <= 1 for one in seen.rows)
    assert row(seen, "").share_of_time > row(seen, "0").share_of_time > 0
    assert row(seen, "0").seconds + row(seen, "1").seconds <= row(seen, "").seconds


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embedding.weight
        self.again = self.head  # the same module under a second name

    def forward(self, tokens: Tensor) -> Tensor:
        return self.again(self.embedding(tokens))


def test_tied_parameters_count_once_and_are_named():
    model = Tied()
    seen = tabulate_module(model, torch.zeros(2, 3, dtype=torch.long))
    assert row(seen, "head").tied == (("weight", "embedding.weight"),)
    assert row(seen, "head").parameters == 7  # the bias
    assert seen.parameters == sum(p.numel() for p in model.parameters()) == 7 * 4 + 7
    assert seen.parameters_with_ties == 3 * 7 * 4 + 2 * 7
    assert seen.sequential_depth == 2


def test_what_is_counted_of_parameters_and_buffers():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    model[0].weight.requires_grad_(False)
    seen = tabulate_module(model, torch.randn(2, 3, dtype=torch.float64))
    assert (seen.parameters, seen.trainable, seen.buffers, seen.parameter_bytes) == (24, 12, 9, 24 * 8)


def test_a_reader_of_anothers_weights_is_named():
    seen = tabulate_module(nn.MultiheadAttention(8, 2, batch_first=True), (torch.randn(2, 3, 8),) * 3)
    assert list(row_notes(row(seen, "out_proj"))) == ["never called, read by the whole"]


class Functional(nn.Module):
    """A product that no formula knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.known = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.known(x @ self.weight)


def test_what_has_no_formula_is_not_guessed():
    seen = tabulate_module(Functional(), torch.randn(2, 3))
    assert row(seen, "").flops_by_formula is None
    assert list(row_notes(row(seen, ""))) == ["no formula: 48 FLOPs of its own by operation"]
    assert (seen.flops_by_formula, seen.flops_by_operation) == (80, 128)
    assert list(cost_notes(seen)) == ["by formula it is at least 80 FLOPs: there is none for Functional"]


class Twofold(nn.Linear):
    """It inherits a formula's kind, and computes twice as much; what it calls itself does not matter."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + super().forward(x)


class Sly(nn.Linear):
    """No forward of its own, but a hook that multiplies: the formula cannot know, the operations do."""


def test_a_subclass_with_its_own_forward_has_no_formula():
    seen = tabulate_module(Twofold(3, 4), torch.randn(2, 3))
    assert (seen.flops_by_formula, seen.flops_by_operation) == (None, 96)


def test_two_counts_that_disagree_are_both_shown():
    model = Sly(3, 3)
    model.register_forward_hook(lambda module, args, out: out @ module.weight)
    seen = tabulate_module(model, torch.randn(2, 3))
    assert (seen.flops_by_formula, seen.flops_by_operation) == (36, 72)
    assert list(row_notes(row(seen, ""))) == ["the two counts disagree: 36 by formula, 72 by operation"]
    assert list(cost_notes(seen)) == ["the two counts disagree: 36 FLOPs by formula, 72 by operation"]


def test_products_without_a_rule_are_named():
    class Fourier(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.rfft(x).abs()

    assert tabulate_module(Fourier(), torch.randn(2, 8)).uncounted == ("_fft_r2c",)


# --- names of dimensions ----------------------------------------------------------------------------------------------


def test_dimensions_are_named_where_they_can_be_told():
    convolutions = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
    seen = tabulate_module(convolutions, torch.randn(2, 1, 8, 8))
    assert row(seen, "").inputs == shapes("(batch 2, channels 1, height 8, width 8)")
    assert row(seen, "1").outputs == shapes("(batch 2, channels 4, height 6, width 6)")
    assert row(seen, "3").outputs == row(seen, "4").inputs == shapes("(batch 2, features 36)")
    recurrent = tabulate_module(nn.GRU(3, 5), torch.randn(7, 2, 3))
    assert row(recurrent, "").inputs == shapes("(time 7, batch 2, features 3)")
    assert row(recurrent, "").outputs == shapes("(time 7, batch 2, features 5)", "(layers 1, batch 2, features 5)")
    seen = tabulate_module(encoder(1, 8, batch_first=False), torch.randn(7, 2, 8))
    assert row(seen, "").inputs == shapes("(time 7, batch 2, features 8)")


def test_a_name_needs_the_right_size():
    """A linear layer that reads (batch · time, features) has no batch, and patches are no time."""

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.linear = nn.Linear(3, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.linear(self.embedding(tokens).flatten(0, 1))

    seen = tabulate_module(Folded(), torch.zeros(2, 7, dtype=torch.long))
    assert row(seen, "").inputs == shapes("(batch 2, time 7)")
    assert row(seen, "embedding").outputs == shapes("(batch 2, time 7, features 3)")
    assert row(seen, "linear").inputs == shapes("(batch·time 14, features 3)")

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 8)

        def forward(self, images: Tensor) -> Tensor:
            return self.linear(images.unfold(2, 4, 4).unfold(3, 4, 4).reshape(len(images), -1, 16))

    assert row(tabulate_module(Patches(), torch.randn(2, 1, 8, 8)), "linear").inputs == shapes(
        "(batch 2, 4, features 16)"
    )


# --- outputs of every kind --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    scores: Tensor
    state: Tensor | None


@dataclasses.dataclass
class Answer:
    logits: Tensor
    hidden: list[Tensor]


KINDS: dict[str, tuple[Callable[[Tensor], object], int]] = {
    "tensor": (lambda x: x, 1),
    "none": (lambda x: None, 0),
    "nothing with shape": (lambda x: 3.0, 0),
    "tuple": (lambda x: (x, (x, None)), 2),
    "dict": (lambda x: {"logits": x, "past": None}, 1),
    "named tuple": (lambda x: Pair(x, None), 1),
    "record": (lambda x: Answer(x, [x, x]), 3),
    "scalar": (lambda x: x.sum(), 1),
    "string": (lambda x: "done", 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_every_kind(kind):
    made, n_tensors = KINDS[kind]

    class Maker(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> object:
            return made(self.linear(x))

    seen = tabulate_module(Maker(), torch.randn(2, 3))
    assert len(row(seen, "").outputs) == n_tensors
    assert seen.flops_by_operation == 36


def test_tensors_are_found_in_order():
    tensors = [torch.tensor(float(i)) for i in range(4)]
    value = (tensors[0], {"a": [tensors[1], None, "x"]}, Answer(tensors[2], [tensors[3]]))
    assert [int(one) for one in tensors_in(value)] == [0, 1, 2, 3]


def test_activation_memory_counts_what_is_new():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(inplace=True), nn.Unflatten(1, (2, 4)), nn.Flatten())
    seen = tabulate_module(model, torch.randn(5, 3))
    assert row(seen, "1").activation_bytes == 5 * 8 * 4
    assert seen.activation_bytes == 5 * 8 * 4  # of the linear layer alone: the others write or look at the same memory


# --- whole models -----------------------------------------------------------------------------------------------------


def test_sequential_depth_is_the_longest_way():
    class Branches(nn.Module):
        """Three in a row beside one; what goes around waits for nobody."""

        def __init__(self) -> None:
            super().__init__()
            self.long = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)))
            self.short = nn.Linear(3, 3)
            self.head = nn.Linear(3, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.long(x) + self.short(x) + x)

    assert tabulate_module(Branches(), torch.randn(2, 3)).sequential_depth == 4
    # Projections in, projection out, two norms, two layers of feed-forward.
    assert tabulate_module(encoder(3, 8), torch.randn(2, 5, 8)).sequential_depth == 3 * 6
    # A recurrent layer waits for itself at every step.
    assert tabulate_module(nn.LSTM(3, 4, num_layers=2), torch.randn(7, 2, 3)).sequential_depth == 14
    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 3), torch.randn(2, 3)])
    assert tabulate_module(nn.GRU(3, 4), (packed,)).sequential_depth == 5


def test_steps_of_a_cell_wait_for_one_another():
    class Rolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 4)
            for step in x.unbind(1):
                state = self.cell(step, state)
            return state

    seen = tabulate_module(Rolled(), torch.randn(2, 6, 3))
    assert seen.sequential_depth == 6
    assert row(seen, "cell").n_calls == 6


class Attend(nn.Module):
    """One head, written out or fused; 8 numbers for keys, 6 for values."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.project = nn.Linear(5, 8 + 8 + 6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).split([8, 8, 6], dim=-1)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        if self.how == "open":
            return (q @ k.mT).softmax(-1) @ v
        if self.how == "written":
            return (q @ k.mT / 8**0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ v
        q, k, v = q[:, None], k[:, None], v[:, None]
        if self.how == "flag":
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)


@pytest.mark.parametrize("how", ["written", "flag", "mask"])
def test_the_cache_holds_keys_and_values_of_causal_attention(how):
    assert tabulate_module(Attend(how), torch.randn(3, 7, 5)).cache_bytes_per_token == (8 + 6) * 4


def test_without_causal_attention_nothing_is_known_of_a_cache():
    assert tabulate_module(Attend("open"), torch.randn(3, 7, 5)).cache_bytes_per_token is None
    assert tabulate_module(nn.Linear(3, 4), torch.randn(2, 3)).cache_bytes_per_token is None


def test_caches_of_whole_models():
    seen = tabulate_module(encoder(3, 8), (torch.randn(2, 5, 8), causal(5)))
    assert seen.cache_bytes_per_token == 3 * 2 * 8 * 4
    ours = Transformer(TransformerConfig(vocab_size=7, context=8, width=16, depth=2, n_heads=2))
    memory = ours.begin(batch=1)
    kept = sum(past[..., :1, :].numel() * past.element_size() for past in memory.kv_cache)
    assert tabulate_module(ours, torch.zeros(2, 6, dtype=torch.long)).cache_bytes_per_token == kept


def test_receptive_fields_by_formula_and_by_gradients():
    lenet = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3), nn.AvgPool2d(2))
    # 5, then 2 in steps of 1: 6; 3 in steps of 2: 10; 2 in steps of 2: 12.
    says = field_sentence(tabulate_module(lenet, torch.randn(4, 1, 24, 24)).receptive_field)
    assert says == "12×12 places of the input, 4×4 from one to the next, after 4 convolutions and poolings"
    dilated = nn.Sequential(nn.Conv1d(2, 4, 2), nn.Conv1d(4, 4, 2, dilation=2), nn.Conv1d(4, 4, 2, dilation=4))
    says = field_sentence(tabulate_module(dilated, torch.randn(2, 2, 20)).receptive_field)
    assert says == "8 places of the input, 1 from one to the next, after 3 convolutions and poolings"
    assert tabulate_module(nn.Linear(3, 3), torch.randn(2, 3)).receptive_field is None


def test_a_field_that_cannot_be_filled_is_shown_both_ways():
    """A weight of zero sees nothing: by formula three places, by gradients the two that count."""
    blind = nn.Conv1d(1, 1, 3)
    with torch.no_grad():
        blind.weight[..., 0] = 0
    says = field_sentence(tabulate_module(blind, torch.randn(2, 1, 9)).receptive_field)
    assert says.endswith("; by gradients the middle sees 2, by formula 3")


def test_windows_that_enlarge_have_no_field_by_formula():
    model = nn.Sequential(nn.Conv1d(1, 1, 3), nn.ConvTranspose1d(1, 1, 2, stride=2), nn.Conv1d(1, 1, 3))
    says = field_sentence(tabulate_module(model, torch.randn(2, 1, 12)).receptive_field)
    assert says.startswith("not known by formula, since something is enlarged; by gradients ")


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (5, 2, 2, 1), (3, 1, 0, 2)])
def test_the_arithmetic_of_windows_is_torchs(kernel, stride, padding, dilation):
    """Every place of an output against the places of the input that its gradient touches."""
    first, second = nn.Conv1d(1, 1, kernel, stride, padding, dilation), nn.Conv1d(1, 1, 3, padding=1)
    axis = through(through(FieldAxis(), kernel, stride, padding, dilation), 3, padding=1)
    x = torch.randn(1, 1, 17, requires_grad=True)
    out = second(first(x))
    for place in range(out.shape[-1]):
        (slope,) = torch.autograd.grad(out[0, 0, place], x, retain_graph=True)
        touched = slope.flatten().nonzero().flatten()
        assert axis.size_seen(place, 17) == touched.max() - touched.min() + 1


def test_cost_by_length_and_where_attention_overtakes():
    seen = tabulate_module(encoder(2, 8), torch.randn(2, 8, 8))
    assert seen.scaling is not None
    assert seen.scaling.lengths == (2, 4, 6, 8, 16, 32)
    # Of each block 24·d² for a position and 4·d for a pair of them; they meet at n = 6·d.
    assert seen.scaling.flops == tuple(2 * 2 * (24 * 64 * n + 4 * 8 * n * n) for n in seen.scaling.lengths)
    assert (
        scaling_sentence(seen.scaling)
        == "a sequence of n costs 3,072·n + 64·n² FLOPs: n² overtakes the rest from n = 49"
    )
    with torch.device("meta"):
        without_numbers = tabulate_module(encoder(2, 8), torch.empty(2, 8, 8))
    assert without_numbers.scaling == seen.scaling
    masked = tabulate_module(encoder(2, 8), (torch.randn(2, 8, 8), causal(8)))
    assert masked.scaling is not None
    assert masked.scaling.polynomial == seen.scaling.polynomial
    tokens = (torch.zeros(2, 8, dtype=torch.long),)
    ours = Transformer(TransformerConfig(vocab_size=7, context=8, width=16, depth=1, n_heads=2))
    ways = [cost_scaling(ours, tokens, axes=[1], batch=2, is_quick=is_quick) for is_quick in (True, False)]
    assert ways[0] == ways[1] is not None


def test_a_context_bounds_the_lengths():
    model = Transformer(TransformerConfig(vocab_size=7, context=8, width=16, depth=1, n_heads=2))
    seen = tabulate_module(model, torch.zeros(2, 8, dtype=torch.long))
    assert seen.scaling is not None
    assert seen.scaling.lengths == (2, 4, 6, 8)


def test_only_what_has_time_is_lengthened():
    assert tabulate_module(nn.Linear(3, 4), torch.randn(2, 3)).scaling is None
    assert tabulate_module(nn.Conv2d(1, 2, 3), torch.randn(2, 1, 8, 8)).scaling is None


def test_polynomials():
    assert polynomial({n: 5 + 3 * n + 7 * n * n for n in (1, 2, 4, 8)}) == (5, 3, 7)
    assert polynomial({n: n**3 for n in (1, 2, 4, 8, 16)}) is None
    assert scaling_sentence(CostScaling((1,), (1,), None, None)) == "the cost does not follow a + b·n + c·n²"
    assert scaling_sentence(CostScaling((1,), (7,), (5.0, 2.0, 0.0), None)) == "a sequence of n costs 5 + 2·n FLOPs"


@pytest.mark.slow
def test_eight_wide_layers_against_thirty_two_narrow_ones():
    """The sources' A and B: the same L·d², which is what both counts follow, and not the same depth or cache."""
    assert 8 * 1024**2 == 32 * 512**2 == 8_388_608
    seen = {}
    for name, depth, width in (("A", 8, 1024), ("B", 32, 512)):
        with torch.device("meta"):  # shapes are enough to count
            model, stream = encoder(depth, width, 8), torch.empty(1, 16, width)
        seen[name] = tabulate_module(model, stream, name)
        # Of each layer: 4 matrices d × d and 4 vectors, two of d × 4d with their biases, and two norms.
        assert seen[name].parameters == depth * (4 * width**2 + 4 * width + 8 * width**2 + 5 * width + 4 * width)
        by_hand = 24 * 8_388_608 * 16 + depth * 4 * 16 * 16 * width
        assert seen[name].flops_by_formula == seen[name].flops_by_operation == by_hand
    rows = {what: cells for what, *cells in map(versus_cells, Versus.of(seen["A"], seen["B"]).rows)}
    assert rows["parameters"] == ["100,769,792", "100,876,288", "1.00×"]
    assert rows["sequential depth"] == ["48", "192", "4.00×"]
    assert rows["FLOPs at n = 64"] == ["13,019,119,616", "13,153,337,344", "1.01×"]
    assert rows["milliseconds"] == ["not known", "not known", ""]


def test_latency_is_measured():
    seen = [
        tabulate_module(encoder(depth, width).eval(), torch.randn(1, 8, width), name)
        for name, depth, width in (("wide", 2, 64), ("deep", 8, 32))
    ]
    compared = Versus.of(*seen)
    ratios = {row.quantity: row.ratio for row in compared.rows}
    assert (ratios["milliseconds"] or 0.0) > 0
    says = list(versus_sentences(compared))
    assert says[0] == f"wide has {seen[0].parameters:,} parameters, deep {seen[1].parameters:,}"
    assert says[1].startswith("deep waits for 48 modules in a row, wide for 12; a forward takes it ")


# --- nothing is changed -----------------------------------------------------------------------------------------------


class Stateful(nn.Module):
    """Writes on itself in every way that a forward can."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4, max_norm=0.1)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.conv = nn.Conv1d(4, 4, 3)
        self.register_buffer("seen", torch.zeros(1))
        self.calls: list[int] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.seen += 1
        self.calls.append(1)
        random.random()
        np.random.random()
        tokens.clamp_(max=3)
        return self.conv(self.drop(self.norm(self.embedding(tokens).mT)))


class Locked(Stateful):
    """Cannot be copied."""

    def __deepcopy__(self, memo: object) -> None:
        raise TypeError("not to be copied")


def state_of(model: nn.Module) -> list[object]:
    """Everything that a look must leave as it was, bit by bit."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [
        {name: one.clone() for name, one in model.state_dict().items()},
        [module.training for module in model.modules()],
        [dict(getattr(module, name)) for module in model.modules() for name in hooks],
        [one.grad.clone() if one.grad is not None else None for one in model.parameters()],
        [id(one) for one in (*model.parameters(), *model.buffers())],
        torch.get_rng_state(),
        random.getstate(),
        str(np.random.get_state()),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
    ]


def are_same(left: object, right: object) -> bool:
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and torch.equal(left, right)
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(are_same(left[key], right[key]) for key in left)
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(are_same, left, right))
    return left == right


@pytest.mark.parametrize("kind", [Stateful, Locked])
@pytest.mark.parametrize("mode", ["training", "used"])
def test_looking_changes_nothing(kind, mode):
    model = kind().train(mode == "training")
    model.norm.eval()  # modes of parts may differ from the whole's
    model.conv.weight.grad = torch.ones_like(model.conv.weight)
    model.register_forward_hook(lambda module, args, out: None)
    tokens = torch.tensor([[0, 1, 2, 4], [4, 3, 2, 1]])
    before, given = state_of(model), tokens.clone()
    seen = tabulate_module(model, tokens)
    after = state_of(model)
    assert are_same(before, after), [one for one in range(len(before)) if not are_same(before[one], after[one])]
    assert torch.equal(tokens, given)
    assert seen.receptive_field
    if kind is Stateful:
        assert model.calls == []


def test_a_look_that_fails_changes_nothing_either():
    model, batch = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(4, 2)), torch.randn(2, 3)
    before = state_of(model)
    with pytest.raises(ForwardFailed):
        tabulate_module(model, batch)
    assert are_same(before, state_of(model))


def test_what_cannot_be_copied_is_put_back():
    model = Locked()
    weight = model.embedding.weight.clone()
    with borrow_module(model) as ours:
        assert ours is model
        ours.eval()
        ours(torch.tensor([[0, 1, 2, 3]]))
        assert not torch.equal(model.embedding.weight, weight)
    assert torch.equal(model.embedding.weight, weight)
    assert model.training
    assert model.seen == 0


# --- unusual modules --------------------------------------------------------------------------------------------------


def test_a_failure_is_told_with_its_module_and_all_before_it():
    model = nn.Sequential(nn.Conv2d(1, 8, 5), nn.Flatten(), nn.Linear(120, 10))
    with pytest.raises(ForwardFailed) as caught:
        tabulate_module(model, torch.randn(2, 1, 8, 8))
    trace = caught.value.trace
    assert trace.failed_path == "2"
    assert str(caught.value).startswith(
        "Linear 2 raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x128"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)
    partly = table_of_trace(model, trace, None)
    assert [one.path for one in partly.rows] == ["", "0", "1", "2"]
    assert partly.parameters == sum(p.numel() for p in model.parameters())
    assert row(partly, "1").outputs == shapes("(batch 2, features 128)")
    assert row(partly, "2").outputs == ()


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_hook_that_raises_is_named(where):
    def angry(*args: object) -> None:
        raise ValueError("not today\nnor tomorrow")

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].register_forward_pre_hook(angry) if where == "before" else model[1].register_forward_hook(angry)
    with pytest.raises(PellucidError) as caught:
        tabulate_module(model, torch.randn(1, 2))
    assert str(caught.value) == "the hook angry of Linear 1 raised ValueError: not today. Take the hook off."


def test_an_error_that_is_caught_is_no_failure():
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wrong, self.right = nn.Linear(3, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            try:
                return self.wrong(x)
            except RuntimeError:
                return self.right(x)

    seen = tabulate_module(Careful(), torch.randn(1, 2))
    assert row(seen, "wrong").flops_by_operation == 0
    assert row(seen, "right").flops_by_formula == row(seen, "right").flops_by_operation == 8


def test_what_answers_to_every_name():
    class Obliging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 3)

        def __getattr__(self, name: str) -> object:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return lambda *args: None

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    model, batch = Obliging(), torch.randn(2, 2)
    before = state_of(model)
    assert tabulate_module(model, batch).parameters == 9
    assert are_same(before, state_of(model))


def test_a_module_that_calls_itself():
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Tensor, left: int = 3) -> Tensor:
            return self(self.linear(x), left - 1) if left else x

    seen = tabulate_module(Again(), torch.randn(1, 2))
    assert (row(seen, "").n_calls, row(seen, "linear").n_calls) == (4, 3)
    assert row(seen, "").flops_by_operation == seen.flops_by_operation == 3 * 8


def test_a_module_that_runs_only_once():
    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.ran = nn.Linear(2, 2), False

        def forward(self, x: Tensor) -> Tensor:
            if self.ran:
                raise ValueError("only once")
            self.ran = True
            return self.linear(x)

    seen = tabulate_module(Once(), torch.randn(1, 2))
    assert seen.seconds == 0
    assert note_sentences(seen.notes) == ["it ran once, and then raised ValueError: only once"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Sequential(nn.ReLU(), nn.LazyLinear(3)), "LazyLinear 1 is lazy and needs an input shape"),
        (nn.LazyBatchNorm1d(), "LazyBatchNorm1d itself is lazy and needs an input shape"),
    ],
    ids=["inside", "alone"],
)
def test_lazy_modules_are_refused(model, says):
    with pytest.raises(PellucidError, match=says):
        tabulate_module(model, torch.randn(2, 3))


def test_torchscript_is_refused():
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 3)))
    with pytest.raises(PellucidError, match="is TorchScript, which hides its parts"):
        tabulate_module(scripted, torch.randn(1, 2))


def test_what_is_compiled_is_seen_through():
    seen = tabulate_module(torch.compile(nn.Sequential(nn.Linear(2, 3)), backend="eager"), torch.randn(1, 2))
    assert [one.kind for one in seen.rows] == ["Sequential", "Linear"]


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Identity(), (torch.randn(2, 3),)),
        (nn.Linear(2, 3, device="meta"), (torch.empty(1, 2, device="meta"),)),
        (nn.Linear(2, 3), (torch.randn(0, 2),)),
        (nn.Linear(2, 3).bfloat16(), (torch.randn(1, 2).bfloat16(),)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), (torch.randn(1, 2),)),
        (nn.ParameterList([torch.randn(3)]), None),
        (nn.Sequential(), (torch.randn(1, 2),)),
    ],
    ids=["no parameters", "meta", "empty batch", "bfloat16", "parametrised", "a list", "empty"],
)
def test_unusual_modules_are_counted(model, inputs):
    if inputs is None:
        with pytest.raises(ForwardFailed):
            tabulate_module(model, ())
        return
    assert tabulate_module(model, inputs).parameters == sum(p.numel() for p in model.parameters())


def test_very_many_modules():
    """More than are copied, so that the user's own are hooked."""
    model = nn.Sequential(*(nn.Identity() for _ in range(10_500)))
    seen = tabulate_module(model, torch.randn(1, 2))
    assert len(seen.rows) == 10_501
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def test_a_trace_has_every_call():
    trace = trace_forward(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), (torch.ones(4, 2),))
    assert [(trace.paths[call.module], call.parent, call.flops) for call in trace.calls] == [
        *(("", -1, 48), ("0", 0, 48), ("1", 0, 0)),
    ]
    assert trace.readers == {"0.weight": "0", "0.bias": "0"}
