"""Causal masks: what they leave of the attention matrix, who then asks whom, and answers while frames arrive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, yes
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.models.sequences.frame_recogniser import FrameRecogniser


# The attention matrix


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


# Frames as they arrive


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


# Who is asked by whom


@dataclass(frozen=True)
class GraphKnobs:
    length: int = option(6, "Tokens.", minimum=1, maximum=64)
    mask: str = option("causal", "Who may be seen", choices=("causal", "everything", "chain"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_graph(knobs: GraphKnobs) -> Numbers:
    """The edges of attention, from each key with a weight to its query, beside those of the chain v₁ → v₂ … vₙ → vₙ."""
    import torch

    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import CAUSAL, EVERYTHING, BooleanMask

    n = knobs.length
    chain = torch.eye(n, dtype=torch.bool).roll(-1, dims=1).tril(-1)  # a row for each query
    chain[-1, -1] = True
    mask = {"causal": CAUSAL, "everything": EVERYTHING, "chain": BooleanMask(chain)}[knobs.mask]
    tokens = torch.randn(n, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    edges = attention_weights(tokens, tokens, mask=mask) > 0
    return {
        "edges": float(edges.sum()),
        "edges of the chain": float(chain.sum()),
        "in one alone": float((edges != chain).sum()),
    }


def count_edges(knobs: GraphKnobs) -> Numbers:
    n = knobs.length
    edges = {"causal": n * (n + 1) / 2, "everything": n**2, "chain": n}[knobs.mask]
    return {"edges": float(edges), "edges of the chain": float(n)}


WHERE = "homework 1.3e"

FAMILY = ClaimFamily(
    name="causal-masks",
    title="Causal masks",
    picture="masks",
    claims=(
        Claim(
            id="causal-mask-zeroes-future",
            says="with a causal mask the weight of every later key is 0",
            where=WHERE,
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
            where=WHERE,
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
            where=WHERE,
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
        Claim(
            id="attention-graph-is-a-chain",
            says="attention works on the graph in which each token points to the next and the last to itself",
            where="notes §17",
            kind="proof",
            measure=measure_graph,
            decides="edges",
            margin=lambda seen: yes(seen["in one alone"] == 0),
            rule="of six tokens under a causal mask, the pairs with a weight are the edges of that chain",
            knobs=GraphKnobs,
            control={"mask": "chain"},
            second=count_edges,
            other_reading="as training pairs, each token's target is the next one",
        ),
    ),
)
