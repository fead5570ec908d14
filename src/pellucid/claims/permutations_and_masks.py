"""Permutations, convolutions and masks: attention that copies, reorders or averages neighbours, and one that waits.

Weights are chosen or drawn here, none is trained: what a layer of attention can be, and what its mask makes of it.
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

    from pellucid.models.sequences.frame_recogniser import FrameRecogniser

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
class ReachKnobs:
    scale: float = option(50.0, "Scale β of the scores.", minimum=0.001, maximum=500)
    stream: str = option("all different", "Tokens of the stream", choices=("all different", "two alike"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_reach(knobs: ReachKnobs) -> Numbers:
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


def reach_closed_form(knobs: ReachKnobs) -> Numbers:
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


# Causal masks


@dataclass(frozen=True)
class FutureKnobs:
    mask: str = option(
        "-inf",
        "What hides later keys: -∞ on scores, scores times 0, or nothing",
        choices=("-inf", "times 0", "nothing"),
    )
    length: int = option(12, "Tokens.", minimum=2, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_queries(knobs: FutureKnobs | TriangleKnobs) -> tuple[Tensor, Tensor]:
    """Queries and keys as columns: (8, length) each."""
    import torch

    from pellucid.training.rng import torch_rng

    both = torch.randn(2, 8, knobs.length, generator=torch_rng(knobs.seed, 0, "queries, keys"), dtype=torch.float64)
    return both[0], both[1]


def measure_future(knobs: FutureKnobs) -> Numbers:
    """The largest weight of a query on a key behind it, in columns: a_ji with j > i."""
    import torch

    from pellucid.layers.attention import attend_columns, inverse_root
    from pellucid.layers.masks import CAUSAL, EVERYTHING

    queries, keys = _draw_queries(knobs)
    if knobs.mask == "times 0":
        seen = torch.ones(knobs.length, knobs.length, dtype=torch.float64).triu()
        weights = (keys.mT @ queries * inverse_root(8) * seen).softmax(0)
    else:
        weights = attend_columns(queries, keys, keys, mask=EVERYTHING if knobs.mask == "nothing" else CAUSAL).weights
    return {
        "largest weight on the future": weights.tril(-1).max().item(),
        "first key for the second query": weights[0, 1].item(),
    }


def list_future(knobs: FutureKnobs) -> Numbers:
    """Each query by itself, over the keys up to its own alone, in plain Python."""
    if knobs.mask != "-inf":
        return {}
    queries, keys = _draw_queries(knobs)
    scores = [sum([float(keys[i, j] * queries[i, 1]) for i in range(8)]) / math.sqrt(8) for j in (0, 1)]
    return {"first key for the second query": 1 / (1 + math.exp(scores[1] - scores[0]))}


@dataclass(frozen=True)
class TriangleKnobs:
    vectors: str = option("columns", "Whether queries are columns of A, or rows", choices=("columns", "rows"))
    length: int = option(12, "Tokens.", minimum=2, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_triangle(knobs: TriangleKnobs) -> Numbers:
    """How much weight stands above the diagonal of A, and how much below it."""
    from pellucid.layers.attention import attend_columns, attention_weights
    from pellucid.layers.masks import CAUSAL

    queries, keys = _draw_queries(knobs)
    if knobs.vectors == "columns":
        weights = attend_columns(queries, keys, keys, mask=CAUSAL).weights
    else:
        weights = attention_weights(queries.mT, keys.mT, mask=CAUSAL)
    return {"above the diagonal": weights.triu(1).sum().item(), "below it": weights.tril(-1).sum().item()}


def transpose_triangle(knobs: TriangleKnobs) -> Numbers:
    """torch's own attention gives the weights when its values are the identity; its queries are rows."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    queries, keys = _draw_queries(knobs)
    every = torch.eye(knobs.length, dtype=torch.float64)
    weights = scaled_dot_product_attention(queries.mT[None], keys.mT[None], every[None], is_causal=True)[0]
    above, below = weights.triu(1).sum().item(), weights.tril(-1).sum().item()
    names = ("above the diagonal", "below it") if knobs.vectors == "rows" else ("below it", "above the diagonal")
    return dict(zip(names, (above, below), strict=True))


@dataclass(frozen=True)
class ArrivingKnobs:
    look_ahead: int = option(0, "Frames past its own that the first block sees.", minimum=0, maximum=8)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


ARRIVED, HEARD = 24, 400  # frames of a recording; frames before the one whose cost is counted


def _draw_recogniser(knobs: ArrivingKnobs) -> tuple[FrameRecogniser, Tensor]:
    """A recogniser of frames whose weights are all drawn, and a recording."""
    import torch

    from pellucid.models.sequences.frame_recogniser import FrameRecogniser
    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, 0, "recogniser")
    recogniser = FrameRecogniser(features=6, classes=6, context=16).double().eval()
    with torch.no_grad():
        for parameter in recogniser.parameters():
            parameter.normal_(0.0, 0.3, generator=rng)
    return recogniser, torch.randn(1, ARRIVED, 6, generator=rng, dtype=torch.float64)


def measure_arriving(knobs: ArrivingKnobs) -> Numbers:
    """Each frame is answered as it arrives: how much that answer changes once all later frames are there.

    And what it costs to know nothing later: the best that anyone can tell of tones in noise, now and 8 frames on.
    """
    import torch

    from pellucid.data.sets.tones import record_tones
    from pellucid.lessons.streaming import FRAMES, LASTING, N_TONES, best_guesses, count_frame

    recogniser, frames = _draw_recogniser(knobs)
    with torch.no_grad():
        whole = recogniser(frames, knobs.look_ahead)[0]
        told = torch.stack([recogniser(frames[:, : t + 1], knobs.look_ahead)[0, t] for t in range(ARRIVED)])
    heard = record_tones(knobs.seed, 100, FRAMES, N_TONES, LASTING, noise=1.5)
    now, later = ((guess == heard.tones)[:, 16:40].mean() for guess in best_guesses(heard, (0, 8), 1.5))
    cost = count_frame(recogniser, HEARD)
    return {
        "answers change by": (told - whole).abs().max().item(),
        "an answer": whole[ARRIVED // 2, 0].item(),
        "operations for a frame": float(cost.cached_flops),
        "without a cache": float(cost.whole_flops),
        "tones told at best, at once": float(now),
        "8 frames later": float(later),
    }


def stream_arriving(knobs: ArrivingKnobs) -> Numbers:
    """Frame by frame, with rings of keys and values that were kept."""
    from pellucid.lessons.streaming import stream_frames

    recogniser, frames = _draw_recogniser(knobs)
    return {"an answer": stream_frames(recogniser, frames, knobs.look_ahead)[0, ARRIVED // 2, 0].item()}


LAYER, BAND, CAUSAL_MASK = "homework 1.3c", "homework 1.3d", "homework 1.3e"

FAMILY = ClaimFamily(
    name="permutations-and-masks",
    title="Permutations, convolutions and masks",
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
            measure=measure_reach,
            decides="off by",
            margin=lambda seen: 1e-6 - seen["off by"],
            rule="for each of the 120 orders of five tokens there is a W_Q whose output is the stream in that order",
            knobs=ReachKnobs,
            control={"stream": "two alike"},
            second=reach_closed_form,
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
        Claim(
            id="causal-mask-zeroes-future",
            says="with a causal mask the weight of every later key is 0",
            where=CAUSAL_MASK,
            kind="proof",
            measure=measure_future,
            decides="largest weight on the future",
            margin=lambda seen: 1e-12 - seen["largest weight on the future"],
            rule="of drawn scores of 12 tokens no weight on a later key is above 1e-12",
            knobs=FutureKnobs,
            control={"mask": "times 0"},
            second=list_future,
        ),
        Claim(
            id="causal-A-lower-triangular",
            says="with a causal mask the attention matrix, whose queries are columns, is lower triangular",
            where=CAUSAL_MASK,
            kind="proof",
            measure=measure_triangle,
            decides="above the diagonal",
            margin=lambda seen: 1e-12 - seen["above the diagonal"],
            rule="in the document's own columns, A = softargmax(KᵀQ), nothing stands above the diagonal",
            knobs=TriangleKnobs,
            control={"vectors": "rows"},
            second=transpose_triangle,
            other_reading="with queries as rows, as most code has them, it is: that is the control",
        ),
        Claim(
            id="causal-mask-allows-streaming",
            says="with a causal mask each frame can be answered as it arrives",
            where=CAUSAL_MASK,
            kind="draws",
            measure=measure_arriving,
            decides="answers change by",
            margin=lambda seen: 1e-9 - seen["answers change by"],
            rule="no answer given at once differs by over 1e-9 from the one that knows all later frames",
            knobs=ArrivingKnobs,
            control={"look_ahead": 2},
            second=stream_arriving,
            seeds=5,
            other_reading="not that nothing is lost: who may wait for 8 frames tells more of the same tones",
        ),
    ),
)
