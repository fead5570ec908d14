"""Sizes of heads: what several heads of attention cost beside one, in parameters, FLOPs and seconds, and what they can.

Counted and timed as in sizes_and_latency.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers
from pellucid.claims.sizes_and_latency import count_flops, least_seconds, one_thread
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HeadSizeKnobs:
    width: int = option(512, "Embedding (model) dimension.", minimum=8, maximum=16_384)
    heads: int = option(8, "Attention heads.", minimum=1, maximum=128)
    head_width: str = option("shared", "Each head has its part of the width, or all of it", choices=("shared", "whole"))
    tokens: int = option(128, "Tokens that are read.", minimum=1, maximum=100_000)
    beside: str = option("one head", "What heads are timed beside", choices=("one head", "heads in turn"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class BaseHeadKnobs:
    width: int = option(768, "Embedding (model) dimension.", minimum=8, maximum=16_384)
    heads: int = option(12, "Attention heads.", minimum=1, maximum=128)
    biases: str = option("no", "Whether queries, keys and values have biases", choices=("no", "yes"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_head_width(knobs: HeadSizeKnobs | BaseHeadKnobs) -> Numbers:
    """From the shape that our attention splits a stream into."""
    import torch

    from pellucid.layers.attention import split_heads

    heads = split_heads(torch.empty(1, 4, knobs.width, device="meta"), knobs.heads)
    return {"heads": float(heads.shape[1]), "width of a head": float(heads.shape[-1])}


def count_projections(knobs: BaseHeadKnobs) -> Numbers:
    """The parameters of the projections to queries, keys and values, counted on our module."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention

    with torch.device("meta"):
        attention = MultiHeadAttention(knobs.width, knobs.heads, has_bias=knobs.biases == "yes")
    biases = attention.shift.numel() if attention.shift is not None else 0
    return {"parameters": float(attention.project.numel() + biases)}


def measure_heads(knobs: HeadSizeKnobs) -> Numbers:
    """FLOPs and parameters of attention with so many heads and with one, by formula; per token 8 d², per pair 4 d."""
    wider = knobs.heads if knobs.head_width == "whole" else 1
    inner, d, n = knobs.width * wider, knobs.width, knobs.tokens
    return {
        "FLOPs over one head": (8.0 * n * d * inner + 4.0 * n * n * inner) / (8.0 * n * d * d + 4.0 * n * n * d),
        "parameters over one head": (4.0 * d * inner) / (4.0 * d * d),
        "numbers of softmax over one head": float(knobs.heads),
    }


def count_heads(knobs: HeadSizeKnobs) -> Numbers:
    """By counting our module's parameters, and torch's FLOPs while it runs. None has heads of the whole width."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING

    if knobs.head_width == "whole":
        return {}
    flops, parameters = [], []
    for heads in (knobs.heads, 1):
        with torch.device("meta"):
            attention = MultiHeadAttention(knobs.width, heads, has_bias=False)
        x = torch.empty(1, knobs.tokens, knobs.width, device="meta")
        flops.append(count_flops(functools.partial(attention, x, x, mask=EVERYTHING)))
        parameters.append(sum([one.numel() for one in attention.parameters()]))
    return {"FLOPs over one head": flops[0] / flops[1], "parameters over one head": parameters[0] / parameters[1]}


def time_softmax_of_heads(knobs: HeadSizeKnobs) -> Numbers:
    """Softmax of scores and what it mixes: all heads at once, beside one head, or beside the same heads in turn."""
    import torch

    from pellucid.layers.attention import attend

    rng = torch.Generator().manual_seed(knobs.seed)
    q, k, v = torch.randn(3, 1, knobs.tokens, knobs.width, generator=rng)

    def run(heads: int) -> Tensor:
        parts = [one.reshape(1, knobs.tokens, heads, -1).transpose(1, 2).contiguous() for one in (q, k, v)]
        return attend(*parts)

    def run_in_turn() -> list[Tensor]:
        size = knobs.width // knobs.heads
        return [
            attend(*[one[:, None, :, at : at + size].contiguous() for one in (q, k, v)])
            for at in range(0, knobs.width, size)
        ]

    other = run_in_turn if knobs.beside == "heads in turn" else functools.partial(run, 1)
    several, beside = least_seconds(functools.partial(run, knobs.heads), other, repeats=20)
    return {"ms of the heads": 1e3 * several, "ms beside": 1e3 * beside, "times as long": several / beside}


@dataclass(frozen=True)
class SharingKnobs:
    width: int = option(64, "Width of attention, and units of the image layer.", minimum=8, maximum=4096)
    heads: int = option(8, "Heads, and filters of 3 × 3.", minimum=1, maximum=128)
    image: int = option(28, "Rows and columns of the image.", minimum=3, maximum=512)
    beside: str = option("one head", "What heads are counted beside", choices=("one head", "whole heads"))

    def __post_init__(self) -> None:
        check_options(self)


def count_shared_parameters(knobs: SharingKnobs) -> Numbers:
    """Heads beside one head, or as many of whole width; filters beside a dense layer of the same shapes."""
    import torch
    from torch import nn

    from pellucid.layers.attention import MultiHeadAttention

    with torch.device("meta"):
        several = MultiHeadAttention(knobs.width, knobs.heads, has_bias=False)
        single = MultiHeadAttention(knobs.width, 1, has_bias=False)
        filters = nn.Conv2d(1, knobs.heads, 3, padding=1)
    n_several, n_single, n_filters = (sum([p.numel() for p in one.parameters()]) for one in (several, single, filters))
    beside = n_single * (knobs.heads if knobs.beside == "whole heads" else 1)
    dense = (knobs.image**2 + 1) * knobs.image**2 * knobs.heads
    return {"heads": n_several / beside, "filters": n_filters / dense}


@dataclass(frozen=True)
class RelationsKnobs:
    heads: int = option(4, "Attention heads.", minimum=1, maximum=32)
    relations: int = option(2, "Earlier tokens that the answer asks for.", minimum=1, maximum=2)
    steps: int = option(250, "Steps of 64 sequences.", minimum=10, maximum=5000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class Recall(NamedTuple):
    """How often a network names all tokens that it is asked for, and where it looks in 1,000 sequences."""

    right: float
    weights: Tensor  # (layers, sequences, heads, positions)
    asked: tuple[int, ...]  # the positions, counted from 0


@functools.cache
def train_to_recall(heads: int, relations: int, steps: int, seed: int, layers: int = 1) -> Recall:
    """Attention of width 32 that is to name so many of six tokens at once: the second, the fifth, and others.

    A later layer asks with what the layers before it found, and adds to it.
    """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import seed_torch, torch_rng

    asked = [1, 4, 2, 3, 0][:relations]
    with seed_torch(seed, 0, "weights"):
        embedding, places = nn.Embedding(8, 32), nn.Parameter(torch.randn(6, 32))
        stack = [MultiHeadAttention(32, heads) for _ in range(layers)]
        outputs = nn.Linear(32, 8 * relations)
    modules = [embedding, *stack, outputs]
    parameters = [places, *[one for module in modules for one in module.parameters()]]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    rng = torch_rng(seed, 0, "tokens")

    def look(tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The scores of each answer, and what each layer asked with: (batch, 1, width)."""
        stream = embedding(tokens) + places
        asking = [stream[:, -1:]]
        found: Tensor = stack[0](asking[0], stream, mask=EVERYTHING)
        for attention in stack[1:]:
            asking.append(stream[:, -1:] + found)
            found = found + attention(asking[-1], stream, mask=EVERYTHING)
        return outputs(found[:, 0]).reshape(-1, relations, 8), asking

    with one_thread():
        for _ in range(steps):
            tokens = torch.randint(8, (64, 6), generator=rng)
            optimizer.zero_grad()
            loss = cross_entropy(look(tokens)[0].flatten(0, 1), tokens[:, asked].flatten())
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
        with torch.no_grad():
            tokens = torch.randint(8, (1000, 6), generator=rng)
            scores, asking = look(tokens)
            stream = embedding(tokens) + places
            seen = [
                one.weights(queries, stream, mask=EVERYTHING)[:, :, 0]
                for one, queries in zip(stack, asking, strict=True)
            ]
            right = float((scores.argmax(-1) == tokens[:, asked]).all(1).float().mean())
    return Recall(right, torch.stack(seen), tuple(asked))


def measure_recall(knobs: RelationsKnobs) -> Numbers:
    """Sequences of which all asked tokens are named right, with the heads and with one, and what both cost."""
    several, one = (
        train_to_recall(heads, knobs.relations, knobs.steps, knobs.seed).right for heads in (knobs.heads, 1)
    )
    cost = measure_heads(HeadSizeKnobs(width=32, heads=knobs.heads, tokens=6))
    return {"right with the heads": several, "right with one": one, "FLOPs over one head": cost["FLOPs over one head"]}


def gain_at_same_cost(seen: Numbers) -> float:
    is_same_cost = abs(seen["FLOPs over one head"] - 1) < 0.01
    return seen["right with the heads"] - seen["right with one"] - 0.05 if is_same_cost else -1.0


FAMILY = ClaimFamily(
    name="sizes-of-heads",
    title="Sizes of heads",
    claims=(
        Claim(
            id="heads-same-flops",
            says="attention with 8 heads has as many FLOPs as with one",
            where="log Q15",
            kind="cost",
            measure=measure_heads,
            decides="FLOPs over one head",
            margin=lambda seen: 0.01 - abs(seen["FLOPs over one head"] - 1),
            rule="their FLOPs differ by less than 1 %",
            knobs=HeadSizeKnobs,
            control={"head_width": "whole"},
            second=count_heads,
            covers=("mha-cost-like-single-head",),
            other_reading="softmax has eight times as many numbers to make, which are not counted",
        ),
        Claim(
            id="heads-better-hardware-use",
            says="several heads are computed faster than a single one of the same width",
            where="log Q15",
            kind="cost",
            measure=time_softmax_of_heads,
            decides="times as long",
            margin=lambda seen: 0.95 - seen["times as long"],
            rule="on one thread of this processor eight heads take less than 0.95 of the time of one",
            knobs=HeadSizeKnobs,
            control={"beside": "heads in turn", "tokens": 16},
            seeds=5,
            other_reading="faster than the same heads one after the other: that is the control",
        ),
        Claim(
            id="heads-increase-parameters",
            says="more heads mean many more parameters",
            where="notes §17.1",
            kind="cost",
            measure=measure_heads,
            decides="parameters over one head",
            margin=lambda seen: seen["parameters over one head"] - 1.5,
            rule="eight heads that share the width have half as many parameters again as one, or more",
            knobs=HeadSizeKnobs,
            control={"head_width": "whole"},
            second=count_heads,
            other_reading="that attention, feed-forward and norms add parameters to a table of bigrams",
        ),
        Claim(
            id="heads-raise-capacity-for-free",
            says="more heads express more at the same cost",
            where="homework 1.4c.3",
            kind="training",
            measure=measure_recall,
            decides="right with the heads",
            margin=gain_at_same_cost,
            rule="with as many FLOPs, four heads name two of six tokens 5 points more often than one head",
            knobs=RelationsKnobs,
            control={"relations": 1},
            seeds=20,
        ),
        Claim(
            id="heads-and-filters-parameter-efficient",
            says="heads, as small filters do, save parameters",
            where="homework 1.2b",
            kind="cost",
            measure=count_shared_parameters,
            decides="heads",
            margin=lambda seen: 0.5 - max(seen["heads"], seen["filters"]),
            rule="8 heads need less than half of one head's parameters, as 8 filters do of a dense layer's",
            knobs=SharingKnobs,
            control={"beside": "whole heads"},
            other_reading="beside as many heads of the whole width they do: that is the control",
        ),
        Claim(
            id="head-dim-64-of-512",
            says="eight heads of a width of 512 have 64 each",
            where="log Q15",
            kind="arithmetic",
            measure=measure_head_width,
            decides="width of a head",
            margin=lambda seen: 0.5 - abs(seen["width of a head"] - 64),
            rule="our attention gives each head 64 numbers",
            knobs=HeadSizeKnobs,
            control={"heads": 4},
            second=lambda knobs: {"width of a head": knobs.width / knobs.heads},
        ),
        Claim(
            id="d-head-768-over-h",
            says="with a width of 768 each of the twelve heads has 64",
            where="answers Calc 1a",
            kind="arithmetic",
            measure=measure_head_width,
            decides="width of a head",
            margin=lambda seen: 0.5 - abs(seen["width of a head"] - 64),
            rule="our attention gives each head 64 numbers",
            knobs=BaseHeadKnobs,
            control={"heads": 8},
            second=lambda knobs: {"width of a head": knobs.width / knobs.heads},
        ),
        Claim(
            id="qkv-parameters-3x768sq",
            says="queries, keys and values of a width of 768 take 3·768² parameters",
            where="answers Calc 1b",
            kind="arithmetic",
            measure=count_projections,
            decides="parameters",
            margin=lambda seen: 0.5 - abs(seen["parameters"] - 1_769_472),
            rule="our attention without biases has 1,769,472 of them",
            knobs=BaseHeadKnobs,
            control={"biases": "yes"},
            second=lambda knobs: {"parameters": 3.0 * knobs.width**2} if knobs.biases == "no" else {},
        ),
    ),
)
