"""Pairs of letters: how often each follows each, as a graph, as a matrix, and divided by the sums of its rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, yes
from pellucid.errors import PellucidError
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pellucid.data import Characters
    from pellucid.data.prepare.tokens import Corpus

DATA = "Data that it is asked of: a list, such as names."
FEWEST_ITEMS = 20  # different ones; of fewer, hardly any pair comes twice


class CountedList(NamedTuple):
    """The items of a list and how often each symbol follows each; symbol 0 stands before and behind every item."""

    items: tuple[str, ...]
    vocabulary: Characters
    corpus: Corpus
    counts: npt.NDArray[np.int64]  # (vocab, vocab): row, then the symbol after it


@cache
def count_list(data: str) -> CountedList:
    """Every item of a list, counted."""
    from pellucid.data import Characters, ListData, open_data, require_kind
    from pellucid.data.prepare.tokens import encode_list
    from pellucid.models.counting.simple_models import Bigram, BigramConfig

    opened = open_data(data)
    require_kind(opened, "list")
    assert isinstance(opened, ListData)
    if (n_items := len(set(opened.items))) < FEWEST_ITEMS:
        raise PellucidError(
            f"the number of different items in {opened.name} is {n_items}", fix=f"Give it {FEWEST_ITEMS} or more"
        )
    vocabulary = Characters.of(opened)
    corpus = encode_list(opened, vocabulary)
    counts = Bigram.fit(corpus, BigramConfig(len(vocabulary))).counts
    return CountedList(tuple(opened.items), vocabulary, corpus, counts)


@dataclass(frozen=True)
class OneWordKnobs:
    word: str = option("emma", "The word whose pairs are drawn as a graph.")

    def __post_init__(self) -> None:
        check_options(self)


def measure_word(knobs: OneWordKnobs) -> Numbers:
    """The arrows of one word between its boundaries."""
    from pellucid.models.counting.simple_models import word_counts

    graph = word_counts(knobs.word)
    loops = sum([one.n for one in graph.bigrams if one.first == one.second])
    return {"edges": float(graph.total), "loops on the diagonal": float(loops)}


def pair_word(knobs: OneWordKnobs) -> Numbers:
    """The same by laying the word beside itself."""
    framed = f"<{knobs.word}>"
    pairs = list(itertools.pairwise(framed))
    return {"edges": float(len(pairs)), "loops on the diagonal": float(sum([a == b for a, b in pairs]))}


@dataclass(frozen=True)
class TerminalKnobs:
    data: str = option("names", DATA)
    terminals: str = option(
        "two", "A symbol for each end, one for both, or a letter of the data", choices=("one", "two", "letter")
    )

    def __post_init__(self) -> None:
        check_options(self)


def _count_framed(knobs: TerminalKnobs) -> tuple[Counter[tuple[str, str]], str, str]:
    """Pairs by a loop over the items, framed by the symbols that are asked for."""
    start, end = {"two": ("<S>", "<E>"), "one": ("·", "·"), "letter": ("a", "a")}[knobs.terminals]
    pairs: Counter[tuple[str, str]] = Counter()
    for item in count_list(knobs.data).items:
        framed = [start, *item, end]
        pairs.update(itertools.pairwise(framed))
    return pairs, start, end


def measure_terminals(knobs: TerminalKnobs) -> Numbers:
    """Row and column sums of the matrix of pairs, and those of its two ends."""
    pairs, start, end = _count_framed(knobs)
    rows, columns = Counter[str](), Counter[str]()
    for (first, second), n in pairs.items():
        rows[first] += n
        columns[second] += n
    return {
        "row of the end": float(rows[end]),
        "column of the start": float(columns[start]),
        "row of the start": float(rows[start]),
        "symbols whose sums differ": float(sum([rows[one] != columns[one] for one in {*rows, *columns}])),
    }


def measure_one_terminal(knobs: TerminalKnobs) -> Numbers:
    """How far the log-likelihoods of 500 items are apart with one symbol for both ends and with one for each."""

    def likelihoods(of: TerminalKnobs) -> list[float]:
        pairs, start, end = _count_framed(of)
        rows = Counter[str]()
        for (first, _), n in pairs.items():
            rows[first] += n
        found = []
        for item in count_list(of.data).items[:500]:
            framed = [start, *item, end]
            steps = itertools.pairwise(framed)
            found.append(sum([math.log(pairs[first, second] / rows[first]) for first, second in steps]))
        return found

    given = "one" if knobs.terminals == "two" else knobs.terminals
    both, one = likelihoods(TerminalKnobs(knobs.data, "two")), likelihoods(TerminalKnobs(knobs.data, given))
    return {"furthest apart, nats": max([abs(a - b) for a, b in zip(both, one, strict=True)])}


@dataclass(frozen=True)
class EndLetterKnobs:
    data: str = option("names", DATA)
    letters: str = option("an", "The letters that are asked about.")

    def __post_init__(self) -> None:
        check_options(self)


def measure_ends(knobs: EndLetterKnobs) -> Numbers:
    """How many items end with these letters, from the column of the boundary."""
    found = count_list(knobs.data)
    ends = found.counts[:, 0] / found.counts[:, 0].sum()
    asked = [found.vocabulary.index[letter] for letter in knobs.letters if letter in found.vocabulary.index]
    others = [share for i, share in enumerate(ends) if i not in asked]
    return {
        "share of items": float(sum(ends[asked])),
        "rarest of them": float(min(ends[asked])),
        "most frequent other": float(max(others)),
    }


def count_ends(knobs: EndLetterKnobs) -> Numbers:
    """The same by looking at the last letter of each."""
    items = count_list(knobs.data).items
    return {"share of items": sum([item[-1] in knobs.letters for item in items]) / len(items)}


@dataclass(frozen=True)
class FirstLetterKnobs:
    data: str = option("names", DATA)
    items: str = option("all", "All items, or those whose first letter comes only once", choices=("all", "first once"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_first_letter(knobs: FirstLetterKnobs) -> Numbers:
    """The printed likelihood of each item, with P(v) wherever the first letter stands, beside the chain rule."""
    import numpy as np

    found = count_list(knobs.data)
    with np.errstate(divide="ignore"):
        logs = np.log(found.counts / found.counts.sum(axis=1, keepdims=True))
    same = n = 0
    for item in found.items:
        places = [found.vocabulary.index[letter] for letter in item]
        if knobs.items == "first once" and places.count(places[0]) > 1:
            continue
        pairs = sum([logs[a, b] for a, b in itertools.pairwise(places)])
        printed = pairs + sum([logs[0, place] for place in places if place == places[0]])
        n += 1
        same += abs(printed - (pairs + logs[0, places[0]])) < 1e-9
    return {"items where it is right": same / max(1, n), "items": float(n)}


@dataclass(frozen=True)
class NormaliseKnobs:
    data: str = option("names", DATA)
    over: str = option("first", "The symbol that is summed over below the line", choices=("first", "second"))
    keepdim: str = option("yes", "Whether sums stay a column, or become a plain row", choices=("yes", "no"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_normalised(knobs: NormaliseKnobs) -> Numbers:
    """C/Σ over the first symbol beside C/Σ over the second."""
    counts = count_list(knobs.data).counts
    axis = 0 if knobs.over == "first" else 1
    stated = counts / counts.sum(axis=axis, keepdims=True)
    right = counts / counts.sum(axis=1, keepdims=True)
    return {
        "furthest apart": float(abs(stated - right).max()),
        "smallest row sum": float(stated.sum(axis=1).min()),
        "largest row sum": float(stated.sum(axis=1).max()),
    }


def measure_broadcast(knobs: NormaliseKnobs) -> Numbers:
    """Row sums by torch, as a column or as a plain row, and the counts divided by them."""
    import torch

    counts = torch.from_numpy(count_list(knobs.data).counts).double()
    table = counts / counts.sum(1, keepdim=knobs.keepdim == "yes")
    return {"row sum furthest from 1": max(table.sum(1).tolist(), key=lambda total: abs(total - 1))}


GRAPH, LIKELY = "notes §5.1", "notes §5.3"

FAMILY = ClaimFamily(
    name="letter-pairs",
    title="Pairs of letters",
    picture="bigram-graph",
    claims=(
        Claim(
            id="emma-multigraph",
            says="emma has 5 pairs with its two ends, and mm is a loop on the diagonal of their matrix",
            where="notes §5.1 Ex.3 Fig.2",
            kind="proof",
            measure=measure_word,
            decides="edges",
            margin=lambda seen: yes(seen["edges"] == 5 and seen["loops on the diagonal"] == 1),
            rule="there are 5 edges, of which 1 stands on the diagonal",
            knobs=OneWordKnobs,
            control={"word": "emily"},
            second=pair_word,
        ),
        Claim(
            id="end-row-and-start-column-zero",
            says="nothing follows the end symbol and nothing comes before the start symbol",
            where=GRAPH,
            kind="proof",
            measure=measure_terminals,
            decides="row of the end",
            margin=lambda seen: 0.5 - seen["row of the end"] - seen["column of the start"],
            rule="the row of the end and the column of the start hold no pair",
            knobs=TerminalKnobs,
            control={"terminals": "one"},
        ),
        Claim(
            id="row-sum-equals-column-sum",
            says="in the matrix of pairs each column sum equals the row sum",
            where=GRAPH,
            kind="proof",
            measure=measure_terminals,
            decides="symbols whose sums differ",
            margin=lambda seen: 0.5 - seen["symbols whose sums differ"],
            rule="there is no symbol whose row and column have different sums",
            knobs=TerminalKnobs,
            control={"terminals": "one"},
            other_reading="it is so of all letters; a start and an end of their own are the two that differ",
        ),
        Claim(
            id="single-terminal-token-suffices",
            says="one symbol can stand for both the start and the end",
            where=GRAPH,
            kind="proof",
            measure=measure_one_terminal,
            margin=lambda seen: 1e-9 - seen["furthest apart, nats"],
            rule="every item is as likely with one as with two",
            knobs=TerminalKnobs,
            control={"terminals": "letter"},
        ),
        Claim(
            id="n-and-a-end-most-names",
            says="n and a are the last letter of most names",
            where="notes §5.1 Fig.3",
            kind="arithmetic",
            measure=measure_ends,
            decides="share of items",
            margin=lambda seen: seen["share of items"] - 0.5,
            rule="more than half of all names end with one of the two",
            knobs=EndLetterKnobs,
            control={"letters": "ane"},
            second=count_ends,
            other_reading="they are the two most frequent ends, which is so",
        ),
        Claim(
            id="dataset-about-32k",
            says="the data are about 32,000 names",
            where=GRAPH,
            kind="history",
            reason="it is about one file of names, which does not come with pellucid; the names here are 30,000 others",
        ),
        Claim(
            id="first-letter-indicator-term",
            says="a factor P(v) to the power 0 or 1, whether v begins a word, accounts for the first letter",
            where=LIKELY,
            kind="proof",
            measure=measure_first_letter,
            decides="items where it is right",
            margin=lambda seen: seen["items where it is right"] - 1 + 1e-9,
            rule="as printed, a product over all places, the likelihood of every name is the chain rule's",
            knobs=FirstLetterKnobs,
            control={"items": "first once"},
            other_reading="as a count of first letters over all names, and not 0 or 1, it is right",
        ),
        Claim(
            id="normalise-over-vi",
            says="P(vj | vi) is the count divided by the sum over vi, which is the row's sum",
            where=LIKELY,
            kind="proof",
            measure=measure_normalised,
            decides="furthest apart",
            margin=lambda seen: 1e-9 - seen["furthest apart"],
            rule="both sums give the same table",
            knobs=NormaliseKnobs,
            control={"over": "second"},
            other_reading="the sum has to run over vj, as in the second of the two forms",
        ),
        Claim(
            id="keepdim-column-vector",
            says="the row sums have to be a column before the counts are divided by them",
            where=LIKELY,
            kind="proof",
            measure=measure_broadcast,
            margin=lambda seen: 1e-9 - abs(seen["row sum furthest from 1"] - 1),
            rule="then every row adds up to 1",
            knobs=NormaliseKnobs,
            control={"keepdim": "no"},
        ),
    ),
)
