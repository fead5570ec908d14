"""The RNN encoder-decoder beside the formulas of its papers, written out token by token with its own weights."""

import pytest
import torch
from torch import Tensor, nn

from pellucid.models.pairs.configs import ASKING, CELLS, RNNEncoderDecoderConfig
from pellucid.models.pairs.rnn_encoder_decoder import RNNEncoderDecoder

SOURCES = [[3, 1, 4, 1, 5], [2, 6], [5]]
TOKENS = torch.tensor([[0, 1, 2, 3], [0, 4, 5, 6], [0, 1, 1, 1]])
WIDTH = 6

pytestmark = pytest.mark.usefixtures("one_thread")


def build_random(cell: str, attention: str, depth: int) -> RNNEncoderDecoder:
    """In double precision, and far enough from its first weights that none of them hides another."""
    torch.manual_seed(0)
    config = RNNEncoderDecoderConfig(7, 5, 4, width=WIDTH, depth=depth, cell=cell, attention=attention)
    model = RNNEncoderDecoder(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model


class Written:
    """One recurrent layer in one direction, by the formulas: x, h, c -> h, c."""

    def __init__(self, layers: nn.RNNBase, layer: int, suffix: str = "") -> None:
        self.cell = type(layers).__name__
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        self.w, self.u, self.b, self.d = (getattr(layers, f"{name}_l{layer}{suffix}") for name in names)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        from_x, from_h = self.w @ x + self.b, self.u @ h + self.d
        if self.cell == "RNN":
            return torch.tanh(from_x + from_h), c
        if self.cell == "GRU":
            (rx, zx, nx), (rh, zh, nh) = from_x.chunk(3), from_h.chunk(3)
            z = torch.sigmoid(zx + zh)
            return (1 - z) * torch.tanh(nx + torch.sigmoid(rx + rh) * nh) + z * h, c
        i, f, g, o = (from_x + from_h).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def read_through(cell: Written, stream: list[Tensor], h: Tensor, c: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    states = []
    for x in stream:
        h, c = cell.step(x, h, c)
        states.append(h)
    return states, h, c


def write_out(model: RNNEncoderDecoder, source: list[int], tokens: list[int]) -> tuple[Tensor, Tensor | None]:
    """The scores of one pair and its attention, (time, vocab) and (time, source), one vector at a time."""
    zeros = torch.zeros(WIDTH // 2, dtype=torch.float64)
    stream = [model.embedding.weight[token] for token in source]
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(model.config.depth):
        on, h, c = read_through(Written(model.encoder, layer), stream, zeros, zeros)
        back, g, d = read_through(Written(model.encoder, layer, "_reverse"), stream[::-1], zeros, zeros)
        last.append((torch.cat([h, g]), torch.cat([c, d])))
        stream = [torch.cat(both) for both in zip(on, back[::-1], strict=True)]
    memory = stream
    stream = [model.embedding.weight[token] for token in tokens]
    for layer in range(model.config.depth):
        stream, _, _ = read_through(Written(model.decoder, layer), stream, *last[layer])
    if model.config.attention == "none":
        return torch.stack([model.head.weight @ h + model.head.bias for h in stream]), None
    scores, maps = [], []
    for h in stream:
        if model.config.attention == "dot":
            answers = torch.stack([h @ m for m in memory])
        else:
            ask = model.ask
            asked = ask.of_state.weight @ h + ask.of_state.bias
            answers = torch.stack([ask.answer.weight[0] @ torch.tanh(asked + ask.of_memory.weight @ m) for m in memory])
        weights = answers.exp() / answers.exp().sum()
        gathered = sum(weight * m for weight, m in zip(weights, memory, strict=True))
        mixed = torch.tanh(model.ask.combine.weight @ torch.cat([gathered, h]) + model.ask.combine.bias)
        scores.append(model.head.weight @ mixed + model.head.bias)
        maps.append(weights)
    return torch.stack(scores), torch.stack(maps)


@torch.no_grad()
@pytest.mark.parametrize("attention", ASKING)
@pytest.mark.parametrize("cell", CELLS)
def test_it_is_what_the_formulas_say(cell: str, attention: str) -> None:
    model = build_random(cell, attention, depth=2)
    padded = torch.tensor([[*source, *[0] * (5 - len(source))] for source in SOURCES])
    scores = model(padded, TOKENS)
    maps = model.attention_maps(padded, TOKENS)
    assert set(maps) == (set() if attention == "none" else {"cross"})
    for row, source in enumerate(SOURCES):
        written, weights = write_out(model, source, TOKENS[row].tolist())
        torch.testing.assert_close(scores[row], written, rtol=0, atol=1e-12)
        if weights is not None:
            torch.testing.assert_close(maps["cross"][0, row, 0, :, : len(source)], weights, rtol=0, atol=1e-12)
            assert not maps["cross"][0, row, 0, :, len(source) :].any()


@torch.no_grad()
def test_without_attention_a_source_is_one_vector() -> None:
    """Two sources that leave the same last state get the same answers, whatever each token of them was."""
    model = build_random("lstm", "none", depth=1)
    state = model.begin(torch.tensor([[3, 1, 4]]))
    changed = state._replace(memory=torch.randn_like(state.memory))
    asking = build_random("lstm", "dot", depth=1)
    assert torch.equal(model.advance(torch.tensor([0]), state)[0], model.advance(torch.tensor([0]), changed)[0])
    before = asking.advance(torch.tensor([0]), state)[0]
    assert not torch.allclose(before, asking.advance(torch.tensor([0]), changed)[0])


def test_forget_gates_are_open_at_first() -> None:
    model = RNNEncoderDecoder(RNNEncoderDecoderConfig(7, 5, 4, width=8, depth=2, cell="lstm"))
    for part, width in ((model.encoder, 4), (model.decoder, 8)):
        biases = [bias for name, bias in part.named_parameters() if name.startswith("bias_ih")]
        assert len(biases) == (4 if part.bidirectional else 2)
        for bias in biases:
            assert (bias[width : 2 * width] == 1).all()
            assert not (bias[:width] == 1).any()
