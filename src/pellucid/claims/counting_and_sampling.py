"""Counting and sampling: what counted pairs say of whole sequences, and sequences that are drawn from them."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class ProductKnobs:
    data: str = option("names", DATA)
    length: int = option(3, "Symbols of a sequence.", minimum=1, maximum=50)
    first: str = option(
        "given", "Whether the first symbol is given for nothing, or drawn as well", choices=("given", "drawn")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_products(knobs: ProductKnobs) -> Numbers:
    """The products of P(next | this) over every sequence of so many symbols, added up: one whole, or not."""
    import numpy as np

    found = count_list(knobs.data)
    table = found.counts / found.counts.sum(axis=1, keepdims=True)
    begin = np.ones(len(table)) if knobs.first == "given" else table[0]
    for _ in range(knobs.length - 1):
        begin = begin @ table
    return {"sum over all sequences": float(begin.sum()), "symbols": float(len(table))}


def list_products(knobs: ProductKnobs) -> Numbers:
    """The same by listing every sequence."""
    found = count_list(knobs.data)
    if len(found.counts) ** knobs.length > 50_000:
        return {}
    table = (found.counts / found.counts.sum(axis=1, keepdims=True)).tolist()
    total = 0.0
    for sequence in itertools.product(range(len(table)), repeat=knobs.length):
        chance = 1.0 if knobs.first == "given" else table[0][sequence[0]]
        for this, after in itertools.pairwise(sequence):
            chance *= table[this][after]
        total += chance
    return {"sum over all sequences": total}


@dataclass(frozen=True)
class IndependenceKnobs:
    data: str = option("names", DATA)
    source: str = option(
        "data", "The data themselves, or as many items drawn from their pairs", choices=("data", "pairs")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_independence(knobs: IndependenceKnobs) -> Numbers:
    """What the symbol before the last adds: dev losses of counted pairs and of counted triples, in nats."""
    from pellucid.data import Characters
    from pellucid.data.prepare.tokens import encode_list
    from pellucid.models.counting.fitting import count_loss
    from pellucid.models.counting.ngram import KneserNey, NGram, NGramConfig

    items = list(count_list(knobs.data).items)
    if knobs.source == "pairs":
        items = [item for item in draw_items(knobs.data, len(items), knobs.seed) if item]
    random.Random(knobs.seed).shuffle(items)
    vocabulary = Characters.of(items)
    cut = len(items) * 8 // 10
    train, dev = encode_list(items[:cut], vocabulary), encode_list(items[cut:], vocabulary)
    pairs, triples = (
        count_loss(NGram.fit(train, NGramConfig(len(vocabulary), order, KneserNey())), dev).nats for order in (2, 3)
    )
    return {"gain of triples": pairs - triples, "loss of pairs": pairs, "loss of triples": triples}


def draw_items(data: str, n: int, seed: int, temperature: float = 1.0) -> list[str]:
    """Items drawn from counted pairs, symbol by symbol, until the boundary returns."""
    import numpy as np

    from pellucid.decoding.sampling import draw_tokens

    found = count_list(data)
    with np.errstate(divide="ignore"):
        logs = np.log(found.counts / found.counts.sum(axis=1, keepdims=True))
    drawn = draw_tokens(
        lambda contexts: logs[contexts[:, -1]],
        n_samples=n,
        longest=200,
        start=[0],
        stop=0,
        seed=seed,
        temperature=temperature,
    )
    return [found.vocabulary.decode(list(one.tokens)) for one in drawn]


@dataclass(frozen=True)
class StopKnobs:
    data: str = option("names", DATA)
    stop: float = option(0.1, "Chance to stop after every letter, the same for all.", minimum=0, maximum=1)
    longest: int = option(10_000, "Letters after which it counts as endless.", minimum=1, maximum=1_000_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_stop(knobs: StopKnobs) -> Numbers:
    """Letters follow each other as in the data and stop with one small chance: how many sequences have ended."""
    import numpy as np

    found = count_list(knobs.data)
    # A symbol that only ever ends an item is followed by nothing.
    inside = found.counts[1:, 1:] / np.maximum(1, found.counts[1:, 1:].sum(axis=1, keepdims=True))
    still = found.counts[0, 1:] / found.counts[0, 1:].sum()
    walk = np.linalg.matrix_power(inside * (1 - knobs.stop), knobs.longest)
    stops = found.counts[1:, 0] / found.counts[1:].sum(axis=1)
    return {
        "ended": 1 - float((still @ walk).sum()),
        "highest chance to stop in the data": float(stops.max()),
    }


@dataclass(frozen=True)
class LikeliestTableKnobs:
    data: str = option("names", DATA)
    added: float = option(0.0, "Added to every count before its row is divided by its sum.", minimum=0, maximum=1e6)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_likeliest_table(knobs: LikeliestTableKnobs) -> Numbers:
    """The loss of a table made from counts, and the best of 60 other tables drawn around it."""
    import numpy as np

    counts = count_list(knobs.data).counts
    rng = np.random.default_rng(knobs.seed)
    table = counts + knobs.added + 1e-300
    table = table / table.sum(axis=1, keepdims=True)
    shares = counts / counts.sum()

    def loss(of: npt.NDArray[np.float64]) -> float:
        return float(-(shares[counts > 0] * np.log(of[counts > 0])).sum())

    others = []
    for size in (0.003, 0.03, 0.3):
        for _ in range(20):
            other = table * np.exp(size * rng.standard_normal(table.shape))
            others.append(loss(other / other.sum(axis=1, keepdims=True)))
    return {"loss": loss(table), "best other": min(others), "best other, less this": min(others) - loss(table)}


def row_entropies(knobs: LikeliestTableKnobs) -> Numbers:
    """The entropies of the rows, by how often each occurs; no table can be below."""
    if knobs.added:
        return {}
    total, loss = 0, 0.0
    for row in count_list(knobs.data).counts.tolist():
        n = sum(row)
        loss += sum([one * math.log(n / one) for one in row if one])
        total += n
    return {"loss": loss / total}


@dataclass(frozen=True)
class SampleKnobs:
    data: str = option("names", DATA)
    samples: int = option(5_000, "Sequences that are drawn.", minimum=10, maximum=1_000_000)
    temperature: float = option(1.0, "Temperature of the draws.", minimum=0.01, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_samples(knobs: SampleKnobs) -> Numbers:
    """Sequences drawn row by row until the boundary returns: do their pairs come as often as in the data?"""
    import numpy as np

    from pellucid.data.prepare.tokens import encode_list
    from pellucid.models.counting.simple_models import Bigram, BigramConfig

    found = count_list(knobs.data)
    drawn = draw_items(knobs.data, knobs.samples, knobs.seed, knobs.temperature)
    corpus = encode_list(drawn, found.vocabulary)
    pairs = Bigram.fit(corpus, BigramConfig(len(found.vocabulary))).counts
    apart = np.abs(pairs / pairs.sum() - found.counts / found.counts.sum()).sum() / 2
    return {"pairs apart": float(apart), "mean length": sum([len(one) for one in drawn]) / len(drawn)}


def mean_item_length(knobs: SampleKnobs) -> Numbers:
    """Counted pairs give back the mean length of what was counted, exactly."""
    items = count_list(knobs.data).items
    return {"mean length": sum([len(item) for item in items]) / len(items)} if knobs.temperature == 1 else {}


CHAIN = "notes §5.2"

FAMILY = ClaimFamily(
    name="counting-and-sampling",
    title="Counting and sampling",
    picture="bigram-matrix",
    claims=(
        Claim(
            id="sequence-product-formula",
            says="the probability of n symbols is the product of P(next | this) from the first symbol on",
            where=CHAIN,
            kind="proof",
            measure=measure_products,
            decides="sum over all sequences",
            margin=lambda seen: 1e-9 - abs(seen["sum over all sequences"] - 1),
            rule="over all sequences of three symbols these products add up to 1",
            knobs=ProductKnobs,
            control={"first": "drawn"},
            second=list_products,
            other_reading="with the boundary as symbol 0 and the product from there on it is so",
        ),
        Claim(
            id="bigrams-pairwise-independent",
            says="given a letter, the next one does not depend on those before",
            where=CHAIN,
            kind="draws",
            measure=measure_independence,
            decides="gain of triples",
            margin=lambda seen: 0.01 - seen["gain of triples"],
            rule="counting triples in place of pairs lowers the dev loss by less than 0.01 nats",
            knobs=IndependenceKnobs,
            control={"source": "pairs"},
            seeds=5,
            other_reading="it is what a bigram model assumes, not what names do",
        ),
        Claim(
            id="stop-probability-must-be-high",
            says="the chance to stop has to be very high after some letters, or sequences could go on for ever",
            where=CHAIN,
            kind="arithmetic",
            measure=measure_stop,
            decides="ended",
            margin=lambda seen: 0.999 - seen["ended"],
            rule="with a chance of 10 % after every letter fewer than 99.9 % have ended after 10,000 of them",
            knobs=StopKnobs,
            control={"stop": 0.0},
            second=lambda knobs: {"ended": 1 - (1 - knobs.stop) ** knobs.longest},
            other_reading="a chance above 0 is enough, after letters that every other leads to",
        ),
        Claim(
            id="mle-is-row-normalised-counts",
            says="the likeliest table of pairs is the counts, each row divided by its sum",
            where="notes §5.3 Prop.2",
            kind="draws",
            measure=measure_likeliest_table,
            decides="best other, less this",
            margin=lambda seen: seen["best other, less this"],
            rule="each of 60 tables drawn around it has a higher loss",
            knobs=LikeliestTableKnobs,
            control={"added": 10.0},
            second=row_entropies,
            seeds=8,
        ),
        Claim(
            id="sampling-algorithm",
            says="drawing from the row of the symbol at hand until the boundary returns samples the model",
            where="notes §5.5",
            kind="draws",
            measure=measure_samples,
            decides="pairs apart",
            margin=lambda seen: 0.1 - seen["pairs apart"],
            rule="the pairs of 5,000 draws are shared out as in the data, within 10 % of all",
            knobs=SampleKnobs,
            control={"temperature": 3.0},
            second=mean_item_length,
            tolerance=0.05,
            seeds=5,
        ),
    ),
)
