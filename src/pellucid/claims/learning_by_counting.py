"""Learning by counting: what one item says, what more data and stray data do, and how good the best model is."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.counting_and_sampling import draw_items
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class SpelledKnobs:
    data: str = option("names", DATA)
    word: str = option("isabella", "The word that is spelled.")
    others: int = option(
        1_000_000, "How many items of the data are counted beside it, at most.", minimum=0, maximum=1_000_000
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_spelling(knobs: SpelledKnobs) -> Numbers:
    """For each letter of a word, how many of the items that begin like it so far go on with it; and then end."""
    words = [knobs.word, *[item for item in count_list(knobs.data).items if item != knobs.word][: knobs.others]]
    chances = {}
    for known in range(len(knobs.word) + 1):
        before, after = knobs.word[:known], knobs.word[known : known + 1]
        alike = [item for item in words if item.startswith(before)]
        chances[f"{after or 'end'} after {before or 'nothing'}"] = sum(
            [item[known : known + 1] == after for item in alike]
        ) / len(alike)
    return {"least likely": min(chances.values()), **chances}


@dataclass(frozen=True)
class StrayKnobs:
    data: str = option("names", DATA)
    strays: int = option(1, "Random strings of 7 letters that are counted with the data.", minimum=0, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_strays(knobs: StrayKnobs) -> Numbers:
    """The dev loss of counted pairs, 1 added to each, without and with stray strings among what is counted."""
    counts, dev = _counted_sides(knobs.data, knobs.seed)
    rng = random.Random(knobs.seed)
    strays = [[rng.randrange(1, len(counts)) for _ in range(7)] for _ in range(knobs.strays)]
    clean = _dev_loss(counts, dev)
    return {
        "loss rises by": _dev_loss(counts + _pairs_of(strays, len(counts)), dev) - clean,
        "loss without": clean,
        "items counted": float(counts[0].sum()),
    }


@cache
def _counted_sides(data: str, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The pairs of four fifths of the items, and the shares of pairs in the other fifth."""
    train, dev, size = _sides(data, seed)
    return _pairs_of(train, size), dev


def _sides(data: str, seed: int) -> tuple[list[list[int]], npt.NDArray[np.float64], int]:
    """Four fifths of the items as tokens, and the shares of pairs in the other fifth."""
    found = count_list(data)
    items = [found.vocabulary.encode(item) for item in found.items]
    random.Random(seed).shuffle(items)
    cut, size = len(items) * 4 // 5, len(found.vocabulary)
    dev = _pairs_of(items[cut:], size)
    return items[:cut], dev / dev.sum(), size


def _pairs_of(items: Sequence[Sequence[int]], size: int) -> npt.NDArray[np.int64]:
    import numpy as np

    stream = np.array([0, *[token for item in items for token in (*item, 0)]])
    return np.bincount(stream[:-1] * size + stream[1:], minlength=size * size).reshape(size, size)


def _dev_loss(counts: npt.NDArray[np.int64], dev: npt.NDArray[np.float64]) -> float:
    import numpy as np

    table = (counts + 1) / (counts + 1).sum(axis=1, keepdims=True)
    return float(-(dev * np.log(table)).sum())


@dataclass(frozen=True)
class MoreDataKnobs:
    data: str = option("names", DATA)
    fresh: str = option("yes", "More items, or the first hundred again and again", choices=("yes", "no"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_more_data(knobs: MoreDataKnobs) -> Numbers:
    """The dev loss of pairs counted on ever more items."""
    train, dev, size = _sides(knobs.data, knobs.seed)
    losses = {}
    for part in (0.01, 0.1, 1.0):
        n = max(10, int(len(train) * part))
        items = train[:n] if knobs.fresh == "yes" else list(itertools.islice(itertools.cycle(train[:100]), n))
        losses[f"loss with {part:.0%}"] = _dev_loss(_pairs_of(items, size), dev)
    falls = [before - after for before, after in itertools.pairwise(losses.values())]
    return {"smallest fall": min(falls), **losses}


@dataclass(frozen=True)
class AboveUniformKnobs:
    data: str = option("names", DATA)
    source: str = option("noise", "Pairs drawn evenly at random, or those of the data", choices=("noise", "data"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_above_uniform(knobs: AboveUniformKnobs) -> Numbers:
    """Whether a counted table has an entry above 1/V, and what it is better by than even chances on what is new."""
    import numpy as np

    counts, dev = _counted_sides(knobs.data, knobs.seed)
    size = len(counts)
    if knobs.source == "noise":
        even = np.full(size * size, 1 / size**2)
        counts = np.random.default_rng(knobs.seed).multinomial(counts.sum(), even).reshape(size, size)
        dev = even.reshape(size, size)
    table = counts / counts.sum(axis=1, keepdims=True)
    return {
        "better than even by, nats": math.log(size) - _dev_loss(counts, dev),
        "entries above 1/V": float((table > 1 / size).mean()),
    }


@dataclass(frozen=True)
class TrueModelKnobs:
    data: str = option("names", DATA)
    temperature: float = option(1.0, "Temperature of the source that writes the data.", minimum=0.02, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_true_model(knobs: TrueModelKnobs) -> Numbers:
    """The mean probability that a source of pairs gives to what comes: no model of its data can be better."""
    import numpy as np

    counts = count_list(knobs.data).counts
    with np.errstate(divide="ignore"):
        logs = np.log(counts / counts.sum(axis=1, keepdims=True)) / knobs.temperature
    table = np.exp(logs - logs.max(axis=1, keepdims=True))
    table /= table.sum(axis=1, keepdims=True)
    often = np.full(len(table), 1 / len(table))
    for _ in range(2_000):
        often = (often + often @ table) / 2  # halved, so that it settles where the source goes round in circles too
    return {"mean probability": float((often[:, None] * table**2).sum())}


def true_model_by_draws(knobs: TrueModelKnobs) -> Numbers:
    """The same from 20,000 items that were drawn."""
    if knobs.temperature != 1:
        return {}
    found = count_list(knobs.data)
    table = found.counts / found.counts.sum(axis=1, keepdims=True)
    chances = []
    for item in draw_items(knobs.data, 20_000, 1):
        framed = [0, *found.vocabulary.encode(item), 0]
        chances += [table[a, b] for a, b in itertools.pairwise(framed)]
    return {"mean probability": sum(chances) / len(chances)}


DATASET, LEARNED = "notes §4", "notes §5.4"

FAMILY = ClaimFamily(
    name="learning-by-counting",
    title="Learning by counting",
    picture="bigram-matrix",
    claims=(
        Claim(
            id="isabella-letters-very-likely",
            says="isabella shows that i is very likely to come first, s after i, a after is, and so on to the end",
            where=DATASET,
            kind="arithmetic",
            measure=measure_spelling,
            decides="least likely",
            margin=lambda seen: seen["least likely"] - 0.5,
            rule="of the names that begin so, more than half go on so, at every letter",
            knobs=SpelledKnobs,
            control={"others": 0},
            other_reading="one name makes each of its letters a little likelier than without it",
        ),
        Claim(
            id="random-name-taints-model",
            says="a random string such as aywjtpe among the names taints what is learned",
            where=DATASET,
            kind="draws",
            measure=measure_strays,
            decides="loss rises by",
            margin=lambda seen: seen["loss rises by"] - 0.01,
            rule="it raises the dev loss of counted pairs by more than 0.01 nats",
            knobs=StrayKnobs,
            control={"strays": 20_000},
            search=Search("strays", 1, 20_000, n_values=7, is_log=True),
            seeds=5,
        ),
        Claim(
            id="more-data-easier",
            says="the more data there are, the better the model that is made of them",
            where=DATASET,
            kind="draws",
            measure=measure_more_data,
            decides="smallest fall",
            margin=lambda seen: seen["smallest fall"],
            rule="the dev loss of counted pairs falls each time there are ten times as many names",
            knobs=MoreDataKnobs,
            control={"fresh": "no"},
            seeds=5,
        ),
        Claim(
            id="above-uniform-means-learned",
            says="a table of pairs with any probability above 1/V has learned something",
            where=LEARNED,
            kind="draws",
            measure=measure_above_uniform,
            decides="better than even by, nats",
            margin=lambda seen: yes((seen["entries above 1/V"] > 0) == (seen["better than even by, nats"] > 0.001)),
            rule="counted from pure noise it has such an entry only if it beats even chances on new noise, by 0.001 "
            "nats or more",
            knobs=AboveUniformKnobs,
            control={"source": "data"},
            seeds=5,
        ),
        Claim(
            id="good-model-probabilities-near-one",
            says="a very good model gives probabilities near one to what comes",
            where="notes §5.4 Remark 1",
            kind="arithmetic",
            measure=measure_true_model,
            margin=lambda seen: seen["mean probability"] - 0.9,
            rule="the source of data itself, which no model can be better than, gives more than 90 % on average",
            knobs=TrueModelKnobs,
            control={"temperature": 0.02},
            second=true_model_by_draws,
            tolerance=0.02,
            other_reading="it does where what comes is certain; else it is as unsure as the data are",
        ),
    ),
)
