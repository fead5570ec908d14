"""One-hot look-ups: a vector with a single one times a table, the shapes that this has, and softmax of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, yes
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LookupKnobs:
    rows: int = option(3, "Rows of W, which has 27 columns.", minimum=1, maximum=1000)
    token: str = option(
        "one-hot",
        "What stands for a token: a one among zeros, or a vector of any numbers",
        choices=("one-hot", "dense"),
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class TenRowKnobs(LookupKnobs):
    rows: int = option(10, "Rows of W, which has 27 columns.", minimum=1, maximum=1000)


def measure_lookup(knobs: LookupKnobs) -> Numbers:
    """The tokens 1, 2 and 0 of three, each times W, beside the rows of W that they name."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    tokens = torch.tensor([1, 2, 0])
    vectors = torch.eye(3, dtype=torch.float64)[tokens]
    if knobs.token == "dense":
        vectors = torch.randn(3, 3, generator=rng, dtype=torch.float64)
    weights = torch.randn(knobs.rows, 27, generator=rng, dtype=torch.float64)
    can = vectors.shape[1] == len(weights)
    apart = (vectors @ weights - weights[tokens]).abs().max().item() if can else math.nan
    return {
        "columns of X": 3.0,
        "rows of W": float(knobs.rows),
        "can be multiplied": float(can),
        "furthest apart": apart if can else -1.0,
    }


@dataclass(frozen=True)
class TableOfScoresKnobs:
    n: int = option(4, "Order of the n-gram.", minimum=2, maximum=8)
    summed: str = option(
        "both", "What the product sums over: places and tokens, or tokens alone", choices=("both", "tokens")
    )
    indexed: str = option(
        "whole",
        "W of all places by all tokens, or the table of one place by its tokens",
        choices=("whole", "one place"),
    )
    read_as: str = option("as they are", "The slices as they are, or after softmax", choices=("as they are", "softmax"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _drawn_tables(knobs: TableOfScoresKnobs) -> tuple[Tensor, Tensor]:
    """W of shape (n - 1, 27, 27) from N(0, 1), and 50 windows of n - 1 tokens."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    return torch.randn(knobs.n - 1, 27, 27, generator=rng), torch.randint(0, 27, (50, knobs.n - 1), generator=rng)


def measure_einsum(knobs: TableOfScoresKnobs) -> Numbers:
    """One-hot windows times W by Einstein's summation, beside the network that looks its rows up."""
    import torch

    from pellucid.models.sequences.configs import NeuralNGramConfig
    from pellucid.models.sequences.windows import NeuralNGram

    weights, windows = _drawn_tables(knobs)
    one_hot = torch.nn.functional.one_hot(windows, 27).float()  # (m, n - 1, V)
    product = torch.einsum("mpv,pvw->mw" if knobs.summed == "both" else "mpv,pvw->mpw", one_hot, weights)
    model = NeuralNGram(NeuralNGramConfig(27, knobs.n))
    with torch.no_grad():
        model.table.copy_(weights)
        scores = model.of_windows(windows)  # (m, V)
    is_right_shape = product.shape == (50, 27)
    return {
        "dimensions of the product": float(product.dim()),
        "furthest apart": (product - scores).abs().max().item() if is_right_shape else -1.0,
    }


def measure_indexing(knobs: TableOfScoresKnobs) -> Numbers:
    """W[XS], as it is written, beside the scores that the network gives."""
    weights, windows = _drawn_tables(knobs)
    right = sum([weights[place][windows[:, place]] for place in range(knobs.n - 1)])
    assert not isinstance(right, int)
    try:
        found = weights[windows] if knobs.indexed == "whole" else weights[0][windows[:, 0]]
    except IndexError:
        return {"can be looked up": 0.0, "furthest apart": -1.0}
    if found.shape != right.shape:
        return {"can be looked up": 1.0, "furthest apart": -1.0}
    wanted = right if knobs.indexed == "whole" else weights[0][windows[:, 0]]
    return {"can be looked up": 1.0, "furthest apart": (found - wanted).abs().max().item()}


def measure_slices(knobs: TableOfScoresKnobs) -> Numbers:
    """Row sums and signs of the slices of W as it is drawn, or after softmax."""
    weights, _ = _drawn_tables(knobs)
    slices = weights.softmax(-1) if knobs.read_as == "softmax" else weights
    sums = slices.sum(-1).flatten().tolist()
    return {
        "row sum furthest from 1": max(sums, key=lambda one: abs(one - 1)),
        "below 0": (slices < 0).double().mean().item(),
    }


@dataclass(frozen=True)
class SoftmaxRowKnobs:
    function: str = option("softmax", "What is taken of each row of scores", choices=("softmax", "exp"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_softmax(knobs: SoftmaxRowKnobs) -> Numbers:
    """A thousand rows of scores from N(0, 25): their sums, and what is not above 0."""
    import numpy as np

    from pellucid.decoding.sampling import softmax

    scores = np.random.default_rng(knobs.seed).standard_normal((1_000, 27)) * 5
    rows = softmax(scores) if knobs.function == "softmax" else np.exp(scores)
    sums = rows.sum(axis=1).tolist()
    return {
        "row sum furthest from 1": max(sums, key=lambda one: abs(one - 1)),
        "entries not above 0": float((rows <= 0).sum()),
    }


@dataclass(frozen=True)
class RepeatedRowKnobs:
    data: str = option("names", DATA)
    pairs: int = option(1_000, "Pairs of the data, from the beginning.", minimum=1, maximum=1_000_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_repeated_rows(knobs: RepeatedRowKnobs) -> Numbers:
    """A row of probabilities for each pair of the data, by its first letter: how many of them are different."""
    import numpy as np

    found = count_list(knobs.data)
    table = found.counts / found.counts.sum(axis=1, keepdims=True)
    rows = table[found.corpus.tokens[: knobs.pairs]]
    return {"different rows": float(len(np.unique(rows, axis=0))), "rows": float(len(rows))}


LOOKUP = "notes §8"

FAMILY = ClaimFamily(
    name="one-hot-lookups",
    title="One-hot look-ups",
    picture="logits",
    claims=(
        Claim(
            id="one-hot-times-W-is-lookup",
            says="a one-hot vector times a matrix is one row of it",
            where=LOOKUP,
            kind="draws",
            measure=measure_lookup,
            decides="furthest apart",
            margin=lambda seen: min(seen["can be multiplied"] - 0.5, 1e-12 - seen["furthest apart"]),
            rule="the product is the row, to the last digit",
            knobs=LookupKnobs,
            control={"token": "dense"},
            seeds=8,
        ),
        Claim(
            id="example-5-shapes",
            says="three one-hot vectors of three tokens, 3 × 3, times W of 10 × 27 give rows 1, 2 and 0 of W",
            where="notes §8 Ex.5",
            kind="arithmetic",
            measure=measure_lookup,
            decides="can be multiplied",
            margin=lambda seen: seen["can be multiplied"] - 0.5,
            rule="the two matrices can be multiplied",
            knobs=TenRowKnobs,
            control={"rows": 3},
            other_reading="with W of 3 × 27 they give those rows",
        ),
        Claim(
            id="slices-are-probabilities",
            says="each slice of W is the probability distribution of the next token",
            where=LOOKUP,
            kind="draws",
            measure=measure_slices,
            decides="below 0",
            margin=lambda seen: min(1e-5 - abs(seen["row sum furthest from 1"] - 1), 1e-9 - seen["below 0"]),
            rule="its rows add up to 1 and none of it is below 0",
            knobs=TableOfScoresKnobs,
            control={"read_as": "softmax"},
            seeds=8,
            other_reading="softmax makes a distribution of a row, and with n > 2 of a sum of rows",
        ),
        Claim(
            id="einsum-ngram",
            says="one-hot windows (m, n−1, V) times W (n−1, V, V), by Einstein's summation, are scores (m, V)",
            where="notes §8 Fig.4",
            kind="draws",
            measure=measure_einsum,
            decides="furthest apart",
            margin=lambda seen: min(1e-5 - seen["furthest apart"], seen["furthest apart"] + 0.5),
            rule="they have that shape and are the sums of looked-up rows, but for rounding",
            knobs=TableOfScoresKnobs,
            control={"summed": "tokens"},
            seeds=8,
        ),
        Claim(
            id="logits-are-W-of-XS",
            says="the scores are W[XS], for W of (n−1, V, V) and XS of (m, n−1)",
            where="notes §10",
            kind="draws",
            measure=measure_indexing,
            decides="can be looked up",
            margin=lambda seen: min(
                seen["can be looked up"] - 0.5, 1e-5 - seen["furthest apart"], seen["furthest apart"] + 0.5
            ),
            rule="W can be indexed so, and what comes are the scores",
            knobs=TableOfScoresKnobs,
            control={"indexed": "one place"},
            seeds=8,
            other_reading="for pairs, with W of (V, V), it is; else each place has its own table and all are added",
        ),
        Claim(
            id="softmax-gives-distribution",
            says="softmax makes a probability distribution of any row of numbers",
            where="notes §9",
            kind="draws",
            measure=measure_softmax,
            decides="row sum furthest from 1",
            margin=lambda seen: yes(
                abs(seen["row sum furthest from 1"] - 1) < 1e-9 and not seen["entries not above 0"]
            ),
            rule="all entries are above 0 and each row adds up to 1",
            knobs=SoftmaxRowKnobs,
            control={"function": "exp"},
            seeds=8,
        ),
        Claim(
            id="rows-repeat",
            says="with a row for each pair of the data, rows come again",
            where="notes §9 Remark 2",
            kind="proof",
            measure=measure_repeated_rows,
            decides="different rows",
            margin=lambda seen: seen["rows"] - seen["different rows"] - 0.5,
            rule="there are fewer different rows than rows",
            knobs=RepeatedRowKnobs,
            control={"pairs": 3},
        ),
    ),
)
