"""A decoder set by hand that is to sort and drop doubles: its numbers on paper, and the slopes that argmax leaves it.

The model is that of `pellucid draw hand-set-attention`: one layer, one head, no positions, attention by argmax. What it
learns is in learning_to_sort.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, agreement, closeness
from pellucid.figures.charts.matrix import largest_difference
from pellucid.lessons.hand_set_attention import (
    COMBINATION,
    EMBEDDING,
    EXAMPLE,
    IDENTITY,
    PROJECTION,
    VOCABULARY,
    HandSetDecoder,
    HandSetPass,
    encode_tokens,
    trace_pass,
)
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

WAYS, PLACES = ("argmax", "softmax"), ("one before", "its own")
WAY, PLACE = "How weights are made of scores", "The place at which a token of the output is scored"
PROJECTIONS = ("queries", "keys", "values")


# The example on paper


@dataclass(frozen=True)
class ExampleKnobs:
    input: str = option(" ".join(EXAMPLE), "Tokens with blanks between them; START begins the output.")
    attention: str = option("argmax", WAY, choices=WAYS)

    def __post_init__(self) -> None:
        check_options(self)


def trace_example(knobs: ExampleKnobs) -> HandSetPass:
    return trace_pass(HandSetDecoder(is_hard=knobs.attention == "argmax"), knobs.attention, knobs.input.split())


STATED_WEIGHTS = (
    (1, 0, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0, 0),
    (0, 1 / 2, 1 / 2, 0, 0, 0, 0),
    (1 / 4, 1 / 4, 1 / 4, 1 / 4, 0, 0, 0),
    (0, 1 / 3, 1 / 3, 0, 1 / 3, 0, 0),
    (1 / 2, 0, 0, 0, 0, 1 / 2, 0),
    (1 / 7,) * 7,
)
STATED_Z = ((3, 0), (0, 3), (0, 3), (3 / 4, 3 / 2), (0, 3), (3, 0), (6 / 7, 9 / 7))


def measure_weights(knobs: ExampleKnobs) -> Numbers:
    """The attention of the worked example, beside the weights that are stated."""
    found = trace_example(knobs)
    return {"farthest from what is stated": largest_difference(found.attention, STATED_WEIGHTS)}


def measure_z(knobs: ExampleKnobs) -> Numbers:
    """What the head of the worked example puts out, beside what is stated."""
    found = trace_example(knobs)
    return {
        "farthest from what is stated": largest_difference(found.z, STATED_Z),
        "rows of R": float(len(found.logits)),
    }


def solve_example(tokens: Sequence[str] = EXAMPLE) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """The weights of argmax and Z in fractions, token by token."""
    vectors = [
        [sum([x * row[k] for x, row in zip(EMBEDDING[VOCABULARY.index(one)], PROJECTION, strict=True)]) for k in (0, 1)]
        for one in tokens
    ]
    weights, z = [], []
    for at, query in enumerate(vectors):
        scores = [query[0] * key[0] + query[1] * key[1] for key in vectors[: at + 1]]
        best = [one == max(scores) for one in scores] + [False] * (len(vectors) - at - 1)
        row = [Fraction(is_best, sum(best)) for is_best in best]
        weights.append(row)
        z.append([sum([share * one[k] for share, one in zip(row, vectors, strict=True)], Fraction()) for k in (0, 1)])
    return weights, z


def solve_weights(knobs: ExampleKnobs) -> Numbers:
    found = [[float(share) for share in row] for row in solve_example(knobs.input.split())[0]]
    return {"farthest from what is stated": largest_difference(found, STATED_WEIGHTS)}


def solve_z(knobs: ExampleKnobs) -> Numbers:
    found = [[float(number) for number in row] for row in solve_example(knobs.input.split())[1]]
    return {"farthest from what is stated": largest_difference(found, STATED_Z), "rows of R": float(len(found))}


@dataclass(frozen=True)
class KeyKnobs:
    keys: int = option(7, "Tokens that give keys; those behind the example repeat its last.", minimum=1, maximum=50)

    def __post_init__(self) -> None:
        check_options(self)


def measure_key_shapes(knobs: KeyKnobs) -> Numbers:
    """Kᵀ and QKᵀ of the seven tokens' queries and so many keys; and the sum of eight weights of 1/7."""
    model, places = HandSetDecoder(is_hard=True), encode_tokens(EXAMPLE)
    queries = model.embedding[places] @ model.queries[0]
    keys = model.embedding[[*places.tolist(), *[5] * 50][: knobs.keys]] @ model.keys[0]
    scores = queries @ keys.t()
    return {
        "rows": float(scores.shape[0]),
        "columns": float(scores.shape[1]),
        "columns of Kᵀ": float(keys.t().shape[1]),
        "eight weights of 1/7": 8 / 7,
    }


# Chances and losses


@dataclass(frozen=True)
class OwnPlaceKnobs:
    scored: str = option("its own", PLACE, choices=PLACES)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class TeacherKnobs:
    scored: str = option("one before", PLACE, choices=PLACES)

    def __post_init__(self) -> None:
        check_options(self)


def measure_chances(knobs: OwnPlaceKnobs | TeacherKnobs) -> Numbers:
    """The probabilities of A, D and STOP, their cross-entropy, and which rows of the logits it has a slope by."""
    import torch

    model, places = HandSetDecoder(is_hard=True), encode_tokens(EXAMPLE)
    back = 0 if knobs.scored == "its own" else 1
    logits = model(places).detach().requires_grad_()
    losses = torch.nn.functional.cross_entropy(logits[4 - back : 7 - back], places[4:], reduction="none")
    (slopes,) = torch.autograd.grad(losses.sum(), logits)
    matter = (slopes.abs().sum(-1) > 0).nonzero().flatten() + 1
    chances = dict(zip(("A", "D", "STOP"), (-losses).exp().tolist(), strict=True))
    return {
        "loss": float(losses.sum().detach()),
        **chances,
        "first row that matters": float(matter.min()),
        "last row that matters": float(matter.max()),
    }


def solve_chances(knobs: OwnPlaceKnobs | TeacherKnobs) -> Numbers:
    """From Z in fractions: logits (z₂, z₁, z₂, z₁, 0, 0)."""
    back = 0 if knobs.scored == "its own" else 1
    chances = {}
    for at, token in enumerate(EXAMPLE[4:], start=4 - back):
        first, second = solve_example()[1][at]
        logits = [float(second), float(first)] * 2 + [0.0, 0.0]
        powers = [math.exp(z) for z in logits]
        chances[token] = powers[VOCABULARY.index(token)] / math.fsum(powers)
    return {"loss": -math.fsum([math.log(p) for p in chances.values()]), **chances}


@dataclass(frozen=True)
class TwoHeadKnobs:
    combination: str = option(
        "identity", "W_O of two heads: the identity, or the two numbers of each head exchanged",
        choices=("identity", "exchanged"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_options(self)


EXCHANGED = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))


def measure_two_heads(knobs: TwoHeadKnobs) -> Numbers:
    """Logits and losses of the decoder with one head, and with two equal ones and another W_O."""
    one = trace_pass(HandSetDecoder(is_hard=True, combination=COMBINATION), "one head")
    matrix = IDENTITY if knobs.combination == "identity" else EXCHANGED
    two = trace_pass(HandSetDecoder(is_hard=True, combination=matrix), "two heads")
    return {
        "loss of two heads": two.unshifted_loss,
        "loss of one head": one.unshifted_loss,
        "logits apart by": largest_difference(one.logits, two.logits),
        "loss of two heads, one place before": two.shifted_loss,
        "loss of one head, one place before": one.shifted_loss,
    }


def solve_two_heads(knobs: TwoHeadKnobs) -> Numbers:
    """By hand: with the identity the logits of A and D have 0 where one head has 3, and STOP is as it was."""
    stop = math.log(2 * math.exp(9 / 7) + 2 * math.exp(6 / 7) + 2)
    both = 2 * math.log(2 * math.exp(3) + 4)
    swapped = both + stop
    return {
        "loss of one head": swapped - 6,
        "loss of two heads": swapped if knobs.combination == "identity" else swapped - 6,
    }


# What argmax lets through


@dataclass(frozen=True)
class AttentionWayKnobs:
    attention: str = option("argmax", WAY, choices=WAYS)

    def __post_init__(self) -> None:
        check_options(self)


def _example_loss(model: HandSetDecoder) -> Tensor:
    from torch.nn.functional import cross_entropy

    places = encode_tokens(EXAMPLE)
    return cross_entropy(model(places)[3:-1], places[4:], reduction="sum")


def nudge_projections(knobs: AttentionWayKnobs) -> Numbers:
    """The largest slope of the example's loss by a number of each projection, by nudging it to both sides."""
    import torch

    model, step, found = HandSetDecoder(is_hard=knobs.attention == "argmax"), 1e-5, {}
    with torch.no_grad():
        for name in PROJECTIONS:
            flat = model.named_matrices()[name].view(-1)
            slopes = []
            for at, kept in enumerate(flat.tolist()):
                losses = []
                for way in (step, -step):
                    flat[at] = kept + way
                    losses.append(float(_example_loss(model)))
                flat[at] = kept
                slopes.append(abs(losses[0] - losses[1]) / (2 * step))
            found[f"largest slope by {name}"] = max(slopes)
    return found


def differentiate_projections(knobs: AttentionWayKnobs) -> Numbers:
    """The same by torch, which has no gradient at all for what argmax chose by."""
    import torch

    model = HandSetDecoder(is_hard=knobs.attention == "argmax")
    matrices = [model.named_matrices()[name] for name in PROJECTIONS]
    slopes = torch.autograd.grad(_example_loss(model), matrices, allow_unused=True)
    return {
        f"largest slope by {name}": 0.0 if slope is None else float(slope.abs().max())
        for name, slope in zip(PROJECTIONS, slopes, strict=True)
    }


MATRIX, LOSS, LEARNING = "exam 3.2.2", "exam 3.2.3", "exam 3.2.5"

FAMILY = ClaimFamily(
    name="hand-set-decoder",
    title="A decoder set by hand",
    picture="hand-set-attention",
    claims=(
        Claim(
            id="dedupe-attention-matrix",
            says="argmax attention reads D A A START A D STOP with 1; 1; ½ twice; ¼ four times; ⅓ thrice; ½ twice; ⅐",
            where=MATRIX,
            kind="arithmetic",
            measure=measure_weights,
            margin=lambda seen: 1e-12 - seen["farthest from what is stated"],
            rule="each of the 49 weights is the stated fraction, but for rounding",
            knobs=ExampleKnobs,
            control={"attention": "softmax"},
            second=solve_weights,
        ),
        Claim(
            id="dedupe-printed-7x8",
            stated="8 columns",
            says="for these seven tokens Kᵀ is 2 × 8, and QKᵀ and the weights are 7 × 8",
            where=MATRIX,
            kind="arithmetic",
            measure=measure_key_shapes,
            decides="columns",
            margin=lambda seen: 0.5 - max(abs(seen["columns"] - 8), abs(seen["columns of Kᵀ"] - 8)),
            rule="the matrices that are computed have eight columns",
            knobs=KeyKnobs,
            control={"keys": 8},
            second=lambda knobs: {"rows": float(len(EXAMPLE)), "columns": float(len(EXAMPLE))},
            other_reading="a slip of the pen: a last row of eight times 1/7 sums to 8/7, and seven columns are meant",
        ),
        Claim(
            id="dedupe-z-values",
            says="Z has the rows (3, 0), (0, 3), (0, 3), (3/4, 3/2), (0, 3), (3, 0), (6/7, 9/7)",
            where=LOSS,
            kind="arithmetic",
            measure=measure_z,
            margin=lambda seen: 1e-12 - seen["farthest from what is stated"],
            rule="each of the 14 numbers is the stated fraction, but for rounding",
            knobs=ExampleKnobs,
            control={"attention": "softmax"},
            second=solve_z,
        ),
        Claim(
            id="dedupe-r-six-rows",
            stated="6 rows",
            says="R = Z W_O has six rows",
            where=LOSS,
            kind="arithmetic",
            measure=lambda knobs: {"rows of R": float(len(trace_example(knobs).logits))},
            margin=lambda seen: 0.5 - abs(seen["rows of R"] - 6),
            rule="the matrix that is computed has six rows",
            knobs=ExampleKnobs,
            control={"input": "D A START A D STOP"},
            second=lambda knobs: {"rows of R": float(len(knobs.input.split()))},
            other_reading="one of two equal rows is left out, and no number that follows depends on it",
        ),
        Claim(
            id="dedupe-probabilities",
            says="at their own places A, D and STOP have 0.4547, 0.4547 and 0.0717",
            where=LOSS,
            kind="arithmetic",
            measure=measure_chances,
            decides="STOP",
            margin=lambda seen: min(
                [closeness(seen[name], p, 4) for name, p in (("A", 0.4547), ("D", 0.4547), ("STOP", 0.0717))]
            ),
            rule="all three equal the stated numbers to four decimals",
            knobs=OwnPlaceKnobs,
            control={"scored": "one before"},
            second=solve_chances,
        ),
        Claim(
            id="dedupe-loss-42114",
            stated="4.2114",
            says="trained as a decoder the example costs 4.2114, and only the last three rows matter",
            where=LOSS,
            kind="arithmetic",
            measure=measure_chances,
            decides="loss",
            margin=lambda seen: min(
                closeness(seen["loss"], 4.2114, 4),
                0.5 - abs(seen["first row that matters"] - 5),
                0.5 - abs(seen["last row that matters"] - 7),
            ),
            rule="scored one place before, where a decoder has not read it, the output costs that, by rows 5 to 7",
            knobs=TeacherKnobs,
            control={"scored": "its own"},
            second=solve_chances,
            other_reading="it is the cost at each token's own place, where it was read already: nothing is foretold",
        ),
        Claim(
            id="two-identical-heads-same-r",
            says="two equal heads, with the identity for W_O, give the same R and the same loss",
            where="exam 3.2.4",
            kind="arithmetic",
            measure=measure_two_heads,
            decides="loss of two heads",
            margin=lambda seen: min(
                agreement((seen["loss of one head"], seen["loss of two heads"])), 1e-9 - seen["logits apart by"]
            ),
            rule="neither the loss nor any logit differs from those of one head",
            knobs=TwoHeadKnobs,
            control={"combination": "exchanged"},
            second=solve_two_heads,
            other_reading="the weights are the same; W_O of one head exchanges the numbers of Z, the identity does not",
        ),
        Claim(
            id="argmax-attention-zero-gradient",
            says="through argmax attention queries and keys get a gradient of 0",
            where=LEARNING,
            kind="arithmetic",
            measure=nudge_projections,
            decides="largest slope by queries",
            margin=lambda seen: 1e-9 - max(seen["largest slope by queries"], seen["largest slope by keys"]),
            rule="to nudge any number of W_Q or W_K changes the loss of the example by nothing",
            knobs=AttentionWayKnobs,
            control={"attention": "softmax"},
            second=differentiate_projections,
        ),
    ),
)
