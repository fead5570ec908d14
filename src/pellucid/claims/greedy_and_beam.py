"""Greedy decoding and beam search: the likeliest next word each time, or several beginnings side by side.

The example of two words is a table: the first word has 0.7 or 0.3, and behind them one word has 0.001 or 0.9. What else
could follow shares what is left of 1 equally. Other tables are drawn, and the likeliest path of each is looked for
among all paths. Completions go on with beginnings of items that the n-gram has not read.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness
from pellucid.claims.letter_pairs import DATA
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.decoding.beam import Hypothesis
    from pellucid.decoding.sampling import FloatArray, IntArray, Scores
    from pellucid.models.counting.ngram import NGram


def find_best_path(scores: Scores, width: int, longest: int) -> Hypothesis:
    """The best path of so many words that a beam of this width finds; a width of 1 is greedy."""
    from pellucid.decoding.beam import beam_search

    return beam_search(scores, width=width, longest=longest)[0]


# The example of two words


@dataclass(frozen=True)
class TwoWordKnobs:
    first: float = option(0.7, "Probability of the first word.", minimum=1e-9, maximum=1)
    second: float = option(0.001, "Probability of the word behind it.", minimum=1e-9, maximum=1)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class OtherWordKnobs:
    first: float = option(0.3, "Probability of the first word.", minimum=1e-9, maximum=1)
    second: float = option(0.9, "Probability of the word behind it.", minimum=1e-9, maximum=1)

    def __post_init__(self) -> None:
        check_options(self)


def measure_product(knobs: TwoWordKnobs | OtherWordKnobs) -> Numbers:
    """As decoding has it: logarithms are added."""
    return {"product": math.exp(math.log(knobs.first) + math.log(knobs.second))}


def multiply_fractions(knobs: TwoWordKnobs | OtherWordKnobs) -> Numbers:
    return {"product": float(Fraction(str(knobs.first)) * Fraction(str(knobs.second)))}


@dataclass(frozen=True)
class VocabularyKnobs:
    vocabulary: int = option(2, "Words that could come next.", minimum=2, maximum=1_000_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_two_words(knobs: VocabularyKnobs) -> Numbers:
    """Where greedy goes with this table: the word it takes behind the first one, and both paths."""
    import numpy as np

    def spread(*first: float) -> FloatArray:
        rest = knobs.vocabulary - len(first)
        return np.array([*first, *[(1 - sum(first)) / max(1, rest)] * rest])

    with np.errstate(divide="ignore"):
        begin, likely, unlikely = np.log(spread(0.7, 0.3)), np.log(spread(0.001)), np.log(spread(0.9))

    def scores(read: IntArray) -> FloatArray:
        if not read.shape[1]:
            return np.stack([begin] * len(read))
        return np.stack([likely if row[-1] == 0 else unlikely for row in read])

    greedy, beam = (find_best_path(scores, width, 2) for width in (1, 2))
    return {
        "greedy's second word": math.exp(greedy.score) / 0.7,
        "greedy's path": math.exp(greedy.score),
        "beam's path": math.exp(beam.score),
    }


def solve_two_words(knobs: VocabularyKnobs) -> Numbers:
    """The likeliest of the words behind the first has 0.001, or else what the others share has more for each."""
    second = max(0.001, 0.999 / (knobs.vocabulary - 1))
    return {"greedy's second word": second, "greedy's path": 0.7 * second, "beam's path": max(0.27, 0.7 * second)}


# Tables that are drawn


@dataclass(frozen=True)
class DrawnTableKnobs:
    words: int = option(4, "Words of the vocabulary.", minimum=2, maximum=6)
    length: int = option(4, "Words of a path.", minimum=1, maximum=6)
    memory: str = option(
        "last word", "What the next word depends on: the one before, or nothing", choices=("last word", "nothing")
    )
    tables: int = option(200, "Tables that are drawn.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def draw_tables(knobs: DrawnTableKnobs) -> list[FloatArray]:
    """Each (words + 1, words): log-probabilities of the first word, then of the next behind each; uniform draws."""
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    found = []
    for _ in range(knobs.tables):
        rows = rng.dirichlet(np.ones(knobs.words), knobs.words + 1)
        found.append(np.log(rows if knobs.memory == "last word" else np.stack([rows[0]] * len(rows))))
    return found


def measure_traps(knobs: DrawnTableKnobs) -> Numbers:
    """How many tables greedy does not find the likeliest path of; a beam that leaves nothing out finds it."""
    import numpy as np

    trapped, found = 0, []
    for table in draw_tables(knobs):

        def scores(read: IntArray, table: FloatArray = table) -> FloatArray:
            return table[read[:, -1] + 1] if read.shape[1] else np.stack([table[0]] * len(read))

        greedy = find_best_path(scores, 1, knobs.length).score
        best = find_best_path(scores, knobs.words**knobs.length, knobs.length).score
        trapped += best > greedy + 1e-12
        found.append(best)
    return {"share of traps": trapped / knobs.tables, "mean log-probability of the best": math.fsum(found) / len(found)}


def list_paths(knobs: DrawnTableKnobs) -> Numbers:
    """By listing every path, and taking the largest number of each row."""
    trapped, best = 0, []
    for table in draw_tables(knobs):
        rows = table.tolist()

        def log(path: tuple[int, ...], rows: list[list[float]] = rows) -> float:
            return rows[0][path[0]] + math.fsum([rows[a + 1][b] for a, b in itertools.pairwise(path)])

        taken: list[int] = []
        for _ in range(knobs.length):
            row = rows[taken[-1] + 1 if taken else 0]
            taken.append(row.index(max(row)))
        best.append(max([log(path) for path in itertools.product(range(knobs.words), repeat=knobs.length)]))
        trapped += best[-1] > log(tuple(taken)) + 1e-12
    return {"share of traps": trapped / knobs.tables, "mean log-probability of the best": math.fsum(best) / len(best)}


# A worse start that pays off


@dataclass(frozen=True)
class PayOffKnobs:
    delay: int = option(1, "Words behind the worse start before it pays off.", minimum=0, maximum=10)
    width: int = option(4, "Width of the beam; 1 is greedy.", minimum=1, maximum=4096)
    start: float = option(0.45, "Probability of the worse start, below a half.", minimum=0.001, maximum=0.499)

    def __post_init__(self) -> None:
        check_options(self)


PATH = 12  # words of a path, the start among them


def measure_pay_off(knobs: PayOffKnobs) -> Numbers:
    """Behind both starts two words are equally likely each time; behind the worse one, once it pays off, one is sure.

    Words 0 and 1 are the starts, and all that follow are 0 or 1. What comes next depends on the start and the place.
    """
    import numpy as np

    def scores(read: IntArray) -> FloatArray:
        n_read = read.shape[1]
        if not n_read:
            starts: FloatArray = np.log(np.array([[1 - knobs.start, knobs.start]] * len(read)))
            return starts
        with np.errstate(divide="ignore"):
            rows = np.full((len(read), 2), math.log(0.5))
            if n_read > knobs.delay:
                rows[read[:, 0] == 1] = np.log(np.array([1.0, 0.0]))
        return rows

    found = find_best_path(scores, knobs.width, PATH)
    worse, better = knobs.start * 0.5**knobs.delay, (1 - knobs.start) * 0.5 ** (PATH - 1)
    return {
        "is found": float(found.drawn.tokens[0] == 1),
        "probability that was found": math.exp(found.score),
        "best path of the worse start": worse,
        "best path of the better start": better,
    }


def solve_pay_off(knobs: PayOffKnobs) -> Numbers:
    """Behind the better start there are 2^delay beginnings when the worse one begins to pay off, all likelier."""
    is_kept = 2**knobs.delay < knobs.width
    return {"is found": float(is_kept)} if knobs.start > 0.25 else {}


# Completions


@dataclass(frozen=True)
class CompletionKnobs:
    data: str = option("names", DATA)
    width: int = option(5, "Width of the beam; 1 is greedy.", minimum=1, maximum=100)
    given: int = option(2, "Letters that are given of each item.", minimum=0, maximum=20)
    items: int = option(200, "Items that are completed, or all of dev where it has fewer.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class FittedList(NamedTuple):
    """A counted model of the one side of a list, and the items of the other."""

    model: NGram
    items: tuple[tuple[int, ...], ...]


@functools.cache
def fit_list(data: str) -> FittedList:
    """Four letters at a time, by Kneser and Ney, on train; and what dev holds."""
    from pellucid.data import ListData, open_data, require_kind
    from pellucid.data.prepare.tokens import split_sequences
    from pellucid.models.counting.ngram import KneserNey, NGram, NGramConfig

    opened = open_data(data)
    require_kind(opened, "list")
    assert isinstance(opened, ListData)
    sides = split_sequences(opened)
    items: list[list[int]] = [[]]
    for token in sides.dev.tokens.tolist():
        if token == sides.vocabulary.closing:
            items.append([])
        else:
            items[-1].append(token)
    model = NGram.fit(sides.train, NGramConfig(len(sides.vocabulary), 4, KneserNey()))
    return FittedList(model, tuple([tuple(item) for item in items if item]))


def measure_completions(knobs: CompletionKnobs) -> Numbers:
    """Items of dev, completed greedily and by a beam: log-probabilities, lengths, and how many are the item itself."""
    import numpy as np

    from pellucid.decoding.beam import beam_search

    fitted = fit_list(knobs.data)
    longer = [item for item in fitted.items if len(item) > knobs.given]
    if not longer:
        raise PellucidError(f"no item has more than {knobs.given} letters", fix="Give fewer letters, as given=0")
    chosen = np.random.default_rng(knobs.seed).choice(len(longer), min(knobs.items, len(longer)), replace=False)
    logs, lengths, right = np.zeros((3, 2, len(chosen)))
    for at, number in enumerate(chosen.tolist()):
        item = longer[number]
        for which, width in enumerate((1, knobs.width)):
            best = beam_search(
                fitted.model.log_probabilities, width=width, longest=40, start=[0, *item[: knobs.given]], stop=0
            )[0].drawn
            logs[which, at], lengths[which, at] = best.log_probability, knobs.given + len(best.tokens)
            right[which, at] = best.tokens == item[knobs.given :]
    gains = logs[1] - logs[0]
    return {
        "gain, nats": float(gains.mean()),
        "likelier": float((gains > 1e-9).mean()),
        "less likely": float((gains < -1e-9).mean()),
        "right by greedy": float(right[0].mean()),
        "right by beam": float(right[1].mean()),
        "letters by greedy": float(lengths[0].mean()),
        "letters by beam": float(lengths[1].mean()),
        "letters of the items": float(np.mean([len(longer[one]) for one in chosen])),
    }


WHERE = "answers Q6"

FAMILY = ClaimFamily(
    name="greedy-and-beam",
    title="Greedy decoding and beam search",
    claims=(
        Claim(
            id="beam-07-times-0001",
            stated="0.007",
            says="0.7 × 0.001 = 0.007",
            where=WHERE,
            kind="arithmetic",
            measure=measure_product,
            decides="product",
            margin=lambda seen: closeness(seen["product"], 0.007, 3),
            rule="the product equals 0.007 to three decimals",
            knobs=TwoWordKnobs,
            control={"second": 0.01},
            second=multiply_fractions,
        ),
        Claim(
            id="beam-03-times-09",
            says="0.3 × 0.9 = 0.27",
            where=WHERE,
            kind="arithmetic",
            measure=measure_product,
            decides="product",
            margin=lambda seen: closeness(seen["product"], 0.27, 2),
            rule="the product equals 0.27 to two decimals",
            knobs=OtherWordKnobs,
            control={"second": 0.8},
            second=multiply_fractions,
        ),
        Claim(
            id="greedy-example-consistent",
            says="greedy, having taken a first word of 0.7, has to go on with a word of 0.001",
            where=WHERE,
            kind="arithmetic",
            measure=measure_two_words,
            decides="greedy's second word",
            margin=lambda seen: 0.001 * (1 + 1e-9) - seen["greedy's second word"],
            rule="the likeliest word behind the first has 0.001, where all that could come next sum to 1",
            knobs=VocabularyKnobs,
            control={"vocabulary": 50_000},
            search=Search("vocabulary", 2, 100_000, is_log=True),
            second=solve_two_words,
            other_reading="with two words, as the example has them, the other has 0.999, and greedy's path is the best",
        ),
        Claim(
            id="greedy-local-optimum",
            says="greedy decoding can miss the likeliest path, by a first word that looks better",
            where=WHERE,
            kind="draws",
            measure=measure_traps,
            decides="share of traps",
            margin=lambda seen: seen["share of traps"] - 0.01,
            rule="it does for more than 1 % of drawn tables of four words, on paths of four",
            knobs=DrawnTableKnobs,
            control={"memory": "nothing"},
            second=list_paths,
            seeds=5,
        ),
        Claim(
            id="beam-keeps-slightly-worse-start",
            surprise="a beam forgets the better path as soon as it pays off later than the beam is wide",
            says="a beam keeps a slightly worse start that pays off later",
            where=WHERE,
            kind="proof",
            measure=measure_pay_off,
            decides="is found",
            margin=lambda seen: seen["is found"] - 0.5,
            rule="a beam of 4 finds the path of a start of 0.45, which is the likeliest, however late it pays off",
            knobs=PayOffKnobs,
            control={"width": 1},
            search=Search("delay", 0, 10, n_values=11),
            second=solve_pay_off,
            other_reading="until then the beam must hold all likelier beginnings: a width above 2^delay does",
        ),
        Claim(
            id="beam-search-is-better",
            surprise="what beam search finds is likelier, and much shorter than what people write",
            says="beam search finds better sequences than greedy decoding",
            where=WHERE,
            kind="draws",
            measure=measure_completions,
            decides="gain, nats",
            margin=lambda seen: seen["gain, nats"] - 0.01,
            rule="by 0.01 nats or more its completions of 200 unread items are likelier on average",
            knobs=CompletionKnobs,
            control={"width": 1},
            seeds=5,
            other_reading="as names they are worse: 3.6 letters on average, where names have 6.3 and greedy's have 5.8",
        ),
    ),
)
