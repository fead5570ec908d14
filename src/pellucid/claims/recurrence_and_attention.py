"""Recurrence and attention: what must wait for what, how far a gradient has to go, and what one position reads.

Chains of products that wait for one another are counted while our networks run, and gradients are those of networks as
they begin, in double precision. A product counts as one step, however large it is: that is what hardware with enough
units could do at once. Seconds are those of one thread, the least of a few steps of training.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.lessons.lesson import seed_knob
from pellucid.lessons.parallel_steps import ParallelKnobs, ParallelStudy, growth_of, read_sequence
from pellucid.lessons.parallel_steps import measure as count_chains
from pellucid.lessons.path_length import PathGradients, PathLengthKnobs
from pellucid.lessons.path_length import measure as follow_gradients
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

NETWORKS = (*("transformer", "RNN", "RNN encoder-decoder", "transformer encoder-decoder", "encoder without a decoder"),)
study_chains: functools._lru_cache_wrapper[ParallelStudy] = functools.cache(count_chains)


@dataclass(frozen=True)
class ChainKnobs:
    network: str = option("transformer", "The network that reads or writes", choices=NETWORKS)
    way: str = option("training", "All tokens are known, or each is chosen in turn", choices=("training", "generation"))
    length: int = option(16, "Tokens; also a half and a quarter of them.", minimum=8, maximum=512)
    depth: int = option(1, "Layers or blocks.", minimum=1, maximum=8)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class WrittenChainKnobs(ChainKnobs):
    way: str = option(
        "generation", "All tokens are known, or each is chosen in turn", choices=("training", "generation")
    )


@dataclass(frozen=True)
class RecurrentPairKnobs(ChainKnobs):
    network: str = option("RNN encoder-decoder", "The network that reads or writes", choices=NETWORKS)


@dataclass(frozen=True)
class TransformerPairKnobs(ChainKnobs):
    network: str = option("transformer encoder-decoder", "The network that reads or writes", choices=NETWORKS)


def measure_chain(knobs: ChainKnobs) -> Numbers:
    """Products that wait for one another, at the shortest and at the longest of three lengths, by our lesson."""
    study = study_chains(ParallelKnobs(length=knobs.length, width=8, depth=knobs.depth))
    found = next(one for one in study.networks if one.name == knobs.network)
    asked = found.training if knobs.way == "training" else found.generation
    return {
        "products in a row": float(asked[-1].products),
        "at a quarter of the length": float(asked[0].products),
        "more for each token": growth_of(asked),
        "more for each token in training": growth_of(found.training),
        "more for each token in generation": growth_of(found.generation),
    }


def chain_closed_form(knobs: ChainKnobs) -> Numbers:
    """Six products to a block and one for the head; a recurrent layer has one for each token that it reads."""
    n, depth = knobs.length, knobs.depth
    block = 6 * depth + 1
    known = {
        ("transformer", "training"): block,
        ("transformer", "generation"): n * block,
        ("RNN", "training"): n * depth + 1,
        ("RNN encoder-decoder", "training"): 2 * n * depth + 1,
        ("RNN encoder-decoder", "generation"): n * (2 * depth + 1),
        ("encoder without a decoder", "training"): block,
        ("encoder without a decoder", "generation"): block,
    }
    grows = {
        ("transformer", "training"): 0,
        ("transformer", "generation"): block,
        ("RNN", "training"): depth,
        ("RNN encoder-decoder", "training"): 2 * depth,
        ("RNN encoder-decoder", "generation"): 2 * depth + 1,
        ("encoder without a decoder", "training"): 0,
        ("encoder without a decoder", "generation"): 0,
    }
    asked = knobs.network, knobs.way
    if asked not in known:
        return {}
    return {"products in a row": float(known[asked]), "more for each token": float(grows[asked])}


def measure_recurrent_chain(knobs: ChainKnobs) -> Numbers:
    """The same; and how often all tokens of an RNN are computed at once until its states are right to a millionth."""
    return {
        **measure_chain(knobs),
        "sweeps of an RNN over 64 tokens": float(count_sweeps(64)),
        "sweeps over 256": float(count_sweeps(256)),
    }


def count_sweeps(length: int, width: int = 32) -> int:
    """Each sweep computes every state from the one before it as the last sweep left it; all begin at 0.

    >>> count_sweeps(4) <= 4
    True
    """
    import torch

    from pellucid.training.rng import seed_torch

    with seed_torch(1, 0, "sweeps"), torch.no_grad():
        cell, inputs = torch.nn.RNNCell(width, width).double(), torch.randn(length, width, dtype=torch.float64)
        state, in_turn = torch.zeros(1, width, dtype=torch.float64), []
        for x in inputs:
            state = cell(x[None], state)
            in_turn.append(state[0])
        wanted, states = torch.stack(in_turn), torch.zeros(length, width, dtype=torch.float64)
        for sweep in range(1, length + 1):
            states = cell(inputs, torch.cat([states.new_zeros(1, width), states[:-1]]))
            if float((states - wanted).abs().max()) < 1e-6:
                return sweep
    return length


@dataclass(frozen=True)
class StepTimeKnobs:
    batch: int = option(32, "Sequences in a step of training.", minimum=1, maximum=1024)
    length: int = option(64, "Tokens of a sequence.", minimum=2, maximum=2048)
    width: int = option(64, "Width of both networks.", minimum=2, maximum=1024)
    cell: str = option("lstm", "Recurrent cell", choices=("lstm", "rnn", "lstm by steps"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def time_training_steps(knobs: StepTimeKnobs) -> Numbers:
    """A step of training, forward and back, of one block of a transformer and of one recurrent layer.

    The layer is one call of torch, or a call for each token.
    """
    import time

    import torch
    from torch.nn.functional import cross_entropy

    from pellucid.models.sequences.configs import RecurrentConfig, TransformerConfig
    from pellucid.models.sequences.recurrent import LSTM, RNN
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        transformer = Transformer(TransformerConfig(27, knobs.length, knobs.width, 1, 1, form="post"))
        recurrent = (RNN if knobs.cell == "rnn" else LSTM)(RecurrentConfig(27, knobs.width))

    def read_by_steps() -> Tensor:
        tokens = torch.randint(27, (knobs.batch, knobs.length))
        state, scores = recurrent.begin(knobs.batch), []
        for token in tokens.unbind(1):
            score, state = recurrent.advance(token, state)
            scores.append(score)
        return cross_entropy(torch.stack(scores, dim=1).flatten(0, 1), tokens.flatten())

    runs: list[Callable[[], Tensor]] = [
        functools.partial(read_sequence, model, knobs.batch, knobs.length) for model in (transformer, recurrent)
    ]
    if knobs.cell == "lstm by steps":
        runs[1] = read_by_steps
    least = [math.inf, math.inf]
    with one_thread():
        for _ in range(4):
            for at, run in enumerate(runs):
                began = time.process_time()
                run().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
                least[at] = min(least[at], time.process_time() - began)
    return {
        "times as fast": least[1] / least[0],
        "ms of the transformer": 1e3 * least[0],
        "ms of the recurrent network": 1e3 * least[1],
    }


@dataclass(frozen=True)
class VanishingKnobs:
    scale: float = option(1.0, "Factor on the recurrent weights at the start.", minimum=0, maximum=10)
    length: int = option(32, "Tokens of a sequence.", minimum=4, maximum=256)
    width: int = option(16, "Width of inputs and states.", minimum=1, maximum=128)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def follow_cell(cell: str, length: int, width: int, scale: float, seed: int) -> dict[str, PathGradients]:
    study = follow_gradients(PathLengthKnobs(length=length, width=width, cell=cell, scale=scale, seed=seed))
    return {network.name: network for network in study.networks}


def measure_vanishing(knobs: VanishingKnobs) -> Numbers:
    """What each token of the farther half leaves of the gradient, what arrives at the first, and the way to it."""
    half = knobs.length // 2
    numbers = {}
    for cell in ("rnn", "lstm"):
        found = follow_cell(cell, knobs.length, knobs.width, knobs.scale, knobs.seed)[cell]
        left = found.gradients[-1] / found.gradients[half]
        numbers[f"left by each token, {cell}"] = left ** (1 / (knobs.length - 1 - half))
        numbers[f"powers of ten at the first, {cell}"] = math.log10(found.gradients[-1])
        numbers[f"operations to the first, {cell}"] = float(found.operations[-1])
        numbers[f"operations to the middle, {cell}"] = float(found.operations[half])
    return numbers


def multiply_jacobians(knobs: VanishingKnobs) -> Numbers:
    """∂h_T/∂x_1 of the RNN as the product of diag(1 - h²) U over all steps, by matrices."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "path length"), torch.no_grad():
        cell = torch.nn.RNNCell(knobs.width, knobs.width).double()
        MultiHeadAttention(knobs.width, n_heads=1)  # drawn in between by the lesson as well
        inputs = torch.randn(knobs.length, 8, knobs.width, dtype=torch.float64)
        recurrent = cell.weight_hh * knobs.scale
        bias = cell.bias_ih + cell.bias_hh
        state = torch.zeros(8, knobs.width, dtype=torch.float64)
        passed = torch.zeros(8, knobs.width, knobs.width, dtype=torch.float64)
        for at, x in enumerate(inputs):
            state = (x @ cell.weight_ih.T + bias + state @ recurrent.T).tanh()
            step = (1 - state.square())[:, :, None]
            passed = step * (cell.weight_ih if at == 0 else recurrent @ passed)
    norms = passed.flatten(1).norm(dim=1) / math.sqrt(knobs.width)
    return {"powers of ten at the first, rnn": math.log10(float(norms.mean()))}


@dataclass(frozen=True)
class ShortPathKnobs:
    network: str = option("attention", "The network that reads", choices=("attention", "rnn", "gru", "lstm"))
    length: int = option(32, "Tokens of a sequence.", minimum=4, maximum=256)
    width: int = option(16, "Width of inputs and states.", minimum=1, maximum=128)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_short_path(knobs: ShortPathKnobs) -> Numbers:
    """The way to the first token and to the last but one, what arrives there, and what arrives in a longer sequence."""
    cell = "rnn" if knobs.network == "attention" else knobs.network
    found, longer = (
        follow_cell(cell, length, knobs.width, 1.0, knobs.seed)[knobs.network]
        for length in (knobs.length, 2 * knobs.length)
    )
    far = found.gradients[-4:]  # single tokens differ by chance
    near = found.gradients[1:5]
    return {
        "far over near": sum(far) / sum(near),
        "operations to the first": float(found.operations[-1]),
        "operations to the last but one": float(found.operations[1]),
        "arrives at the first": found.gradients[-1],
        "arrives at the middle of all": sorted(found.gradients)[knobs.length // 2],
        "the same of twice as many tokens": sorted(longer.gradients)[knobs.length],
    }


def short_path_formula(knobs: ShortPathKnobs) -> Numbers:
    """∂out/∂x_1 = W_O (a_1 W_V + a_1 (v_1 - out) β qᵀ W_K), for a token that does not ask itself."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.training.rng import seed_torch

    if knobs.network != "attention":
        return {}
    with seed_torch(knobs.seed, 0, "path length"), torch.no_grad():
        torch.nn.RNNCell(knobs.width, knobs.width)  # drawn before it by the lesson as well
        attention = MultiHeadAttention(knobs.width, n_heads=1).double()
        inputs = torch.randn(knobs.length, 8, knobs.width, dtype=torch.float64)
        to_query, to_key, to_value = attention.project
        keys, values, queries = inputs @ to_key.T, inputs @ to_value.T, inputs[-1] @ to_query.T
        weights = (torch.einsum("tbw,bw->tb", keys, queries) / math.sqrt(knobs.width)).softmax(0)
        mixed = torch.einsum("tb,tbw->bw", weights, values)
        asked = queries @ to_key / math.sqrt(knobs.width)
        inner = to_value + torch.einsum("bv,bx->bvx", values[0] - mixed, asked)
        slopes = attention.combine.weight @ (weights[0][:, None, None] * inner)
    return {"arrives at the first": float((slopes.flatten(1).norm(dim=1) / math.sqrt(knobs.width)).mean())}


@dataclass(frozen=True)
class MixedPositionsKnobs:
    mask: str = option("everything", "What a position may see", choices=("everything", "causal"))
    length: int = option(12, "Positions.", minimum=2, maximum=512)
    width: int = option(32, "Width of attention.", minimum=4, maximum=512)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_attention(width: int, length: int, seed: int, heads: int = 1) -> tuple[Tensor, Tensor]:
    """The matrices of queries, keys and values, (3, width, width), and a sequence, (length, width); both drawn."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, heads, "attention")
    project = torch.randn(3, width, width, generator=rng, dtype=torch.float64) / math.sqrt(width)
    return project, torch.randn(length, width, generator=rng, dtype=torch.float64)


def measure_mixed_positions(knobs: MixedPositionsKnobs) -> Numbers:
    """The weights of one head, and how far its output is from their combination of the values."""
    import torch

    from pellucid.layers.attention import attend, attention_weights
    from pellucid.layers.masks import CAUSAL, EVERYTHING

    project, x = _draw_attention(knobs.width, knobs.length, knobs.seed)
    queries, keys, values = (x @ matrix.T for matrix in project)
    mask = CAUSAL if knobs.mask == "causal" else EVERYTHING
    weights = attention_weights(queries, keys, mask=mask)
    others = weights[~torch.eye(knobs.length, dtype=torch.bool)]
    return {
        "others with a weight": float((others > 0).double().mean()),
        "least weight of another": float(others.min()),
        "mean weight of itself": float(weights.diagonal().mean()),
        "output off the combination by": float(
            (attend(queries, keys, values, mask=mask) - weights @ values).abs().max()
        ),
    }


def mix_by_loops(knobs: MixedPositionsKnobs) -> Numbers:
    """The weights by exponentials, pair by pair."""
    project, x = _draw_attention(knobs.width, knobs.length, knobs.seed)
    queries, keys = (x @ project[0].T).tolist(), (x @ project[1].T).tolist()
    own, least, n_others, n_with_weight = 0.0, 1.0, 0, 0
    for at, query in enumerate(queries):
        seen = keys[: at + 1] if knobs.mask == "causal" else keys
        powers = [math.exp(sum([q * k for q, k in zip(query, key, strict=True)]) / knobs.width**0.5) for key in seen]
        shares = [power / sum(powers) for power in powers] + [0.0] * (len(keys) - len(seen))
        own += shares[at] / len(queries)
        others = [*shares[:at], *shares[at + 1 :]]
        least, n_others = min(least, *others), n_others + len(others)
        n_with_weight += sum([share > 0 for share in others])
    return {
        "mean weight of itself": own,
        "least weight of another": least,
        "others with a weight": n_with_weight / n_others,
    }


@dataclass(frozen=True)
class ContextKnobs:
    layer: str = option("attention", "What reads the words", choices=("attention", "feed-forward"))
    words: int = option(6, "Words of a sentence; the last is the same in both.", minimum=2, maximum=100)
    width: int = option(32, "Width of the vectors.", minimum=4, maximum=512)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_contexts(knobs: ContextKnobs) -> Numbers:
    """One word behind other words, and behind the same words in another order: how far its vector is from the first."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.feed_forward import FeedForward
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "contexts"), torch.no_grad():
        attention, feed_forward = MultiHeadAttention(knobs.width, 4), FeedForward(knobs.width, starts_silent=False)
        word, first, second = (torch.randn(1, n, knobs.width) for n in (1, knobs.words - 1, knobs.words - 1))

        def read(before: Tensor) -> Tensor:
            x = torch.cat([before, word], dim=1)
            found: Tensor = attention(x, x, mask=EVERYTHING) if knobs.layer == "attention" else feed_forward(x)
            return found[0, -1]

        vector = read(first)
        apart = [float((read(one) - vector).norm() / vector.norm()) for one in (second, first.flip(1))]
    return {"apart behind other words": apart[0], "apart behind the same in another order": apart[1]}


EXAM, HOMEWORK = "exam 1.7", "homework 1.4a.2"

FAMILY = ClaimFamily(
    name="recurrence-and-attention",
    title="Recurrence and attention",
    picture="path-length",
    claims=(
        Claim(
            id="decoder-training-parallel",
            says="in training a decoder transformer reads all tokens of a sequence in parallel",
            where=EXAM,
            kind="arithmetic",
            measure=measure_chain,
            decides="more for each token",
            margin=lambda seen: 0.01 - seen["more for each token"],
            rule="its chain of products that wait for one another grows by less than 0.01 for each token",
            knobs=ChainKnobs,
            control={"network": "RNN encoder-decoder"},
            second=chain_closed_form,
        ),
        Claim(
            id="rnn-encdec-not-parallel",
            says="the tokens of an encoder-decoder RNN cannot be computed in parallel, in training or in generation",
            where=EXAM,
            kind="arithmetic",
            measure=measure_recurrent_chain,
            decides="more for each token",
            margin=lambda seen: (
                min(seen["more for each token in training"], seen["more for each token in generation"]) - 0.99
            ),
            rule="in both its chain of products that wait for one another is longer by one or more for each token",
            knobs=RecurrentPairKnobs,
            control={"network": "transformer encoder-decoder"},
            second=chain_closed_form,
            other_reading="to any wanted precision an RNN that forgets can: sweeps over all its tokens at once reach "
            "its states to a millionth after a number of them that does not grow with the length",
        ),
        Claim(
            id="decoder-test-not-parallel",
            says="at test time a decoder transformer cannot compute the tokens of a sequence in parallel",
            where=EXAM,
            kind="arithmetic",
            measure=measure_chain,
            decides="more for each token",
            margin=lambda seen: seen["more for each token"] - 0.99,
            rule="where it writes, its chain of products is longer by one or more for each token",
            knobs=WrittenChainKnobs,
            control={"way": "training"},
            second=chain_closed_form,
            other_reading="a test sequence that is given and only scored is read in parallel: that is the control",
        ),
        Claim(
            id="parallel-in-training-and-inference",
            says="a transformer is fully parallel over the positions, in training and in inference",
            where="homework 1.4a.1",
            kind="arithmetic",
            measure=measure_chain,
            decides="more for each token in generation",
            margin=lambda seen: (
                0.01 - max(seen["more for each token in training"], seen["more for each token in generation"])
            ),
            rule="neither in training nor in generation does its chain of products grow with the number of tokens",
            knobs=TransformerPairKnobs,
            control={"network": "encoder without a decoder"},
            other_reading="inference that writes nothing, as an encoder's, is: that is the control",
        ),
        Claim(
            id="transformer-trains-faster",
            says="since it is parallel, a transformer trains in much less time than a recurrent network",
            where="homework 1.4a.1, 1.4b.3",
            kind="cost",
            measure=time_training_steps,
            decides="times as fast",
            margin=lambda seen: seen["times as fast"] - 2,
            rule="a step of training takes half of an LSTM's time or less, with equal width and one thread",
            knobs=StepTimeKnobs,
            control={"cell": "lstm by steps", "batch": 1},
            search=Search("batch", 1, 256, n_values=5, is_log=True),
            seeds=5,
            other_reading="on hardware with many units, where the chain of products decides, which is not timed here; "
            "and beside an LSTM that is called token by token, which is the control",
            surprise="on one thread a step of an LSTM is the faster one at every batch size that was tried",
        ),
        Claim(
            id="rnn-path-length-n-vanishes",
            says="in RNN and LSTM the way to a token grows with its distance, so that gradients vanish",
            where=HOMEWORK,
            kind="draws",
            measure=measure_vanishing,
            decides="left by each token, rnn",
            margin=lambda seen: 1 - max(seen["left by each token, rnn"], seen["left by each token, lstm"]),
            rule="in the farther half of 32 tokens each leaves less of the gradient than it got, in both",
            changed="judged by what each token leaves of the gradient, for a size at one length tells nothing of "
            "growth with the length",
            knobs=VanishingKnobs,
            control={"scale": 6.0},
            search=Search("scale", 0.25, 8.0, n_values=6, is_log=True),
            second=multiply_jacobians,
            tolerance=1e-9,
            seeds=5,
            other_reading="the way is as long at every scale: what each step passes on decides, not its length",
        ),
        Claim(
            id="attention-path-length-one",
            says="attention reaches every token by a way of one length, and no gradient degrades with distance",
            where="homework 1.4a.2, 1.4b.2",
            kind="draws",
            measure=measure_short_path,
            decides="far over near",
            margin=lambda seen: (
                seen["far over near"] - 0.5
                if seen["operations to the first"] == seen["operations to the last but one"]
                else -1.0
            ),
            rule="as many operations lead to the first token as to the last but one, and the four farthest are reached "
            "by half as much as the four nearest, or more",
            knobs=ShortPathKnobs,
            control={"network": "lstm"},
            second=short_path_formula,
            tolerance=1e-9,
            seeds=5,
            other_reading="it does with the number of tokens: of twice as many each is reached by about half",
        ),
        Claim(
            id="attends-to-all-other-positions",
            says="what self-attention gives a position is a weighted combination of all other positions",
            where="homework 1.4a.3",
            kind="draws",
            measure=measure_mixed_positions,
            decides="others with a weight",
            margin=lambda seen: (
                1e-9 - (1 - seen["others with a weight"]) if seen["output off the combination by"] < 1e-9 else -1.0
            ),
            rule="the output is the combination, and every other position has a weight above 0 in it",
            knobs=MixedPositionsKnobs,
            control={"mask": "causal"},
            second=mix_by_loops,
            seeds=5,
            other_reading="of all others and not of itself: a position takes part in its own combination as any other",
        ),
        Claim(
            id="context-dependent-vectors",
            says="with self-attention the same word has other vectors in other contexts",
            where="homework 1.4b.4",
            kind="draws",
            measure=measure_contexts,
            decides="apart behind other words",
            margin=lambda seen: seen["apart behind other words"] - 0.01,
            rule="behind other words its vector is more than 1 % of its length away",
            knobs=ContextKnobs,
            control={"layer": "feed-forward"},
            seeds=5,
            other_reading="the order of the words is no context: without positions it changes nothing",
        ),
    ),
)
