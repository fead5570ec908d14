"""Counting n-grams beside nltk.lm, on the same text in one run: fitting all orders up to n, and scoring every token.

    python benchmarks/counting.py [--turns 5] [--orders 2,3,5] [--data names|PATH] [--json]

Both are given what they work on in the form they like: nltk its grams as tuples of strings, made beforehand and not
timed; we the array of tokens, from which our time includes making the codes. nltk fits `MLE` (every order up to n, as
ours does) and scores with `logscore`, one token at a time, which is its only way. Before anything is timed, every
count and every log-probability of one is compared with the other's.

The clock is the CPU time of one thread; the arms take turns. On a list nltk scores a sample of the tokens, and its
time is scaled to all of them: a scored token costs it the same wherever it stands.

Memory is by how much a process of its own grows while a model is fitted, and while it is fitted and then scores.
"""

import argparse
import gc
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# One thread for the arrays as for the dictionaries.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from memory import alone, most_held, start_over
from pellucid.data import Characters, ListData, TextData, open_data
from pellucid.data.prepare import Corpus, encode_list, encode_text
from pellucid.models.counting.ngram import AddS, NGram, NGramConfig

MOST_SCORED = 50_000  # tokens that nltk scores in one turn
SHAKESPEARE = Path(__file__).parent.parent.parent / "shared" / "data" / "shakespeare.txt"
EDGE = "·"


class Task(NamedTuple):
    """One corpus for both: as tokens, and as sequences of letters with their boundaries."""

    name: str
    corpus: Corpus
    symbols: list[str]
    sequences: list[list[str]]


class Row(NamedTuple):
    """What one order took: seconds of every turn, and bytes."""

    data: str
    order: int
    n_tokens: int
    peer_fit: list[float]
    fit: list[float]
    peer_score: list[float]
    score: list[float]
    peer_grown: tuple[int, int]  # fitting, and scoring with what was fitted
    grown: tuple[int, int]


def task(source: str) -> Task:
    data = open_data(source)
    if isinstance(data, ListData):
        vocabulary = Characters.of(data.items)
        return Task(data.name, encode_list(data, vocabulary), vocabulary.tokens, [[*item, EDGE] for item in data.items])
    if not isinstance(data, TextData):
        sys.exit(f"{data.name} is a {data.kind}; a list or running text is wanted")
    vocabulary = Characters.of(data, has_boundary=False)
    return Task(data.name, encode_text(data, vocabulary), vocabulary.tokens, [list(data.read())])


def peer_grams(job: Task, order: int) -> list[list[tuple[str, ...]]]:
    """Every gram of every order, sequence by sequence, as nltk's own pipeline would hand them over."""
    found = []
    before = [EDGE] * (order - 1) if job.corpus.has_boundary else []
    for sequence in job.sequences:
        letters = [*before, *sequence]
        first = len(before)
        found.append(
            [
                tuple(letters[end - k : end])
                for end in range(first + 1, len(letters) + 1)
                for k in range(1, min(order, end) + 1)
            ]
        )
    return found


def fit_peer(grams: list[list[tuple[str, ...]]], order: int, letters: Sequence[str]) -> Any:
    from nltk.lm import MLE, Vocabulary

    model = MLE(order, vocabulary=Vocabulary(letters))
    model.fit(grams)
    return model


def seconds(action: Callable[[], object]) -> float:
    """CPU seconds of one call, with the collector quiet."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    action()
    taken = time.process_time() - began
    gc.enable()
    return taken


def asked_of_peer(job: Task, order: int) -> list[tuple[str, tuple[str, ...]]]:
    """The first tokens of the corpus, each with its context, for nltk to score."""
    found: list[tuple[str, tuple[str, ...]]] = []
    before = [EDGE] * (order - 1) if job.corpus.has_boundary else []
    for sequence in job.sequences:
        letters = [*before, *sequence]
        start = len(before) or 1
        for place in range(start, min(len(letters), start + MOST_SCORED)):
            found.append((letters[place], tuple(letters[max(0, place - order + 1) : place])))
        if len(found) >= MOST_SCORED:
            break
    return found[:MOST_SCORED]


def held_by(source: str, order: int, is_peer: bool) -> tuple[int, int]:
    """Bytes by which this process grows while a model is fitted, and until it has scored; for a process of its own."""
    job = task(source)
    if not is_peer:
        config = NGramConfig(len(job.symbols), order, AddS(0.0))
        before = start_over()
        ours = NGram.fit(job.corpus, config)
        fitted = most_held() - before
        ours.of_each(job.corpus.tokens)
        return fitted, most_held() - before
    grams, asked = peer_grams(job, order), asked_of_peer(job, order)
    fit_peer([], order, job.symbols)  # loads nltk, with all that it loads
    before = start_over()
    peer = fit_peer(grams, order, job.symbols)
    fitted = most_held() - before
    for token, context in asked:
        peer.logscore(token, context)
    return fitted, most_held() - before


def measured(source: str, job: Task, order: int, n_turns: int) -> Row:
    """Check that both say the same, time them in turns, then see what each holds."""
    tokens, letters = job.corpus.tokens, job.symbols
    config = NGramConfig(len(letters), order, AddS(0.0))
    grams = peer_grams(job, order)
    asked = asked_of_peer(job, order)
    peer, ours = fit_peer(grams, order, letters), NGram.fit(job.corpus, config)
    require_equal_counts(peer, ours, letters)
    theirs = np.array([peer.logscore(token, context) for token, context in asked]) * math.log(2)
    gap = float(np.abs(theirs - ours.of_each(tokens)[: len(asked)]).max())
    if not gap < 1e-9:
        sys.exit(f"{job.name}, n = {order}: log-probabilities differ by {gap:g}; nothing was timed")
    row = Row(job.name, order, len(tokens) - 1, [], [], [], [], (0, 0), (0, 0))
    scale = row.n_tokens / len(asked)
    for _ in range(n_turns):
        row.peer_fit.append(seconds(lambda: fit_peer(grams, order, letters)))
        row.fit.append(several(lambda: NGram.fit(job.corpus, config)))
        row.peer_score.append(scale * seconds(lambda: [peer.logscore(token, context) for token, context in asked]))
        row.score.append(several(lambda: ours.of_each(tokens)))
    peer_held, held = (alone(held_by, source, order, is_peer) for is_peer in (True, False))
    return row._replace(peer_grown=peer_held, grown=held)


def several(action: Callable[[], object], n: int = 5) -> float:
    """CPU seconds of a call so short that one alone would measure the clock."""

    def repeated() -> None:
        for _ in range(n):
            action()

    return seconds(repeated) / n


def require_equal_counts(peer: Any, ours: NGram, letters: Sequence[str]) -> None:
    """Every count of nltk's is ours, and ours are no more."""
    index = {letter: i for i, letter in enumerate(letters)}
    for level in ours.grams.levels:
        table = level.table() if len(letters) ** level.order <= 1 << 24 else None
        counters = [((), peer.counts.unigrams)] if level.order == 1 else list(peer.counts[level.order].items())
        n_seen = 0
        for context, counter in counters:
            for letter, n in counter.items():
                code = 0
                for one in (*context, letter):
                    code = code * len(letters) + index[one]
                n_seen += 1
                where = code if table is not None else int(level.find(np.array([code]))[0])
                if (level.counts if table is None else table)[where] != n:
                    sys.exit(f"the count of {(*context, letter)} differs; nothing was timed")
        if n_seen != level.n_seen:
            sys.exit(f"order {level.order}: nltk saw {n_seen} grams and we {level.n_seen}; nothing was timed")


def spread(values: Sequence[float], unit: float) -> str:
    """The median and, in brackets, the lowest and the highest."""
    return f"{statistics.median(values) * unit:,.1f} [{min(values) * unit:,.1f}..{max(values) * unit:,.1f}]"


def ratio(peer: Sequence[float], ours: Sequence[float]) -> str:
    """The ratio of the medians and, in brackets, of each turn's pair the lowest and the highest."""
    each = [a / b for a, b in zip(peer, ours, strict=True)]
    return f"{statistics.median(peer) / statistics.median(ours):,.0f}× [{min(each):,.0f}..{max(each):,.0f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5, help="timed turns of each arm")
    parser.add_argument("--orders", default="2,3,5", help="the n's, separated by commas")
    parser.add_argument("--data", default="", help="a file or an embedded set; else names, and shakespeare if present")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    asked = parser.parse_args()
    sources = [asked.data] if asked.data else ["names", *([str(SHAKESPEARE)] if SHAKESPEARE.exists() else [])]
    rows = []
    for source in sources:
        job = task(source)
        rows += [measured(source, job, int(order), asked.turns) for order in asked.orders.split(",")]
    if asked.json:
        print(json.dumps([row._asdict() for row in rows]))
        return
    print(f"nltk.lm and pellucid, maximum likelihood, CPU time, median [lowest..highest] of {asked.turns} turns")
    print(f"{'data':16}{'n':>2}{'tokens':>11}   {'nltk s':>20}   {'ours ms':>22}   times faster, memory of both")
    for row in rows:
        for place, (noun, peer, ours) in enumerate(
            (("fit", row.peer_fit, row.fit), ("score", row.peer_score, row.score))
        ):
            held = f"{row.peer_grown[place] / 1e6:,.0f} and {row.grown[place] / 1e6:,.0f} MB"
            label = f"{row.data:16}{row.order:>2}{row.n_tokens:>11,}"
            print(f"{label}   {spread(peer, 1):>20}   {spread(ours, 1e3):>22}   {noun} {ratio(peer, ours)}   {held}")
    print("every count and every log-probability compared: equal, to 1e-9")


if __name__ == "__main__":
    main()
