"""Permutations and convolutions: attention that gives back its input, reorders it, or averages neighbours.

Weights are chosen or drawn here, none is trained: what a layer of attention can be, and what it takes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

TOKENS = 8


# Identity


@dataclass(frozen=True)
class IdentityKnobs:
    output: str = option("inverse", "W_O: the inverse of W_V, or drawn by itself", choices=("inverse", "drawn"))
    heads: int = option(2, "Attention heads; 8 numbers are shared by them.", minimum=1, maximum=8)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_identity(knobs: IdentityKnobs) -> tuple[Tensor, Tensor, Tensor]:
    """A stream, W_V and W_O."""
    import torch

    from pellucid.training.rng import torch_rng

    drawn = torch.randn(3, 8, 8, generator=torch_rng(knobs.seed, 0, "stream, W_V, W_O"), dtype=torch.float64)
    return drawn[0], drawn[1], torch.linalg.inv(drawn[1]) if knobs.output == "inverse" else drawn[2]


def measure_identity(knobs: IdentityKnobs) -> Numbers:
    """Our layer, whose mask leaves each token itself alone: how far what comes out is from what went in."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import Local

    stream, values, output = _draw_identity(knobs)
    layer = MultiHeadAttention(8, knobs.heads, has_bias=False).double()
    itself, batch = Local(0, 0), stream[None]
    with torch.no_grad():
        layer.project[2].copy_(values)
        assert isinstance(layer.combine, torch.nn.Linear)
        layer.combine.weight.copy_(output)
        out = layer(batch, batch, mask=itself)[0]
        weights = layer.weights(batch, batch, mask=itself)[0]
    return {
        "off by": (out - stream).abs().max().item(),
        "first number out": out[0, 0].item(),
        "weights off the identity by": (weights - torch.eye(8)).abs().max().item(),
    }


def multiply_identity(knobs: IdentityKnobs) -> Numbers:
    """C · W_Vᵀ · W_Oᵀ, by sums."""
    stream, values, output = (one.tolist() for one in _draw_identity(knobs))
    valued = [sum([stream[0][j] * values[i][j] for j in range(8)]) for i in range(8)]
    return {"first number out": sum([valued[j] * output[0][j] for j in range(8)])}


@dataclass(frozen=True)
class OwnTokenKnobs:
    scale: float = option(TOKENS**-0.5, "Scale β of the scores.", minimum=0.001, maximum=1000)
    tokens: int = option(TOKENS, "Tokens, at right angles and of length 1.", minimum=2, maximum=64)

    def __post_init__(self) -> None:
        check_options(self)


def measure_own_weight(knobs: OwnTokenKnobs) -> Numbers:
    """Tokens that are as like to themselves as can be, and unlike all others: how much each takes of itself."""
    import torch

    from pellucid.lessons.given_attention import identity_attention

    weights = identity_attention(torch.eye(knobs.tokens, dtype=torch.float64), knobs.scale)
    return {"weight on itself": weights.diag().min().item(), "on all others": (1 - weights.diag().min()).item()}


# Permutation


@dataclass(frozen=True)
class HardKnobs:
    tokens: int = option(4, "Tokens.", minimum=1, maximum=6)
    keys: str = option("any", "Which key each query may take: any, or each key once", choices=("any", "each once"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_one_key(knobs: HardKnobs) -> Numbers:
    """Every way in which each query takes exactly one key, by hard attention: how many of them permute the values."""
    import torch

    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING
    from pellucid.layers.softargmax import hardargmax

    places = range(knobs.tokens)
    taken = (
        itertools.permutations(places) if knobs.keys == "each once" else itertools.product(places, repeat=len(places))
    )
    chosen = torch.tensor(list(taken))  # (ways, tokens)
    keys = torch.eye(knobs.tokens, dtype=torch.float64)
    weights = attention_weights(keys[chosen], keys, mask=EVERYTHING, choose=hardargmax)  # (ways, tokens, tokens)
    is_permutation = (weights.sum(-2) == 1).all(-1)
    return {
        "share that permutes": is_permutation.double().mean().item(),
        "ways": float(len(chosen)),
        "most queries on one key": weights.sum(-2).max().item(),
    }


def count_one_key(knobs: HardKnobs) -> Numbers:
    """n! of nⁿ."""
    orders, ways = math.factorial(knobs.tokens), knobs.tokens**knobs.tokens
    return {"share that permutes": orders / ways if knobs.keys == "any" else 1.0}


@dataclass(frozen=True)
class OrderReachKnobs:
    scale: float = option(50.0, "Scale β of the scores.", minimum=0.001, maximum=500)
    stream: str = option("all different", "Tokens of the stream", choices=("all different", "two alike"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_reached_orders(knobs: OrderReachKnobs) -> Numbers:
    """All 120 orders of five drawn tokens: W_Q is solved for each, W_K = I, and the outputs are compared."""
    import torch

    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import torch_rng

    n = 5
    stream = torch.randn(n, 16, generator=torch_rng(knobs.seed, 0, "stream"), dtype=torch.float64)
    if knobs.stream == "two alike":
        stream[1] = stream[0]
    worst, least = 0.0, 1.0
    for order in itertools.permutations(range(n)):
        wanted = torch.eye(n, dtype=torch.float64)[list(order)]
        queries = torch.linalg.pinv(stream) @ wanted @ torch.linalg.pinv(stream.T)  # W_Q: stream · W_Q · streamᵀ
        weights = attention_weights(stream @ queries, stream, scale=knobs.scale, mask=EVERYTHING)
        worst = max(worst, (weights @ stream - stream[list(order)]).abs().max().item())
        least = min(least, (weights * wanted).sum(-1).min().item())
    return {"off by": worst, "weight on the one meant": least}


def reached_orders_closed_form(knobs: OrderReachKnobs) -> Numbers:
    """e^β / (e^β + n - 1), where every order can be reached."""
    return {"weight on the one meant": 1 / (1 + 4 * math.exp(-knobs.scale))} if knobs.stream == "all different" else {}


# Convolution


@dataclass(frozen=True)
class KernelKnobs:
    scale: float = option(20.0, "Scale β of the scores.", minimum=0.1, maximum=500)
    length: int = option(16, "Positions.", minimum=5, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_values(knobs: KernelKnobs) -> Tensor:
    import torch

    from pellucid.training.rng import torch_rng

    return torch.randn(knobs.length, 4, generator=torch_rng(knobs.seed, 0, "values"), dtype=torch.float64)


def measure_kernel(knobs: KernelKnobs) -> Numbers:
    """A head told to take .25 .5 .25 of each position's neighbours, beside torch's convolution with this kernel."""
    import torch
    from torch.nn.functional import conv1d

    from pellucid.lessons.given_attention import KERNEL, convolution_attention

    values = _draw_values(knobs)
    weights = convolution_attention(torch.eye(knobs.length, dtype=torch.float64), KERNEL, knobs.scale)
    mixed = weights @ values
    kernel = torch.tensor(KERNEL, dtype=torch.float64).expand(4, 1, 3)
    wanted = conv1d(values.T[None], kernel, padding=1, groups=4)[0].T
    apart = (mixed - wanted).abs().amax(-1)
    return {
        "off inside by": apart[1:-1].max().item(),
        "off at the ends by": max(apart[0].item(), apart[-1].item()),
        "a number in the middle": mixed[knobs.length // 2, 0].item(),
        "first weight of the first": weights[0, 0].item(),
    }


def slide_kernel(knobs: KernelKnobs) -> Numbers:
    """NumPy's convolution of one channel; at the end what is left of the kernel is shared: .5 of .75."""
    import numpy

    column: numpy.ndarray[tuple[int], numpy.dtype[numpy.float64]] = _draw_values(knobs)[:, 0].numpy()
    return {
        "a number in the middle": float(numpy.convolve(column, [0.25, 0.5, 0.25], mode="same")[knobs.length // 2]),
        "first weight of the first": 0.5 / 0.75,
    }


@dataclass(frozen=True)
class LocalKnobs:
    content: float = option(
        1.0, "Factor of the scores that come from contents; 0 leaves positions.", minimum=0, maximum=16
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_local(knobs: LocalKnobs) -> Numbers:
    """Attention to a position and its neighbours: what the best convolution of the three leaves unexplained.

    Scores are a bias for each distance and the product of queries and keys; all matrices are drawn.
    """
    import torch

    from pellucid.layers.attention import attend, inverse_root
    from pellucid.layers.masks import Local
    from pellucid.training.rng import torch_rng

    width, time = 8, 34
    rng = torch_rng(knobs.seed, 0, "local attention")
    queries, keys, values = torch.randn(3, width, width, generator=rng, dtype=torch.float64) / width**0.5
    shares = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64).log()
    distance = torch.arange(time)[None] - torch.arange(time)[:, None]
    bias = shares[(distance + 1).clamp(0, 2)]

    def read(n: int) -> tuple[Tensor, Tensor]:
        """Windows of three, (n · 32, 24), and what attention makes of them, (n · 32, 8); the ends are left out."""
        x = torch.randn(n, time, width, generator=rng, dtype=torch.float64)
        scale = knobs.content * inverse_root(width)
        out = attend(x @ queries, x @ keys, x @ values, scale=scale, mask=Local(1, 1), bias=bias)
        windows = torch.cat([x[:, :-2], x[:, 1:-1], x[:, 2:]], dim=-1)
        return windows.flatten(0, 1), out[:, 1:-1].flatten(0, 1)

    windows, out = read(64)
    kernel = torch.linalg.lstsq(windows, out).solution  # (24, 8): any convolution of three positions
    windows, out = read(64)
    missed = (windows @ kernel - out).square().sum() / out.square().sum()
    return {"unexplained": missed.item()}


LAYER, BAND = "homework 1.3c", "homework 1.3d"

FAMILY = ClaimFamily(
    name="permutations-and-convolutions",
    title="Permutations and convolutions",
    picture="convolution-like",
    claims=(
        Claim(
            id="identity-when-A-is-I",
            says="where the attention matrix is the identity and W_V with W_O too, the layer gives back its input",
            where=LAYER,
            kind="proof",
            measure=measure_identity,
            decides="off by",
            margin=lambda seen: 1e-9 - seen["off by"],
            rule="no number of the output differs from the input by over 1e-9, with W_O the inverse of a drawn W_V",
            knobs=IdentityKnobs,
            control={"output": "drawn"},
            second=multiply_identity,
        ),
        Claim(
            id="tokens-match-themselves-best",
            says="attention is the identity where each token is most like itself and least like the others",
            where=LAYER,
            kind="proof",
            measure=measure_own_weight,
            decides="weight on itself",
            margin=lambda seen: seen["weight on itself"] - 0.99,
            rule="eight tokens at right angles each take 99 % of themselves, at every scale from 0.1 to 50",
            knobs=OwnTokenKnobs,
            control={"scale": 20.0},
            search=Search("scale", 0.1, 50.0, is_log=True),
            second=lambda knobs: {"weight on itself": 1 / (1 + (knobs.tokens - 1) * math.exp(-knobs.scale))},
        ),
        Claim(
            id="one-key-per-query-is-permutation",
            says="attention permutes where each query takes exactly one key",
            where=LAYER,
            kind="proof",
            measure=measure_one_key,
            decides="share that permutes",
            margin=lambda seen: yes(seen["share that permutes"] == 1),
            rule="of all 256 ways in which four queries take one key each, every one is a permutation",
            knobs=HardKnobs,
            control={"keys": "each once"},
            second=count_one_key,
            other_reading="each key has to be taken once, too: that is the control",
        ),
        Claim(
            id="permutation-layer-reachable",
            says="with a large scale and suitable projections a layer of attention permutes its tokens",
            where=LAYER,
            kind="proof",
            measure=measure_reached_orders,
            decides="off by",
            margin=lambda seen: 1e-6 - seen["off by"],
            rule="for each of the 120 orders of five tokens there is a W_Q whose output is the stream in that order",
            knobs=OrderReachKnobs,
            control={"stream": "two alike"},
            second=reached_orders_closed_form,
            other_reading="two tokens that are alike, as words that come twice are without positions, ask for the same",
        ),
        Claim(
            id="conv-025-05-025",
            says="a head that takes .25 .5 .25 of three neighbours does what a convolution of size 3 does",
            where=BAND,
            kind="proof",
            measure=measure_kernel,
            decides="off inside by",
            margin=lambda seen: 1e-3 - seen["off inside by"],
            rule="away from both ends it gives what torch's convolution gives, to 0.001",
            knobs=KernelKnobs,
            control={"scale": 1.0},
            second=slide_kernel,
            other_reading="at the ends it does not: its weights sum to one, .667 .333, and those of a padded "
            "convolution to .75",
        ),
        Claim(
            id="attention-behaves-like-convolution",
            says="attention to a few neighbours acts like a convolution",
            where=BAND,
            kind="draws",
            measure=measure_local,
            decides="unexplained",
            margin=lambda seen: 0.01 - seen["unexplained"],
            rule="the best convolution of three positions leaves less than 1 % of it unexplained, whatever part of the "
            "scores comes from contents, from none to four times the usual",
            knobs=LocalKnobs,
            control={"content": 0.0},
            search=Search("content", 0.0, 4.0),
            seeds=5,
            other_reading="where scores come from distances alone it is one: that is the control",
        ),
    ),
)
