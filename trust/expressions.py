"""Random expressions through pellucid and through torch: every value and every gradient, at eight points each.

python -m trust.expressions --count 20000 --seed 1 --processes 2
"""

import argparse
import math
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from torch import Tensor
from trust import oracle
from trust.arbiter import NAN_VALUE, ROAD_NOT_TAKEN, WRONG, agree, forward, judge
from trust.trees import N_POINTS, Case, case

from pellucid.autograd.grammar import parse

LONGEST_SECONDS = 0.1
MOST_EXAMPLES = 3
CHUNK = 2000


@dataclass
class Tally:
    """What a stretch of cases came to."""

    n_cases: int = 0
    n_nodes: int = 0
    n_values: int = 0
    n_gradients: int = 0
    n_shared: int = 0
    slowest: float = 0.0
    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)  # "values" and "gradients"
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        self.n_cases += other.n_cases
        self.n_nodes += other.n_nodes
        self.n_values += other.n_values
        self.n_gradients += other.n_gradients
        self.n_shared += other.n_shared
        self.slowest = max(self.slowest, other.slowest)
        self.verdicts += other.verdicts
        self.wrong += other.wrong
        self.kinds += other.kinds
        for verdict, shown in other.examples.items():
            together = self.examples.get(verdict, []) + shown
            self.examples[verdict] = together if verdict == WRONG else together[:MOST_EXAMPLES]

    def note(self, verdict: str, is_value: bool, example: str) -> None:
        self.verdicts[verdict] += 1
        if verdict == WRONG:
            self.wrong["values" if is_value else "gradients"] += 1
        self.examples.setdefault(verdict, [])
        if len(self.examples[verdict]) < MOST_EXAMPLES or verdict == WRONG:
            self.examples[verdict].append(example)

    @property
    def is_well(self) -> bool:
        return not self.wrong and self.verdicts[WRONG] == 0 and self.slowest < LONGEST_SECONDS


def our_answers(c: Case) -> list[list[float]]:
    """For each point: the value, then the gradient toward each variable, all by reading the text."""
    program = parse(c.text)
    assert set(program.inputs) == set(c.variables), "the parser found other variables"
    last = program.statements[-1].place
    places = [program.inputs[name] for name in c.variables]
    answers = []
    for point in range(N_POINTS):
        nodes = program.trace(c.at(point))
        nodes[last].backward()
        answers.append([nodes[last].data, *[nodes[place].grad for place in places]])
    return answers


def check(c: Case, tally: Tally) -> None:
    """Compare one case at all its points and note every difference with its reason."""
    tally.n_cases += 1
    tally.n_nodes += len(c.nodes)
    tally.n_values += N_POINTS
    tally.n_gradients += N_POINTS * len(c.variables)
    tally.n_shared += ";" in c.text
    tally.kinds.update([node.kind for node in c.nodes])
    started = time.process_time()
    try:
        ours = our_answers(c)
    except Exception as crash:
        tally.note(WRONG, True, f"{c}: {crash!r}")
        return
    tally.slowest = max(tally.slowest, time.process_time() - started)
    values, gradients, tensors = oracle.answers(c)
    for point, mine in enumerate(ours):
        theirs = [values[point], *[row[point] for row in gradients]]
        if mine == theirs:
            continue
        if not all([agree(x, y) for x, y in zip(mine, theirs, strict=True)]):
            settle(c, point, mine, theirs, tensors, tally)


def settle(c: Case, point: int, ours: list[float], theirs: list[float], tensors: list[Tensor], tally: Tally) -> None:
    """Find the reason for a difference at one point: an exception of the written list, lost digits, or a mistake."""
    example = f"{c} at {c.at(point)}\n      ours {ours}\n      torch {theirs}"
    if ours[0] != ours[0] and theirs[0] != theirs[0]:
        # A value that is nan has nan for every gradient that is reached, whatever torch still finds.
        roads = [oracle.taken(c, [tensor[point].item() for tensor in tensors]), oracle.taken(c, forward(c, point))]
        is_right = any([agree_on_nan(c, ours[1:], chosen) for chosen in roads])
        tally.note(NAN_VALUE if is_right else WRONG, False, example)
        return
    if any(node.kind == "where" for node in c.nodes):
        value, gradients = oracle.answers_on_the_road_taken(c, point)
        if all([agree(x, y) for x, y in zip(ours, [value, *gradients], strict=True)]):
            tally.note(ROAD_NOT_TAKEN, False, example)
            return
        theirs = [value, *gradients]
    for i, verdict in judge(c, point, ours, theirs):
        tally.note(verdict, i == 0, example)


def agree_on_nan(c: Case, gradients: list[float], chosen: set[int]) -> bool:
    """Whether the gradients are nan exactly where the answer, itself nan, is made from the variable."""
    reached = {int(node.number) for i, node in enumerate(c.nodes) if node.kind == "variable" and i in chosen}
    return all([math.isnan(g) if i in reached else g == 0.0 for i, g in enumerate(gradients)])


def stretch(job: tuple[int, int, int]) -> Tally:
    """The tally of the cases from start to end."""
    seed, start, end = job
    tally = Tally()
    for number in range(start, end):
        check(case(seed, number), tally)
    return tally


def fuzz(count: int, seed: int, processes: int = 1, is_shown: bool = False) -> Tally:
    """Check `count` cases and add up what was found."""
    jobs = [(seed, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    total = Tally()
    if processes == 1:
        for done in map(stretch, jobs):
            total.add(done)
            _show_progress(done, total, count, is_shown)
        return total
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done in pool.imap(stretch, jobs):
            total.add(done)
            _show_progress(done, total, count, is_shown)
    return total


def _show_progress(done: Tally, total: Tally, count: int, is_shown: bool) -> None:
    if not is_shown:
        return
    for example in done.examples.get(WRONG, []):
        print(example, file=sys.stderr, flush=True)  # a mistake is worth knowing before the end
    if sys.stderr.isatty():
        print(f"\r{total.n_cases:,} of {count:,}", end="", file=sys.stderr)


def report(tally: Tally, seed: int) -> str:
    """The counts as lines of text."""
    rarest, n_rarest = min(tally.kinds.items(), key=lambda item: item[1])
    lines = [
        f"{tally.n_cases:,} expressions (seed {seed}, {tally.n_nodes / tally.n_cases:.1f} nodes each, "
        f"{tally.n_shared:,} with named parts) at {N_POINTS} points",
        f"{tally.n_values:,} values: {tally.wrong['values']} wrong",
        f"{tally.n_gradients:,} gradients: {tally.wrong['gradients']} wrong",
        f"rarest operation: {rarest}, {n_rarest:,} times",
        f"slowest expression at all its points: {tally.slowest * 1000:.1f} ms of processor time",
        "differences from torch, each with its reason:",
    ]
    for verdict, n in tally.verdicts.most_common():
        lines.append(f"  {n:>9,}  {verdict}")
    for verdict, shown in tally.examples.items():
        lines.append(f"  {verdict}:")
        lines += [f"    {example}" for example in shown]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    tally = fuzz(asked.count, asked.seed, asked.processes, is_shown=True)
    print(report(tally, asked.seed))
    return 0 if tally.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
