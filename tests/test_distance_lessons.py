"""Path length and parallel steps: gradients against closed forms, chains against counts by hand and walks of graphs."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.at_length import some_of
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pellucid.errors import PellucidError
from pellucid.lessons import parallel_steps, path_length
from pellucid.lessons.parallel_steps import ParallelKnobs, growth_of, longest_chain, read_sequence, write_greedily
from pellucid.lessons.path_length import PathLengthKnobs, gradient_norms, roll_cell
from pellucid.lessons.scalar_rnn import ACTIVATIONS, unroll
from pellucid.models.catalogue import find_network

pytestmark = pytest.mark.usefixtures("one_thread")


# Path length


def test_of_one_number_it_is_the_closed_form() -> None:
    cell = nn.RNNCell(1, 1, bias=False).double()
    w, a = 0.8, 1.3
    with torch.no_grad():
        cell.weight_hh.fill_(w)
        cell.weight_ih.fill_(a)
    inputs = [0.5, -1.0, 2.0, 0.3, 0.7]
    run = unroll(inputs, target=0.0, w=w, a=a, activation="tanh")
    wanted = [abs(told * ACTIVATIONS["tanh"].slope(z) * a) for told, z in zip(run.reaching, run.sums, strict=True)]
    found = gradient_norms(roll_cell(cell), [torch.tensor([[x]], dtype=torch.float64) for x in inputs])
    assert found[::-1] == pytest.approx(wanted, rel=1e-12)


def test_of_an_rnn_it_is_a_product_of_matrices() -> None:
    """J_t = (Π_{s > t} diag(1 - h_s²) U) diag(1 - h_t²) W, multiplied in NumPy."""
    torch.manual_seed(0)
    cell = nn.RNNCell(4, 4).double()
    inputs = list(torch.randn(6, 1, 4, dtype=torch.float64))
    w, u, b = (getattr(cell, name).detach().numpy() for name in ("weight_ih", "weight_hh", "bias_ih"))
    b = b + cell.bias_hh.detach().numpy()
    states = [np.zeros(4)]
    for x in inputs:
        states.append(np.tanh(w @ x[0].numpy() + u @ states[-1] + b))
    wanted, back = [], np.eye(4)
    for h in reversed(states[1:]):
        slopes = np.diag(1 - h**2)
        wanted.append(np.linalg.norm(back @ slopes @ w) / 2)
        back = back @ slopes @ u
    assert gradient_norms(roll_cell(cell), inputs) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("cell", path_length.CELLS)
def test_gradients_are_those_of_small_differences(cell: str) -> None:
    """Of a recurrent cell and of attention: every input is moved by ±1e-5, one number at a time."""
    torch.manual_seed(1)
    networks = path_length._build_networks(PathLengthKnobs(length=4, width=3, cell=cell))
    inputs = torch.randn(4, 2, 3, dtype=torch.float64)
    assert set(networks) == {cell, "attention"}
    for last_output in networks.values():
        squares = torch.zeros(4, 2, dtype=torch.float64)
        with torch.no_grad():
            for place in range(4):
                for number in range(3):
                    moved = torch.zeros_like(inputs)
                    moved[place, :, number] = 1e-5
                    slope = (last_output(list(inputs + moved)) - last_output(list(inputs - moved))) / 2e-5
                    squares[place] += slope.square().sum(-1)
        wanted = (squares.sqrt().mean(1) / math.sqrt(3)).tolist()
        assert gradient_norms(last_output, list(inputs))[::-1] == pytest.approx(wanted, rel=1e-7)


def test_the_shortest_way_is_that_of_the_formulas() -> None:
    """RNN: a product, a sum and tanh for each token. LSTM: from h through tanh to the cell, which each token multiplies
    by its gate and adds to, and then through the gate's tanh, its slice, its sum and a product to the input.
    """
    study = path_length.measure(PathLengthKnobs(length=10, width=2))
    ways = {network.name: network.operations for network in study.networks}
    assert ways["rnn"] == tuple(3 + 3 * distance for distance in range(10))
    assert ways["lstm"][2:] == tuple(8 + 2 * distance for distance in range(2, 10))
    assert len(set(ways["attention"])) == 1


@pytest.mark.slow
def test_the_gated_memories_reach_farther_and_attention_is_flat() -> None:
    study = path_length.measure(PathLengthKnobs())
    last = {network.name: network.gradients[-1] for network in study.networks}
    assert last["rnn"] < last["gru"] < last["lstm"] < last["attention"]
    of_attention = study.networks[-1].gradients[1:]
    assert max(of_attention) < 3 * min(of_attention)
    said = path_length.draw(study).caption
    assert any(line.startswith("RNN: 0.439 of the last token arrives") for line in said)
    larger = path_length.measure(PathLengthKnobs(cell="rnn", scale=4.0, width=64))
    assert larger.networks[0].gradients[-1] > 1e9 * last["rnn"]
    nothing = path_length.measure(PathLengthKnobs(cell="rnn", scale=0.0, length=3))
    assert nothing.networks[0].gradients[1:] == (0.0, 0.0)
    assert "<svg" in path_length.draw(nothing).svg


# Parallel steps


def chains_by_hand(n: int, layers: int) -> dict[str, tuple[int, int]]:
    """Products in a row, in training and in generation. The first product of a state is with zeros, and waits for none.

    A block of attention has six: queries, scores, their mixture, what combines it, and two of its feed-forward. The
    decoder's block has ten, of which the last six wait for the encoder and for the keys that are made of it.
    """
    block = 6
    return {
        "RNN": (layers * n + 1, n * (layers + 1)),
        "LSTM": (layers * n + 1, n * (layers + 1)),
        "transformer": (layers * block + 1, n * (layers * block + 1)),
        "decoder-only transformer": (layers * block + 1, n * (layers * block + 1)),
        "encoder without a decoder": (layers * block + 1, layers * block + 1),
    }


@pytest.mark.parametrize("layers", some_of([1, 2], 2))
def test_chains_are_those_counted_by_hand(layers: int) -> None:
    study = parallel_steps.measure(ParallelKnobs(length=8, width=4, depth=layers, batch=1))
    found = {network.name: network for network in study.networks}
    for place, n in enumerate((2, 4, 8)):
        for name, (training, generation) in chains_by_hand(n, layers).items():
            assert found[name].training[place][:2] == (n, training), name
            assert found[name].generation[place][:2] == (n, generation), name
    # Both read the source first, then as many tokens again; attention asks, and joins what it gathered.
    assert [one.products for one in found["RNN encoder-decoder"].training] == [2 * layers * n + 1 for n in (2, 4, 8)]
    parallel = {name: growth_of(network.training) == 0 for name, network in found.items()}
    assert [name for name, is_so in parallel.items() if not is_so] == [
        *("RNN", "LSTM", "RNN encoder-decoder", "the same with attention"),
    ]
    assert [name for name, network in found.items() if growth_of(network.generation) == 0] == [
        "encoder without a decoder"
    ]


def longest_path(node: Any, lengths: dict[Any, int]) -> int:
    """The most products on any way from here to the beginning of the graph that torch recorded."""
    waiting = [node]
    while waiting:
        one = waiting[-1]
        before = [each for each, _ in one.next_functions if each is not None]
        missing = [each for each in before if each not in lengths]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        is_product = one.name() in ("AddmmBackward0", "MmBackward0", "BmmBackward0")
        lengths[one] = is_product + max((lengths[each] for each in before), default=0)
    return lengths[node]


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("rnn", "list", {}),
        ("gru", "list", {}),
        ("transformer", "list", {"context": 7, "n_heads": 1}),
        ("rnn-encoder-decoder", "pairs", {"cell": "gru", "attention": "dot"}),
        ("encoder-decoder", "pairs", {"n_heads": 1}),
    ],
)
def test_a_walk_through_the_graph_finds_the_same_chain(name: str, kind: str, settings: dict[str, Any]) -> None:
    card = find_network(name, kind)
    longest = {"longest_source": 7, "longest_target": 7} if kind == "pairs" else {}
    model = card.build(card.config(vocab_size=27, width=4, depth=2, **longest, **settings)).double().eval()
    with sdpa_kernel(SDPBackend.MATH):
        loss = read_sequence(model, 1, 7)
    assert longest_chain(partial(read_sequence, model, 1, 7)) == longest_path(loss.grad_fn, {})


def test_what_is_written_into_a_cache_counts() -> None:
    """A product whose result goes into a part of a larger tensor, as keys do, is waited for by who reads the whole."""
    cache = torch.zeros(4, 2)
    a = torch.eye(2)

    def run() -> Tensor:
        cache[:2] = a @ a @ a
        return cache @ a

    assert longest_chain(run) == 3


def test_generation_of_pairs_begins_with_the_source() -> None:
    card = find_network("rnn-encoder-decoder", "pairs")
    model = card.build(card.config(vocab_size=27, longest_source=6, longest_target=6, width=4, attention="none"))
    assert write_greedily(model.eval(), 3, 6).shape == (3,)
    # The source in 6; then the first token's state and its scores, and for each other one its input and its scores.
    assert longest_chain(partial(write_greedily, model.double().eval(), 1, 6)) == 6 + 2 * 6


def test_the_caption_tells_what_runs_at_once() -> None:
    drawn = parallel_steps.draw(parallel_steps.measure(ParallelKnobs(length=8, width=4)))
    said = drawn.caption
    assert said[1] == (
        "In training all tokens can run at once in: transformer, transformer encoder-decoder, decoder-only "
        "transformer, encoder without a decoder. In the other 4 each waits for the last."
    )
    assert said[2].startswith("In generation all tokens can run at once in: encoder without a decoder. In the other 7")
    assert "3 → 9" in drawn.svg
    with pytest.raises(PellucidError, match="width 5 cannot be shared equally by 2 directions"):
        ParallelKnobs(width=5)
