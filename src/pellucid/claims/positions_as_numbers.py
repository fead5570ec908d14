"""Positions as numbers: how large they are, how far they go, and what two of them have in common at one distance.

Nothing is trained here; learned positions are those that a network begins with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

ADDED = ("index", "sinusoidal", "learned")  # kinds that are added to the embeddings
SLOWEST = 10_000.0  # of the formula of sinusoids, here once more: the second routes do not ask our own layer
DISTANCE = 4


def added_rows(encoding: str, length: int, width: int, asked: int | None = None, seed: int = 1) -> Tensor:
    """What this encoding, built for `length` positions, adds to the first `asked` tokens: (asked, width)."""
    import torch

    from pellucid.layers.positions import build_positions
    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "positions"), torch.no_grad():
        positions = build_positions(encoding, length=length, width=width, n_heads=1, is_causal=False)
        rows = positions.embeddings(0, length if asked is None else asked)
    assert rows is not None, f"{encoding} positions are not added"
    return rows.detach().double()


def wave_speeds(width: int) -> list[float]:
    """By how much each pair of a sinusoid turns from one position to the next."""
    return [SLOWEST ** (-pair / width) for pair in range(0, width, 2)]


# How large, how far


@dataclass(frozen=True)
class EncodingKnobs:
    encoding: str = option("sinusoidal", "Kind of positions", choices=ADDED)
    length: int = option(4096, "Positions that are asked for.", minimum=2, maximum=8192)
    width: int = option(16, "Numbers of each position.", minimum=2, maximum=512)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class TableKnobs(EncodingKnobs):
    encoding: str = option("learned", "Kind of positions", choices=ADDED)
    rows: int = option(512, "Positions that the table was made for.", minimum=1, maximum=4096)


def measure_bounds(knobs: EncodingKnobs) -> Numbers:
    """The largest and the smallest number that an encoding adds."""
    rows = added_rows(knobs.encoding, knobs.length, knobs.width)
    return {"largest": rows.max().item(), "smallest": rows.min().item()}


def list_waves(knobs: EncodingKnobs) -> Numbers:
    """The formula, position by position, in plain Python."""
    if knobs.encoding != "sinusoidal":
        return {}
    turns = [place * speed for place in range(knobs.length) for speed in wave_speeds(knobs.width)]
    waves = [*map(math.sin, turns), *map(math.cos, turns)]
    return {"largest": max(waves), "smallest": min(waves)}


def measure_unending(knobs: EncodingKnobs) -> Numbers:
    """Eight times as many positions as were kept ready: how many come, and how near any two of them are."""
    import torch

    rows = added_rows(knobs.encoding, max(1, knobs.length // 8), knobs.width, asked=knobs.length)
    return {
        "positions that came": float(len(rows)),
        "asked for": float(knobs.length),
        "nearest two": float(torch.nn.functional.pdist(rows).min()),
    }


def nearest_waves(knobs: EncodingKnobs) -> Numbers:
    """Two sinusoids k positions apart have the distance √Σ(2 - 2 cos ωk), wherever they are."""
    if knobs.encoding != "sinusoidal":
        return {}
    speeds = wave_speeds(knobs.width)
    squares = [sum([2 - 2 * math.cos(speed * k) for speed in speeds]) for k in range(1, knobs.length)]
    return {"nearest two": math.sqrt(min(squares)), "positions that came": float(knobs.length)}


def measure_cap(knobs: TableKnobs) -> Numbers:
    """The longest sequence, up to twice the table, to whose tokens this encoding can be added."""
    import torch

    longest = 0
    for n in range(1, 2 * knobs.rows + 1):
        tokens = torch.zeros(n, knobs.width, dtype=torch.float64)
        try:
            tokens + added_rows(knobs.encoding, knobs.rows, knobs.width, asked=n)
        except RuntimeError:  # a stream of n and fewer rows do not go together
            break
        longest = n
    return {"longest": float(longest), "rows": float(knobs.rows)}


def look_up_cap(knobs: TableKnobs) -> Numbers:
    """torch's own table, asked for one position after another until there is none."""
    import torch

    if knobs.encoding != "learned":
        return {}
    table = torch.nn.Embedding(knobs.rows, 1)
    for n in range(1, 2 * knobs.rows + 1):
        try:
            table(torch.tensor(n - 1))
        except IndexError:
            return {"longest": float(n - 1)}
    return {"longest": float(2 * knobs.rows)}


# From a position to a later one


@dataclass(frozen=True)
class LinearShiftKnobs:
    encoding: str = option("sinusoidal", "Kind of positions", choices=ADDED)
    constant: str = option(
        "no", "Whether the map may add a constant, as a layer with a bias does", choices=("no", "yes")
    )
    width: int = option(16, "Numbers of each position.", minimum=2, maximum=64)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class IndexShiftKnobs(LinearShiftKnobs):
    encoding: str = option("index", "Kind of positions", choices=ADDED)
    constant: str = option(
        "yes", "Whether the map may add a constant, as a layer with a bias does", choices=("no", "yes")
    )


FITTED = 512  # positions that a map is fitted on; as many behind them are what it is tried on


def measure_linear_shift(knobs: LinearShiftKnobs) -> Numbers:
    """One map for all positions to those 4 later, by least squares: how much of the step it misses on new ones."""
    import torch

    rows = added_rows(knobs.encoding, 2 * FITTED + DISTANCE, knobs.width)
    ones = torch.ones(len(rows), 1, dtype=rows.dtype)
    inputs = torch.cat([rows, ones], dim=1) if knobs.constant == "yes" else rows
    now, later = slice(0, FITTED), slice(DISTANCE, FITTED + DISTANCE)
    matrix = torch.linalg.pinv(inputs[now], rtol=1e-6) @ rows[later]
    now, later = slice(FITTED, 2 * FITTED), slice(FITTED + DISTANCE, 2 * FITTED + DISTANCE)
    missed = (inputs[now] @ matrix - rows[later]).norm() / (rows[later] - rows[now]).norm()
    steps = [rows[start + DISTANCE] - rows[start] for start in (5, 105)]
    products = [(rows[start] @ rows[start + DISTANCE]).item() for start in (5, 105)]
    return {
        "missed of the step": missed.item(),
        "first number of the map": matrix[0, 0].item(),
        "steps from 5 and 105 differ by": (steps[0] - steps[1]).norm().item(),
        "product of 5 and 9": products[0],
        "product of 105 and 109": products[1],
    }


def shift_closed_form(knobs: LinearShiftKnobs) -> Numbers:
    """Sinusoids turn, so the map begins with cos 4; an index with a constant has i + 4, without one a slope fitted."""
    if knobs.encoding == "sinusoidal":
        product = sum([math.cos(speed * DISTANCE) for speed in wave_speeds(knobs.width)])
        first = {"first number of the map": math.cos(DISTANCE)} if knobs.constant == "no" else {}
        return {**first, "product of 5 and 9": product, "product of 105 and 109": product}
    if knobs.encoding != "index":
        return {}
    known, places = range(FITTED), range(FITTED, 2 * FITTED)
    slope = sum([i * (i + DISTANCE) for i in known]) / sum([i * i for i in known]) if knobs.constant == "no" else 1.0
    shift = 0 if knobs.constant == "no" else DISTANCE
    misses = [(slope * i + shift - i - DISTANCE) ** 2 for i in places]
    return {
        "missed of the step": math.sqrt(sum(misses) / len(misses)) / DISTANCE,
        "first number of the map": slope,
        "product of 5 and 9": 45.0,
        "product of 105 and 109": 11_445.0,
    }


# What two tokens give at one distance


@dataclass(frozen=True)
class ScoreKnobs:
    encoding: str = option("sinusoidal", "Kind of positions", choices=("sinusoidal", "learned", "rotary"))
    width: int = option(16, "Width of the tokens.", minimum=2, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class TurnKnobs(ScoreKnobs):
    encoding: str = option("rotary", "Kind of positions", choices=("sinusoidal", "learned", "rotary"))


PLACES = 256


def drawn_tokens(knobs: ScoreKnobs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two tokens, and the matrices that make a query of one and a key of the other."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, 0, "tokens and projections")
    tokens = torch.randn(2, knobs.width, generator=rng, dtype=torch.float64)
    queries, keys = torch.randn(2, knobs.width, knobs.width, generator=rng, dtype=torch.float64) / knobs.width**0.5
    return tokens[0], tokens[1], queries, keys


def measure_scores(knobs: ScoreKnobs) -> Numbers:
    """The score of the same two tokens, 4 apart, at 256 places: how much it varies, beside its size."""
    from pellucid.layers.positions.encodings import rotary_angles, rotate
    from pellucid.lessons.position_encodings import by_distance, new_encoding

    asks, answers, queries, keys = drawn_tokens(knobs)
    if knobs.encoding == "rotary":
        angles = rotary_angles(PLACES + DISTANCE, knobs.width)
        q = rotate((asks @ queries).expand(PLACES, -1), angles[DISTANCE:].double())
        k = rotate((answers @ keys).expand(PLACES, -1), angles[:PLACES].double())
    else:
        rows = added_rows(knobs.encoding, PLACES + DISTANCE, knobs.width, seed=knobs.seed)
        q, k = (asks + rows[DISTANCE:]) @ queries, (answers + rows[:PLACES]) @ keys
    scores = (q * k).sum(-1)
    bare = new_encoding(knobs.encoding, 64, knobs.width, knobs.seed).products
    return {
        "varies by": ((scores.max() - scores.min()) / scores.abs().max()).item(),
        "score at the first place": scores[0].item(),
        "score at the last place": scores[-1].item(),
        "positions alone vary by": by_distance(bare),
    }


def scores_closed_form(knobs: ScoreKnobs) -> Numbers:
    """A pair of a query and one of a key as complex numbers: the real part of q · conj(k) · exp(4ωi), summed."""
    import cmath

    if knobs.encoding != "rotary":
        return {}
    asks, answers, queries, keys = drawn_tokens(knobs)
    q, k = (asks @ queries).tolist(), (answers @ keys).tolist()
    speeds = wave_speeds(knobs.width)
    pairs = [(complex(*q[2 * i : 2 * i + 2]), complex(*k[2 * i : 2 * i + 2])) for i in range(len(speeds))]
    score = sum(
        [
            (one * other.conjugate() * cmath.exp(1j * DISTANCE * speed)).real
            for (one, other), speed in zip(pairs, speeds, strict=True)
        ]
    )
    return {"score at the first place": score, "score at the last place": score}


# A token beside its position


@dataclass(frozen=True)
class OutweighKnobs:
    encoding: str = option("index", "Kind of positions", choices=("index", "sinusoidal"))
    added_to: str = option(
        "every number", "Numbers of a token that the index is added to", choices=("every number", "first number")
    )
    length: int = option(512, "Tokens of a sequence.", minimum=2, maximum=4096)
    spread: float = option(1.0, "Deviation of the numbers of an embedding.", minimum=0.001, maximum=1000)
    width: int = option(64, "Numbers of an embedding.", minimum=2, maximum=512)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


N_TOKENS = 64


def draw_outweighed(knobs: OutweighKnobs) -> tuple[Tensor, Tensor]:
    """Embeddings of 64 tokens, and what the positions add to each."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, 0, "embeddings")
    tokens = knobs.spread * torch.randn(N_TOKENS, knobs.width, generator=rng, dtype=torch.float64)
    rows = added_rows(knobs.encoding, knobs.length, knobs.width)
    if knobs.encoding == "index" and knobs.added_to == "every number":
        rows = rows[:, :1].expand(-1, knobs.width)
    return tokens, rows


def measure_outweighed(knobs: OutweighKnobs) -> Numbers:
    """How much of the variance over all tokens at all places is the place's own, before and behind a layer norm."""
    from torch.nn.functional import layer_norm

    tokens, rows = draw_outweighed(knobs)
    placed = tokens + rows[:, None]  # (length, tokens, width)
    return {
        "share of the position": _share_of_places(placed),
        "share behind a layer norm": _share_of_places(layer_norm(placed, (knobs.width,))),
        "largest position": rows.abs().max().item(),
    }


def _share_of_places(placed: Tensor) -> float:
    """placed: (places, tokens, width) -> variance of the mean of each place, over the variance of all."""
    whole = (placed - placed.mean((0, 1))).square().sum((0, 1)).sum()
    of_places = (placed.mean(1) - placed.mean((0, 1))).square().sum() * placed.shape[1]
    return float(of_places / whole)


def outweighed_closed_form(knobs: OutweighKnobs) -> Numbers:
    """The numbers 0 to n - 1 have the variance (n² - 1) / 12, in one number of a token or in all of them."""
    if knobs.encoding != "index":
        return {}
    tokens, _ = draw_outweighed(knobs)
    of_tokens = float(tokens.var(0, correction=0).sum())
    numbers = knobs.width if knobs.added_to == "every number" else 1
    of_places = numbers * (knobs.length**2 - 1) / 12
    return {"share of the position": of_places / (of_places + of_tokens), "largest position": knobs.length - 1.0}


LOG, ANSWERS = "log Q11 C.4", "answers Q3"

FAMILY = ClaimFamily(
    name="positions-as-numbers",
    title="Positions as numbers",
    picture="positions",
    claims=(
        Claim(
            id="sinusoid-bounded",
            says="all numbers of a sinusoidal encoding are within -1 and 1, however far the position",
            where=LOG,
            kind="proof",
            measure=measure_bounds,
            decides="largest",
            margin=lambda seen: 1 + 1e-9 - max(seen["largest"], -seen["smallest"]),
            rule="of 4,096 positions no number is above 1 or below -1",
            knobs=EncodingKnobs,
            control={"encoding": "index"},
            second=list_waves,
        ),
        Claim(
            id="sinusoid-any-length",
            says="sinusoidal positions can be given to a sequence of any length",
            where=ANSWERS,
            kind="proof",
            measure=measure_unending,
            decides="nearest two",
            margin=lambda seen: yes(seen["positions that came"] == seen["asked for"] and seen["nearest two"] > 1e-3),
            rule="at eight times the length that was planned each position has its numbers, and no two are "
            "nearer than 0.001",
            knobs=EncodingKnobs,
            control={"encoding": "learned"},
            second=nearest_waves,
            other_reading="that a network reads longer sequences well is another claim: sinusoid-generalises-lengths",
        ),
        Claim(
            id="learned-pe-length-cap",
            says="learned positions serve sequences up to a length that was set, and none beyond it",
            where=ANSWERS,
            kind="proof",
            measure=measure_cap,
            decides="longest",
            margin=lambda seen: yes(seen["longest"] == seen["rows"]),
            rule="of all lengths up to 1,024, a table of 512 rows serves 1 to 512",
            knobs=TableKnobs,
            control={"encoding": "sinusoidal"},
            second=look_up_cap,
            other_reading="only lengths less than the one set: the length itself is served too",
        ),
        Claim(
            id="sinusoid-shift-is-linear",
            says="the encoding of a position 4 later is one linear function of the encoding, for all positions",
            where=LOG,
            kind="proof",
            measure=measure_linear_shift,
            decides="missed of the step",
            margin=lambda seen: 0.01 - seen["missed of the step"],
            rule="a matrix fitted on 512 positions misses less than 1 % of the steps of the next 512",
            knobs=LinearShiftKnobs,
            control={"encoding": "learned"},
            second=shift_closed_form,
            tolerance=1e-4,
        ),
        Claim(
            id="index-lacks-shift-property",
            says="for a plain index no one linear function leads from each position to the one 4 later",
            where=LOG,
            kind="proof",
            measure=measure_linear_shift,
            decides="missed of the step",
            margin=lambda seen: seen["missed of the step"] - 0.01,
            rule="the best linear map with a constant, as a layer with a bias is, misses over 1 % of the steps",
            knobs=IndexShiftKnobs,
            control={"constant": "no"},
            second=shift_closed_form,
            other_reading="without a constant there is none: that is the control. As products, which attention takes, "
            "5 and 9 give 45, and 105 and 109 give 11,445, where sinusoids give one number for both",
        ),
        Claim(
            id="sinusoid-not-absolute",
            says="sinusoidal positions are no absolute positions, as learned ones are",
            where=ANSWERS,
            kind="draws",
            measure=measure_scores,
            decides="varies by",
            margin=lambda seen: 0.01 - seen["varies by"],
            rule="two tokens 4 apart have the same score, to 1 %, at each of 256 places",
            knobs=ScoreKnobs,
            control={"encoding": "rotary"},
            seeds=5,
            other_reading="products of the sinusoids alone depend on the distance alone; behind the matrices of "
            "queries and keys, and with tokens, scores do not",
        ),
        Claim(
            id="rope-relative-rotation",
            says="rotary positions turn queries and keys, and their product keeps the distance alone",
            where=ANSWERS,
            kind="draws",
            measure=measure_scores,
            decides="varies by",
            margin=lambda seen: 1e-4 - seen["varies by"],
            rule="two tokens 4 apart have the same score, to single precision, at each of 256 places",
            knobs=TurnKnobs,
            control={"encoding": "sinusoidal"},
            second=scores_closed_form,
            seeds=5,
        ),
        Claim(
            id="index-position-dominates-token",
            says="where the index itself is added, the position outweighs the token",
            where=LOG,
            kind="draws",
            measure=measure_outweighed,
            decides="share of the position",
            margin=lambda seen: seen["share of the position"] - 0.5,
            rule="over half of the variance of what is read comes from positions, at every length from 2 to 512",
            knobs=OutweighKnobs,
            control={"encoding": "sinusoidal"},
            search=Search("length", 2, 512, is_log=True),
            second=outweighed_closed_form,
            seeds=5,
            other_reading="behind a layer norm nothing is left of an index in every number: it takes away what all "
            "numbers have in common",
        ),
    ),
)
