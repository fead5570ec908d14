"""Likelihood and smoothing: logarithms of probabilities, what long products lose, and counts that are added to."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class LogKnobs:
    x: float = option(0.5, "What the logarithm is taken of.", minimum=1e-300, maximum=1e300)
    sign: str = option("log", "The logarithm, or minus it", choices=("log", "minus log"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_log(knobs: LogKnobs) -> Numbers:
    """The logarithm by the engine, which refuses what has none."""
    from pellucid.autograd.derivation import differentiate

    text = "log(x)" if knobs.sign == "log" else "-log(x)"
    return {"logarithm": differentiate(text, {"x": knobs.x}).value, "x": knobs.x}


@dataclass(frozen=True)
class SurpriseKnobs:
    data: str = option("names", DATA)
    of: str = option(
        "probabilities", "Counted probabilities, or a narrow bell's densities", choices=("probabilities", "densities")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_surprise(knobs: SurpriseKnobs) -> Numbers:
    """The least minus logarithm of what each item of the data is given, or each point of a bell of deviation 0.1."""
    if knobs.of == "densities":
        points = [z / 100 for z in range(-50, 51)]
        surprises = [z * z / 0.02 + math.log(0.1 * math.sqrt(2 * math.pi)) for z in points]
    else:
        table = add_to_counts(knobs.data, 0.0)
        found = count_list(knobs.data)
        surprises = []
        for item in found.items[:5_000]:
            framed = [0, *found.vocabulary.encode(item), 0]
            surprises.append(-sum([math.log(table[a, b]) for a, b in itertools.pairwise(framed)]))
    return {"least": min(surprises), "greatest": max(surprises)}


def add_to_counts(data: str, s: float) -> npt.NDArray[np.float64]:
    """The probabilities of pairs with s added to every count."""
    counts = count_list(data).counts + s
    table: npt.NDArray[np.float64] = counts / counts.sum(axis=1, keepdims=True)
    return table


@dataclass(frozen=True)
class LongProductKnobs:
    data: str = option("names", DATA)
    factors: int = option(200, "Probabilities that are multiplied.", minimum=1, maximum=5_000)
    digits: str = option("float64", "Numbers of 53 or of 11 binary digits", choices=("float64", "float16"))

    def __post_init__(self) -> None:
        check_options(self)


def _first_chances(knobs: LongProductKnobs) -> list[float]:
    table = add_to_counts(knobs.data, 0.0)
    tokens = count_list(knobs.data).corpus.tokens[: knobs.factors + 1].tolist()
    return [float(table[a, b]) for a, b in itertools.pairwise(tokens)]


def measure_long_product(knobs: LongProductKnobs) -> Numbers:
    """The likelihood of the first pairs of the data: as a product, as a sum of logarithms, and by exact fractions."""
    import numpy as np

    chances = _first_chances(knobs)
    kind = np.float64 if knobs.digits == "float64" else np.float16
    exact = math.prod([Fraction(chance) for chance in chances])
    product, total = kind(1.0), kind(0.0)
    with np.errstate(under="ignore"):
        for chance in chances:
            product = kind(product * kind(chance))
            total = kind(total + kind(math.log(chance)))
    true_log = math.log(exact.numerator) - math.log(exact.denominator)
    return {
        "error of the product": float(abs(Fraction(float(product)) - exact) / exact),
        "error of the sum of logs": abs(float(total) - true_log) / abs(true_log),
        "sum of logs": float(total),
        "power of ten": true_log / math.log(10),
    }


@dataclass(frozen=True)
class UnseenKnobs:
    data: str = option("names", DATA)
    words: str = option("andrej andreja", "Words whose pairs are looked up.")

    def __post_init__(self) -> None:
        check_options(self)


def measure_unseen(knobs: UnseenKnobs) -> Numbers:
    """How many pairs of each word, its ends among them, the data do not have."""
    found = count_list(knobs.data)
    unseen = {}
    for word in knobs.words.split():
        framed = [0, *[found.vocabulary.index.get(letter) for letter in word], 0]
        pairs = itertools.pairwise(framed)  # a letter that the data do not have is None
        unseen[word] = float(sum([a is None or b is None or found.counts[a, b] == 0 for a, b in pairs]))
    return {"fewest": min(unseen.values()), **unseen}


def search_unseen(knobs: UnseenKnobs) -> Numbers:
    """The same by looking for each pair in the text of all items."""
    text = "\n" + "\n".join(count_list(knobs.data).items) + "\n"
    unseen = {
        word: float(sum([f"{a}{b}" not in text for a, b in itertools.pairwise(f"\n{word}\n")]))
        for word in knobs.words.split()
    }
    return {"fewest": min(unseen.values()), **unseen}


@dataclass(frozen=True)
class AddedKnobs:
    data: str = option("names", DATA)
    s: float = option(1.0, "What is added to every count.", minimum=0, maximum=1e20)
    how: str = option(
        "add", "Add it to every count, or multiply every count by 1 more than it", choices=("add", "multiply")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_added(knobs: AddedKnobs) -> Numbers:
    """The table of pairs with s added to each count: its least probability, its distance from even, what moved."""
    import numpy as np

    before, after = add_to_counts(knobs.data, 0.0), add_to_counts(knobs.data, knobs.s)
    moved = np.abs(after - before).sum(axis=1) / 2  # of each row, the part of its probability that went elsewhere
    often = count_list(knobs.data).counts.sum(axis=1)
    return {
        "least probability": float(after.min()),
        "furthest from 1/V": float(np.abs(after - 1 / len(after)).max()),
        "most moved in a row": float(moved.max()),
        "moved on average": float((moved * often).sum() / often.sum()),
    }


def added_closed_form(knobs: AddedKnobs) -> Numbers:
    """With n counted in a row of V, s moves it toward even by the part s·V / (n + s·V)."""
    counts = count_list(knobs.data).counts
    size, n = len(counts), counts.sum(axis=1)
    parts = knobs.s * size / (n + knobs.s * size)
    uneven = abs(counts / n[:, None] - 1 / size)
    return {
        "furthest from 1/V": float(((1 - parts)[:, None] * uneven).max()),
        "most moved in a row": float((parts * uneven.sum(axis=1) / 2).max()),
    }


def _with_large_s(knobs: AddedKnobs) -> AddedKnobs:
    return replace(knobs, s=knobs.s * 1e12)


def measure_evenness(knobs: AddedKnobs) -> Numbers:
    """The entropies of all rows as s grows: the smallest rise of any row, and the means."""
    import numpy as np

    counts = count_list(knobs.data).counts

    def entropies(s: float) -> npt.NDArray[np.float64]:
        changed = counts + s if knobs.how == "add" else counts * (1 + s)
        table = changed / changed.sum(axis=1, keepdims=True)
        filled = np.where(table > 0, table, 1.0)
        found: npt.NDArray[np.float64] = -(filled * np.log(filled)).sum(axis=1)
        return found

    tried = (0.0, knobs.s, 10 * knobs.s, 100 * knobs.s)
    steps = [entropies(s) for s in tried]
    rises = [float((after - before).min()) for before, after in itertools.pairwise(steps)]
    return {
        "smallest rise of a row": min(rises),
        **{f"mean entropy, s = {s:g}": float(one.mean()) for s, one in zip(tried, steps, strict=True)},
        "most there can be": math.log(len(counts)),
    }


@dataclass(frozen=True)
class TableSizeKnobs:
    n: int = option(3, "Order of the n-gram.", minimum=1, maximum=6)
    symbols: int = option(27, "Symbols.", minimum=2, maximum=1000)
    meant: str = option(
        "rows and columns",
        "V to the n rows and as many columns, or so many entries",
        choices=("rows and columns", "entries"),
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_table_size(knobs: TableSizeKnobs) -> Numbers:
    """Entries of an n-gram's table, as the count model has them, and as they are stated."""
    import numpy as np

    from pellucid.data.prepare.tokens import Corpus
    from pellucid.models.counting.ngram import AddS, NGram, NGramConfig

    stream = Corpus(np.array([0, 1, 0]), has_boundary=True)
    size = float(knobs.symbols**knobs.n)
    model = NGram.fit(stream, NGramConfig(knobs.symbols, knobs.n, AddS(1.0)))
    return {"entries": float(model.n_entries), "stated": size * size if knobs.meant == "rows and columns" else size}


LOSS, SMOOTHING = "notes §6", "notes §6.1"

FAMILY = ClaimFamily(
    name="likelihood-and-smoothing",
    title="Likelihood and smoothing",
    picture="smoothing",
    claims=(
        Claim(
            id="logs-preserve-sign",
            says="a logarithm keeps the sign of what it is taken of",
            where=LOSS,
            kind="arithmetic",
            measure=measure_log,
            margin=lambda seen: math.copysign(1.0, seen["x"]) * seen["logarithm"],
            rule="the logarithm of every positive number is positive",
            knobs=LogKnobs,
            control={"x": 2.0},
            search=Search("x", 1e-4, 1e4, is_log=True),
            second=lambda knobs: {"logarithm": math.log2(knobs.x) / math.log2(math.e)},
            other_reading="it keeps the order of numbers, being monotonic; of probabilities it is never positive",
        ),
        Claim(
            id="nll-non-negative",
            says="the negative log-likelihood is never below 0",
            where=LOSS,
            kind="proof",
            measure=measure_surprise,
            decides="least",
            margin=lambda seen: seen["least"],
            rule="no name of the first 5,000 has one below 0",
            knobs=SurpriseKnobs,
            control={"of": "densities"},
            other_reading="of probabilities; of densities, as for numbers, it can be below",
        ),
        Claim(
            id="long-products-accumulate-error",
            says="products of many probabilities accumulate rounding errors",
            where=LOSS,
            kind="arithmetic",
            measure=measure_long_product,
            decides="error of the product",
            margin=lambda seen: math.log10(max(seen["error of the product"], 1e-17) / 1e-6),
            rule="the product of so many probabilities is off by more than a millionth of itself",
            knobs=LongProductKnobs,
            control={"factors": 2_000},
            search=Search("factors", 10, 3_000, n_values=7, is_log=True),
            other_reading="rounding costs 1e-16 a factor; what ends a product is that it becomes too small to write",
        ),
        Claim(
            id="log-sum-is-stable",
            says="a sum of logarithms does not have the trouble of a long product",
            where=LOSS,
            kind="arithmetic",
            measure=measure_long_product,
            decides="error of the sum of logs",
            margin=lambda seen: 1e-6 - seen["error of the sum of logs"],
            rule="the sum for 10 to 3,000 probabilities is off by less than a millionth of itself",
            knobs=LongProductKnobs,
            control={"digits": "float16"},
            search=Search("factors", 10, 3_000, n_values=5, is_log=True),
        ),
        Claim(
            id="andrej-has-unseen-bigram",
            says="andrej, and andreja too, has a pair of letters that no name has",
            where=SMOOTHING,
            kind="proof",
            measure=measure_unseen,
            decides="fewest",
            margin=lambda seen: seen["fewest"] - 0.5,
            rule="each of the two has a pair that was never counted",
            knobs=UnseenKnobs,
            control={"words": "andrejxq"},
            second=search_unseen,
        ),
        Claim(
            id="log-zero-goes-to-plus-infinity",
            stated="+∞",
            says="as a probability goes to 0, its logarithm goes to plus infinity",
            where=SMOOTHING,
            kind="arithmetic",
            measure=lambda knobs: measure_log(LogKnobs(1e-300, knobs.sign)),
            decides="logarithm",
            margin=lambda seen: seen["logarithm"] - 100,
            rule="the logarithm of 1e-300 is above 100",
            knobs=LogKnobs,
            control={"sign": "minus log"},
            other_reading="the loss, which is minus the logarithm, does",
        ),
        Claim(
            id="smoothing-makes-all-positive",
            says="with s = 1, 2, 3 ... added to every count no probability is 0",
            where=SMOOTHING,
            kind="proof",
            measure=measure_added,
            decides="least probability",
            margin=lambda seen: seen["least probability"],
            rule="the least probability of any pair is above 0",
            knobs=AddedKnobs,
            control={"s": 0.0},
            search=Search("s", 1, 1_000, n_values=4, is_log=True),
        ),
        Claim(
            id="smoothing-limit-uniform",
            says="as s grows without end, every probability goes to 1/V",
            where=SMOOTHING,
            kind="arithmetic",
            measure=lambda knobs: measure_added(_with_large_s(knobs)),
            decides="furthest from 1/V",
            margin=lambda seen: 1e-6 - seen["furthest from 1/V"],
            rule="with s = 1e12 all are within a millionth of it",
            knobs=AddedKnobs,
            control={"s": 1e-6},
            second=lambda knobs: added_closed_form(_with_large_s(knobs)),
        ),
        Claim(
            id="smoothing-increases-uniformity",
            says="smoothing makes the rows of probabilities more even",
            where=SMOOTHING,
            kind="proof",
            measure=measure_evenness,
            decides="smallest rise of a row",
            margin=lambda seen: seen["smallest rise of a row"] - 1e-12,
            rule="the entropy of every row rises each time s does",
            knobs=AddedKnobs,
            control={"how": "multiply"},
        ),
        Claim(
            id="smoothing-only-slightly-alters",
            says="smoothing alters the probabilities just slightly",
            where=SMOOTHING,
            kind="arithmetic",
            measure=measure_added,
            decides="most moved in a row",
            margin=lambda seen: 0.05 - seen["most moved in a row"],
            rule="in no row more than 5 % of the probability goes elsewhere",
            knobs=AddedKnobs,
            control={"s": 0.01},
            search=Search("s", 0.01, 1_000, is_log=True),
            second=added_closed_form,
            other_reading="on average over the pairs that occur s = 1 moves far less, as the last number says",
        ),
        Claim(
            id="table-is-V-to-n-square-matrix",
            says="the table of an n-gram is a square matrix of V to the n rows",
            where="notes §7",
            kind="cost",
            measure=measure_table_size,
            decides="entries",
            margin=lambda seen: 0.5 - abs(seen["entries"] - seen["stated"]),
            rule="for 27 symbols and n = 3 it has that many entries",
            knobs=TableSizeKnobs,
            control={"meant": "entries"},
            second=lambda knobs: {"entries": float(knobs.symbols**knobs.n)},
            other_reading="it has V to the n entries: a row for each of V to the n − 1 contexts, and V columns",
        ),
    ),
)
