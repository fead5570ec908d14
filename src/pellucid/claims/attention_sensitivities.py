"""Attention sensitivities: what moving or stretching one key, or moving one query, does to weights and outputs.

Queries, keys and values are drawn from a normal distribution. In the statements keys are rows of the attention matrix
and queries are columns; a key's weight for a query is the part of its value in that query's output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

    from pellucid.lessons.attention_sensitivity import AttentionChange

    Array = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

STILL = 1e-12  # a number that changes by less did not change
MOVED = 2  # which key or query it is, counted from 0


def draw_vectors(n_queries: int, n_keys: int, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of normal numbers, in double precision."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(seed, 0, "queries, keys, values")
    sizes = (n_queries, n_keys, n_keys)
    queries, keys, values = (torch.randn(n, width, generator=rng, dtype=torch.float64) for n in sizes)
    return queries, keys, values


def plain_weights(scores: Array) -> Array:
    """Softmax of each row by NumPy."""
    import numpy as np

    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


# One key or one query moves


@dataclass(frozen=True)
class MovedKeyKnobs:
    positions: int = option(8, "Queries, and keys.", minimum=3, maximum=64)
    width: int = option(16, "Numbers of each query, key and value.", minimum=1, maximum=256)
    length: float = option(0.1, "How far the key moves.", minimum=1e-6, maximum=100)
    mask: str = option("none", "What queries may see", choices=("none", "causal"))
    looked_at: str = option("weights", "What is looked at: the weights, or the scores", choices=("weights", "scores"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_step(width: int, length: float, seed: int) -> Tensor:
    import torch

    from pellucid.training.rng import torch_rng

    step: Tensor = torch.randn(width, generator=torch_rng(seed, 0, "step"), dtype=torch.float64)
    return step * (length / float(step.norm()))


def measure_moved_key(knobs: MovedKeyKnobs) -> Numbers:
    """How many outputs move with one key, and how many rows of the weights or the scores."""
    from pellucid.layers.attention import inverse_root
    from pellucid.layers.masks import CAUSAL, EVERYTHING
    from pellucid.lessons.attention_sensitivity import move_key

    queries, keys, values = draw_vectors(knobs.positions, knobs.positions, knobs.width, knobs.seed)
    step = _draw_step(knobs.width, knobs.length, knobs.seed)
    mask = CAUSAL if knobs.mask == "causal" else EVERYTHING
    change: AttentionChange = move_key(queries, keys, values, which=MOVED, by=step, mask=mask).measured
    if knobs.looked_at == "scores":
        rows = queries.new_zeros(knobs.positions, knobs.positions)
        rows[:, MOVED] = inverse_root(knobs.width) * queries @ step
    else:
        rows = change.weights
    moves = change.outputs.norm(dim=1)
    in_all = rows.abs().sum()
    return {
        "outputs that move": float((moves > STILL).sum()),
        "outputs": float(len(moves)),
        "least move": float(moves.min()),
        "rows that change": float((rows.abs().amax(0) > STILL).sum()),
        "part of the change in other rows": float((in_all - rows[:, MOVED].abs().sum()) / in_all),
    }


def derive_moved_key(knobs: MovedKeyKnobs) -> Numbers:
    """The same by formula: a weight a becomes a·e^δ / (1 + a (e^δ - 1)), and all others shrink by one factor."""
    import numpy as np

    queries, keys, values = (
        one.numpy() for one in draw_vectors(knobs.positions, knobs.positions, knobs.width, knobs.seed)
    )
    scores = queries @ keys.T / math.sqrt(knobs.width)
    if knobs.mask == "causal":
        scores = np.where(np.tri(knobs.positions, dtype=bool), scores, -np.inf)
    weights = plain_weights(scores)
    nudges = queries @ _draw_step(knobs.width, knobs.length, knobs.seed).numpy() / math.sqrt(knobs.width)
    own = weights[:, MOVED]
    gains = own * np.exp(nudges) / (1 + own * np.expm1(nudges)) - own
    away = np.linalg.norm(values[MOVED] - weights @ values, axis=1)
    moves = np.abs(gains) / np.maximum(1 - own, 1e-300) * away
    found = {"outputs that move": float((moves > STILL).sum()), "least move": float(moves.min())}
    if knobs.looked_at == "scores":
        return {**found, "rows that change": 1.0, "part of the change in other rows": 0.0}
    seen_with = (weights > 0)[own > 0].any(0)  # keys that share a query with the one that moves
    return {**found, "rows that change": float(seen_with.sum()), "part of the change in other rows": 0.5}


@dataclass(frozen=True)
class MovedQueryKnobs:
    positions: int = option(8, "Queries, and keys.", minimum=3, maximum=64)
    width: int = option(16, "Numbers of each query, key and value.", minimum=1, maximum=256)
    length: float = option(0.1, "How far it moves.", minimum=1e-6, maximum=100)
    moved: str = option(
        "query", "A query, or a token of self-attention, which makes query, key and value", choices=("query", "token")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _attend_tokens(tokens: Tensor, knobs: MovedQueryKnobs) -> Tensor:
    """Self-attention with drawn matrices."""
    from pellucid.layers.attention import attend
    from pellucid.layers.masks import EVERYTHING

    matrices = draw_vectors(knobs.width, knobs.width, knobs.width, knobs.seed + 1)
    queries, keys, values = (tokens @ one / math.sqrt(knobs.width) for one in matrices)
    return attend(queries, keys, values, mask=EVERYTHING)


def measure_moved_query(knobs: MovedQueryKnobs) -> Numbers:
    """How many outputs move, by moving it and looking."""
    from pellucid.lessons.attention_sensitivity import move_query

    queries, keys, values = draw_vectors(knobs.positions, knobs.positions, knobs.width, knobs.seed)
    step = _draw_step(knobs.width, knobs.length, knobs.seed)
    if knobs.moved == "query":
        change = move_query(queries, keys, values, which=MOVED, by=step).measured.outputs
    else:
        moved = queries.clone()
        moved[MOVED] += step
        change = _attend_tokens(moved, knobs) - _attend_tokens(queries, knobs)
    moves = change.norm(dim=1)
    return {"outputs that move": float((moves > STILL).sum()), "its own moves by": float(moves[MOVED])}


def derive_moved_query(knobs: MovedQueryKnobs) -> Numbers:
    """How many outputs depend on it, by the derivative."""
    import torch

    from pellucid.lessons.attention_sensitivity import move_query

    queries, keys, values = draw_vectors(knobs.positions, knobs.positions, knobs.width, knobs.seed)
    if knobs.moved == "query":
        step = torch.zeros(knobs.width, dtype=torch.float64)
        return {"outputs that move": float(move_query(queries, keys, values, which=MOVED, by=step).can_move.sum())}

    tokens = queries.requires_grad_()
    outputs = _attend_tokens(tokens, knobs).square().sum(-1)
    slopes = [torch.autograd.grad(one, tokens, retain_graph=True)[0][MOVED] for one in outputs]
    return {"outputs that move": float(sum([bool(slope.abs().max() > STILL) for slope in slopes]))}


# How far an output moves, by the key's weight and by β


@dataclass(frozen=True)
class KeyWeightKnobs:
    weight: float = option(0.1, "The weight that the key has before it moves.", minimum=1e-6, maximum=0.999999)
    keys: int = option(8, "Keys; all but one score the same.", minimum=2, maximum=256)

    def __post_init__(self) -> None:
        check_options(self)


def _slope_of_output(weight: float, n_keys: int) -> float:
    """How far the output moves for a small step of the key along the query, over the step's effect on the score."""
    import torch

    from pellucid.lessons.attention_sensitivity import move_key

    query = torch.zeros(1, n_keys, dtype=torch.float64)
    query[0, 0] = 1.0
    keys = torch.eye(n_keys, dtype=torch.float64)
    keys[0, 0] = math.log(weight / (1 - weight) * (n_keys - 1))
    values = torch.eye(n_keys, dtype=torch.float64)
    found = move_key(query, keys, values, which=0, by=1e-3 * query[0], scale=1.0)
    return float(found.predicted.outputs.norm() / 1e-3)


def measure_key_weight(knobs: KeyWeightKnobs) -> Numbers:
    """The effect of a key of this weight, and that effect over the weight beside the same for a vanishing weight."""
    effect, vanishing = (_slope_of_output(weight, knobs.keys) for weight in (knobs.weight, 1e-6))
    return {"effect over weight": effect / knobs.weight / (vanishing / 1e-6), "effect": effect}


def derive_key_weight(knobs: KeyWeightKnobs) -> Numbers:
    """a (1 - a) times the distance from its value to the mean of the others."""
    distance = math.sqrt(1 + 1 / (knobs.keys - 1))
    return {
        "effect over weight": (1 - knobs.weight) / (1 - 1e-6),
        "effect": knobs.weight * (1 - knobs.weight) * distance,
    }


@dataclass(frozen=True)
class BetaKnobs:
    scale: float = option(0.25, "β, which is compared with 2 β; 1/√d is 0.25.", minimum=1e-4, maximum=1000)
    queries: int = option(300, "Queries.", minimum=1, maximum=10_000)
    keys: int = option(8, "Keys that each query chooses among.", minimum=2, maximum=256)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _reaches(knobs: BetaKnobs, scale: float) -> tuple[Tensor, Tensor]:
    """The most that each output moves with a key, and with its own query, for a step of length 1."""
    import torch

    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING

    queries, keys, values = draw_vectors(knobs.queries, knobs.keys, 16, knobs.seed)
    which = MOVED % knobs.keys
    is_moved = torch.arange(knobs.keys)[:, None] == which

    def output(key: Tensor, query: Tensor) -> Tensor:
        moved = torch.where(is_moved, key, keys)
        return (attention_weights(query[None], moved, scale=scale, mask=EVERYTHING) @ values)[0]

    # For each query (values' width, width): one by one, which is far less than all outputs by one key.
    slopes = torch.func.vmap(torch.func.jacrev(output, argnums=(0, 1)), in_dims=(None, 0))(keys[which], queries)
    by_key, by_query = (torch.linalg.matrix_norm(one, ord=2) for one in slopes)
    return by_key, by_query


def measure_beta(knobs: BetaKnobs) -> Numbers:
    """How many times as far outputs move with 2 β as with β: the median one, and the mean of all."""
    (key, query), (key_twice, query_twice) = (_reaches(knobs, scale) for scale in (knobs.scale, 2 * knobs.scale))
    return {
        "key, median": float(key_twice.median() / key.median()),
        "query, median": float(query_twice.median() / query.median()),
        "key, mean": float(key_twice.mean() / key.mean()),
        "query, mean": float(query_twice.mean() / query.mean()),
    }


def derive_beta(knobs: BetaKnobs) -> Numbers:
    """By formula: β a |q| |v - h| for a key, and the norm of β Vᵀ (diag(a) - a aᵀ) K for a query."""
    import numpy as np

    queries, keys, values = (one.numpy() for one in draw_vectors(knobs.queries, knobs.keys, 16, knobs.seed))
    which, found = MOVED % knobs.keys, {}
    for scale in (knobs.scale, 2 * knobs.scale):
        weights = plain_weights(scale * queries @ keys.T)
        away = np.linalg.norm(values[which] - weights @ values, axis=1)
        by_key = scale * weights[:, which] * np.linalg.norm(queries, axis=1) * away
        spread = weights[:, :, None] * np.eye(knobs.keys) - weights[:, :, None] * weights[:, None]
        by_query = scale * np.linalg.norm(values.T @ spread @ keys, ord=2, axis=(1, 2))
        found[scale] = by_key.mean(), by_query.mean()
    (key, query), (key_twice, query_twice) = found.values()
    return {"key, mean": float(key_twice / key), "query, mean": float(query_twice / query)}


# A key that is made longer


@dataclass(frozen=True)
class StretchedKeyKnobs:
    factor: float = option(2.0, "How many times as long the key becomes.", minimum=1, maximum=1e9)
    queries: int = option(64, "Queries.", minimum=2, maximum=4096)
    keys: int = option(8, "Keys.", minimum=2, maximum=256)
    numbers: str = option("any", "Numbers of queries and keys: of any sign, or positive", choices=("any", "positive"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class EndlessKeyKnobs(StretchedKeyKnobs):
    factor: float = option(1e6, "How many times as long the key becomes.", minimum=1, maximum=1e9)


def _draw_stretched(knobs: StretchedKeyKnobs) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys, values = draw_vectors(knobs.queries, knobs.keys, 16, knobs.seed)
    return (queries, keys, values) if knobs.numbers == "any" else (queries.abs(), keys.abs(), values)


def measure_stretched_key(knobs: StretchedKeyKnobs) -> Numbers:
    """For which part of the queries the key's weight rises, and for which part the output becomes its value."""
    from pellucid.lessons.attention_sensitivity import scale_key

    queries, keys, values = _draw_stretched(knobs)
    which = MOVED % knobs.keys
    found = scale_key(queries, keys, values, which=which, factor=knobs.factor)
    outputs = found.before.outputs + found.measured.outputs
    weights = found.before.weights[:, which] + found.measured.weights[:, which]
    return {
        "weights that rise": float((found.measured.weights[:, which] > 0).double().mean()),
        "outputs at its value": float(((outputs - values[which]).abs().amax(1) < 1e-3).double().mean()),
        "least weight": float(weights.clamp(min=0).min()),
    }


def count_signs(knobs: StretchedKeyKnobs) -> Numbers:
    """A longer key gains where its score is above 0. Far out, it has all there, and nothing elsewhere."""
    queries, keys, _ = _draw_stretched(knobs)
    above = float((queries @ keys[MOVED % knobs.keys] > 0).double().mean())
    return {"weights that rise": above, **({"outputs at its value": above} if knobs.factor >= 1e6 else {})}


KEY, QUERY, STRETCHED = "homework 1.1e", "homework 1.1f", "homework 1.1g"

FAMILY = ClaimFamily(
    name="attention-sensitivities",
    title="Attention: sensitivities",
    picture="sensitivity",
    claims=(
        Claim(
            id="one-key-moves-all-outputs",
            says="moving one key changes the outputs of all queries",
            where=KEY,
            kind="proof",
            measure=measure_moved_key,
            decides="outputs that move",
            margin=lambda seen: seen["outputs that move"] - seen["outputs"] + 0.5,
            rule="with one of 8 keys moved by 0.1, all 8 outputs change by more than 1e-12",
            knobs=MovedKeyKnobs,
            control={"mask": "causal"},
            second=derive_moved_key,
            seeds=5,
            other_reading="under a causal mask only those that come after the key: that is the control",
        ),
        Claim(
            id="one-key-changes-one-row-of-A",
            surprise="softmax shares among all keys, so half of what one key changes lies in the rows of the others",
            says="moving one key changes one row of the attention matrix",
            where="homework 1.1e/f",
            kind="proof",
            measure=measure_moved_key,
            decides="rows that change",
            margin=lambda seen: 0.5 - abs(seen["rows that change"] - 1),
            rule="of the 8 rows of weights, one for each key, exactly one changes by more than 1e-12",
            knobs=MovedKeyKnobs,
            control={"looked_at": "scores"},
            second=derive_moved_key,
            other_reading="of the scores it is one row; softmax takes from all other keys just what that one gains",
        ),
        Claim(
            id="key-effect-proportional-to-weight",
            says="what moving a key does to an output is proportional to the key's weight in it",
            where=KEY,
            kind="proof",
            measure=measure_key_weight,
            decides="effect over weight",
            margin=lambda seen: 0.25 - abs(seen["effect over weight"] - 1),
            rule="the effect over the weight stays within a quarter of what it is for a vanishing weight",
            knobs=KeyWeightKnobs,
            control={"weight": 0.9},
            search=Search("weight", 0.001, 0.999, n_values=9),
            second=derive_key_weight,
            other_reading="it goes with a (1 - a): largest at one half, and a key that has all moves nothing",
        ),
        Claim(
            id="larger-beta-more-sensitive",
            says="the larger β, the farther the outputs move with a key or a query",
            where="homework 1.1e/f",
            kind="draws",
            measure=measure_beta,
            decides="key, median",
            margin=lambda seen: min(seen["key, median"], seen["query, median"]) - 1,
            rule="with β doubled the median output moves farther, both with a key and with its query",
            changed="the control was turned round, for at the usual 1/√d the median output no longer gains",
            knobs=BetaKnobs,
            control={"scale": 0.05},
            search=Search("scale", 0.01, 10.0, n_values=7, is_log=True),
            second=derive_beta,
            seeds=5,
            other_reading="the mean over outputs: the few that are undecided between two keys keep it up",
        ),
        Claim(
            id="one-query-moves-one-output",
            says="moving one query changes its own output and no other",
            where=QUERY,
            kind="proof",
            measure=measure_moved_query,
            decides="outputs that move",
            margin=lambda seen: 0.5 - abs(seen["outputs that move"] - 1),
            rule="exactly one of 8 outputs changes by more than 1e-12",
            knobs=MovedQueryKnobs,
            control={"moved": "token"},
            second=derive_moved_query,
            seeds=5,
            other_reading="in self-attention a token that moves takes its key and value along, and all outputs change",
        ),
        Claim(
            id="scaled-key-gains-for-all-queries",
            says="a key that is made longer gains weight for all queries",
            where=STRETCHED,
            kind="proof",
            measure=measure_stretched_key,
            decides="weights that rise",
            margin=lambda seen: yes(seen["weights that rise"] == 1),
            rule="made twice as long, its weight rises for every one of 64 queries",
            knobs=StretchedKeyKnobs,
            control={"numbers": "positive"},
            second=count_signs,
            other_reading="it gains where its score is above 0, and loses where it is below",
        ),
        Claim(
            id="alpha-infinity-all-outputs-to-vi",
            says="as a key grows without end all outputs become its value",
            where=STRETCHED,
            kind="proof",
            measure=measure_stretched_key,
            decides="outputs at its value",
            margin=lambda seen: yes(seen["outputs at its value"] == 1),
            rule="made a million times as long, its value is the output of every one of 64 queries, but for 1e-3",
            knobs=EndlessKeyKnobs,
            control={"numbers": "positive"},
            second=count_signs,
            other_reading="for a query whose score with it is below 0 the key vanishes instead",
        ),
    ),
)
