"""A transformer read on by the compiled decoder and by torch: the numbers of `forward`, and compiled the same bits."""

import dataclasses
import gc

import numpy as np
import pytest
import torch

from pellucid.decoding.sampling import draw_tokens
from pellucid.layers.positions import POSITIONS
from pellucid.models.sequences import compiled_decoding, fast_decoding
from pellucid.models.sequences.compiled_decoding import CompiledRows, CompiledState
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import JoinableNeuralReading, NeuralReading, rows_keep_their_bits

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(compiled_decoding._decoder is None, reason="pellucid was installed without a C compiler"),
]

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-12}
# Heads of whole vectors, of a part of one and of one and a part; contexts that fill their last vector and that do not.
SHAPES = {
    "whole": TransformerConfig(vocab_size=65, context=32, width=64, depth=2, n_heads=2),
    "part": TransformerConfig(vocab_size=11, context=19, width=12, depth=2, n_heads=2),
    "more": TransformerConfig(vocab_size=7, context=9, width=20, depth=1, n_heads=1),
    "long": TransformerConfig(vocab_size=5, context=70, width=16, depth=1, n_heads=4),
}


def lively(config, dtype=torch.float64, seed=0):
    """Weights that have opinions, of a size that keeps the stream at about 1."""
    model, chance = Transformer(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * parameter.shape[-1] ** -0.5)
    return model.to(dtype).eval()


def tokens(model, *shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, model.vocab_size, shape))


@pytest.fixture(params=[torch.float32, torch.float64], ids=["single", "double"])
def dtype(request):
    return request.param


@torch.inference_mode()
def read_on(model, rows, n_first, kind=CompiledState):
    """Logits after each token from the n_first-th on: (batch, time, vocab)."""
    logits, state = model.read(rows[:, :n_first], model.begin(len(rows)))
    found = [logits]
    for column in rows[:, n_first:].t():
        logits, state = model.advance(column, state)
        found.append(logits)
    assert isinstance(state, kind)
    assert state.n_read == rows.shape[1]
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_numbers_are_those_of_a_whole_pass(positions, shape, dtype, monkeypatch):
    model = lively(dataclasses.replace(SHAPES[shape], positions=positions), dtype)
    rows = tokens(model, 8, model.longest)
    with torch.inference_mode():
        wanted = model(rows)
    for kind, is_compiled in ((CompiledState, "1"), (fast_decoding.TorchState, "0")):
        monkeypatch.setenv("PELLUCID_COMPILED_DECODING", is_compiled)
        for n_first in (1, model.longest // 2, model.longest):
            found = read_on(model, rows, n_first, kind)
            assert found.dtype == dtype
            assert torch.allclose(found, wanted[:, n_first - 1 :], rtol=0, atol=CLOSE[dtype])


@pytest.mark.parametrize("instructions", [0, 1, 2])
def test_with_fewer_instructions_than_the_processor_has(instructions, dtype, monkeypatch):
    """Each way gives the numbers of forward, and a row its bits in any company."""
    lay_out = compiled_decoding.lay_out
    monkeypatch.setattr(compiled_decoding, "lay_out", lambda model: lay_out(model, instructions=instructions))
    model = lively(SHAPES["whole"], dtype)
    rows = tokens(model, 71, model.longest)
    found = read_on(model, rows, 1)
    with torch.inference_mode():
        assert torch.allclose(found, model(rows), rtol=0, atol=CLOSE[dtype])
    for n in (1, 2, 3, 4, 5, 6, 7, 12, 13, 64, 66, 67, 70):
        assert torch.equal(read_on(model, rows[-n:], 1), found[-n:])


@pytest.mark.parametrize("shape", SHAPES)
def test_wider_registers_have_the_same_bits(shape, dtype, monkeypatch):
    """With AVX2 and with AVX-512; on a processor without the latter it is AVX2 twice."""
    lay_out = compiled_decoding.lay_out
    model, found = lively(SHAPES[shape], dtype), []
    for instructions in (1, 2):
        monkeypatch.setattr(compiled_decoding, "lay_out", lambda model, n=instructions: lay_out(model, instructions=n))
        found += [read_on(model, tokens(model, n, model.longest), 1) for n in (1, 31)]
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[1], found[3])


@pytest.mark.parametrize("positions", POSITIONS)
def test_read_at_once_or_one_by_one_the_bits_are_the_same(positions, dtype):
    model = lively(dataclasses.replace(SHAPES["part"], positions=positions), dtype)
    rows = tokens(model, 5, model.longest)
    one_by_one = read_on(model, rows, 1)
    for n_first in (2, 7, model.longest):
        assert torch.equal(read_on(model, rows, n_first), one_by_one[:, n_first - 1 :])


def test_a_sample_is_the_same_to_the_bit_in_any_company(dtype):
    model = lively(SHAPES["part"], dtype)
    options = {"longest": 50, "start": [0], "stop": 0, "seed": 11}
    together = draw_tokens(NeuralReading(model), n_samples=200, **options)
    assert len({sample.tokens for sample in together}) > 100
    for n_samples in (1, 2, 3, 64):
        assert draw_tokens(NeuralReading(model), n_samples=n_samples, **options) == together[:n_samples]


def test_rows_that_join_and_leave_have_the_bits_of_rows_that_grow_together(dtype):
    model = lively(SHAPES["part"], dtype)
    assert rows_keep_their_bits(model)
    apart, together = JoinableNeuralReading(model), NeuralReading(model)
    assert isinstance(apart.rows, CompiledRows)
    rows = tokens(model, 3, 12).numpy()
    together.read(rows[:, :2])
    for row, begun in enumerate((2, 4, 5)):
        apart.join(rows[row, :begun])
    apart.leave(0)  # the last takes its place
    for step in range(5):
        together.advance(rows[:, 2 + step])
    alone = NeuralReading(model)
    alone.read(rows[2:, :5])
    assert np.array_equal(apart.advance(rows[[2, 1], [5, 4]])[0], alone.advance(rows[2:, 5])[0])
    assert np.array_equal(apart.advance(rows[[2, 1], [6, 5]])[0], alone.advance(rows[2:, 6])[0])
    assert np.array_equal(apart.advance(rows[[2, 1], [7, 6]])[1], together.read(rows[:, :7])[1])


@torch.inference_mode()
def test_rows_are_kept_left_out_and_doubled(dtype):
    model = lively(SHAPES["whole"], dtype)
    read = tokens(model, 4, 10)
    _, state = model.read(read, model.begin(4))
    for seed, rows in enumerate([[3, 0, 2], [1, 1, 0, 2], [0], [0, 0, 0, 0, 0], [4, 2]]):
        kept = torch.tensor(rows)
        state, read = model.keep(state, kept), read[kept]
        for column in tokens(model, 3, len(rows), seed=seed):
            logits, state = model.advance(column, state)
            read = torch.cat([read, column[:, None]], dim=1)
            assert torch.equal(logits, read_on(model, read, read.shape[1])[:, 0])


@torch.inference_mode()
def test_a_state_that_rows_were_kept_of_can_still_be_gone_on_with(dtype):
    """Rows are not copied when they are kept; whichever state goes on last has to."""
    model = lively(SHAPES["part"], dtype)
    read = tokens(model, 3, 5)
    _, before = model.read(read, model.begin(3))
    first, second = model.keep(before, torch.tensor([2, 0])), model.keep(before, torch.tensor([1, 2]))
    states = {"first": (first, [2, 0]), "before": (before, [0, 1, 2]), "second": (second, [1, 2])}
    grown = {name: read[rows] for name, (_, rows) in states.items()}
    for step in range(4):
        for name in list(states):
            state, rows = states[name]
            column = tokens(model, len(rows), seed=(step, len(name)))
            logits, state = model.advance(column, state)
            grown[name] = torch.cat([grown[name], column[:, None]], dim=1)
            assert torch.equal(logits, read_on(model, grown[name], grown[name].shape[1])[:, 0])
            states[name] = (state, rows)


@torch.inference_mode()
def test_slots_that_nobody_needs_are_used_again():
    model = lively(SHAPES["part"])
    _, state = model.read(tokens(model, 5, 2), model.begin(5))
    pool = state.hold.pool
    for _ in range(10):
        state = model.keep(state, torch.tensor([0, 0, 1, 2, 3]))
    assert pool.n_slots <= 32
    state = model.keep(state, torch.tensor([1]))
    gc.collect()
    assert pool.n_holders.sum() == 1
    assert len(pool.free) == pool.n_slots - 1


@torch.inference_mode()
def test_what_cannot_be_read_is_refused():
    model = lively(SHAPES["part"])
    _, state = model.read(tokens(model, 2, model.longest), model.begin(2))
    with pytest.raises(Exception, match="was made for 19"):
        model.advance(torch.tensor([1, 1]), state)
    for wrong in (11, -1):
        with pytest.raises(IndexError, match=f"tokens has {wrong}"):
            model.advance(torch.tensor([1, wrong]), model.begin(2))
    past = model.begin(2).hold.pool.past
    rows = np.zeros(2, np.int64)
    with pytest.raises(IndexError, match="slots"):
        past.advance(rows, rows + 99, rows, np.empty((2, 11)))
    with pytest.raises(IndexError, match="positions"):
        past.advance(rows, rows, rows + 19, np.empty((2, 11)))
    with pytest.raises(TypeError, match="logits"):
        past.advance(rows, rows, rows, np.empty((2, 11), np.float32))
    with pytest.raises(ValueError, match="whole rows"):
        past.advance(rows, rows, rows, np.empty(23))
    with pytest.raises(ValueError, match="one shape"):
        past.copy(lively(SHAPES["more"]).begin(1).hold.pool.past, rows, rows, 1)


def test_torch_reads_on_where_gradients_are_wanted_or_the_form_is_another():
    model = lively(SHAPES["part"])
    assert isinstance(model.begin(1), fast_decoding.TorchState)
    with torch.no_grad():
        assert isinstance(model.begin(1), CompiledState)
        assert isinstance(model.half().begin(1), fast_decoding.TorchState)
        other = lively(dataclasses.replace(SHAPES["part"], form="post"))
        assert isinstance(other.begin(1), fast_decoding.TorchState)


@torch.no_grad()
def test_torch_reads_on_where_there_was_no_compiler(monkeypatch):
    model = lively(SHAPES["part"])
    monkeypatch.setattr(compiled_decoding, "_decoder", None)
    assert isinstance(model.begin(1), fast_decoding.TorchState)
    assert isinstance(model.rows_apart(), fast_decoding.RaggedRows)
    assert np.isfinite(NeuralReading(model).read(np.array([[0, 1]]))).all()


def test_both_twins_draw_the_same(monkeypatch):
    model = lively(SHAPES["part"])
    options = {"n_samples": 50, "longest": 60, "start": [0], "stop": 0, "seed": 3}
    compiled = draw_tokens(NeuralReading(model), **options)
    monkeypatch.setenv("PELLUCID_COMPILED_DECODING", "0")
    reading = NeuralReading(model)
    in_torch = draw_tokens(reading, **options)
    assert isinstance(reading.state, fast_decoding.TorchState)
    assert [sample.tokens for sample in compiled] == [sample.tokens for sample in in_torch]
    wanted = [sample.log_probability for sample in in_torch]
    assert [sample.log_probability for sample in compiled] == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
def test_both_twins_read_rows_apart(positions, monkeypatch):
    model = lively(dataclasses.replace(SHAPES["part"], positions=positions))
    rows = tokens(model, 3, model.longest + 5).numpy()
    found = []
    for is_compiled, kind in (("1", CompiledRows), ("0", fast_decoding.RaggedRows)):
        monkeypatch.setenv("PELLUCID_COMPILED_DECODING", is_compiled)
        reading = JoinableNeuralReading(model)
        assert isinstance(reading.rows, kind)
        scores = [reading.join(row[: n_first + 1]) for n_first, row in enumerate(rows)]
        for step in range(1, model.longest + 3):
            scores.append(reading.advance(rows[[0, 1, 2], [step, step + 1, step + 2]]))
        reading.leave(1)
        scores.append(reading.advance(np.array([0, 1])))
        found.append(np.concatenate(scores))
    assert np.allclose(*found, rtol=0, atol=1e-12)


def test_weights_that_changed_are_read_as_they_are():
    """Of a network that still learns nothing is held."""
    model = lively(SHAPES["part"])
    row = tokens(model, 1, 4)
    before = read_on(model, row, 4)
    with torch.no_grad():
        model.blocks[0].attention.combine.weight.mul_(2)
        wanted = model(row)[:, -1:]
    assert torch.allclose(read_on(model, row, 4), wanted, atol=1e-12)
    assert not torch.allclose(before, wanted, atol=1e-3)


@pytest.mark.parametrize(("context", "wanted"), [(512, 32), (300, 48), (4096, 16), (16, 1024)])
def test_of_rows_with_much_to_remember_few_are_drawn_at_once(context, wanted, monkeypatch):
    """60 samples drawn some at a time are those of all at once, to the last bit of their log-probabilities."""
    reading = NeuralReading(lively(TransformerConfig(vocab_size=11, context=context, width=32, depth=2, n_heads=2)))
    assert (
        reading.at_once == wanted
    )  # a row of 512 has half a megabyte: 2 · 2 blocks · 512 positions · 32 numbers · 8 bytes
    some = draw_tokens(reading, n_samples=60, longest=12, start=[0], seed=3)
    monkeypatch.setattr(reading, "at_once", 1024)
    assert draw_tokens(reading, n_samples=60, longest=12, start=[0], seed=3) == some
    monkeypatch.setenv("PELLUCID_COMPILED_DECODING", "0")
    assert NeuralReading(lively(reading.model.config)).at_once == 1024
