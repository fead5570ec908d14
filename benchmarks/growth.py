"""What size costs: seconds and memory against parameters, context, tokens, rows and nodes, each with its exponent.

    python benchmarks/growth.py [--only tokens] [--turns 3] [--write docs/pictures/growth.svg] [--json]

    parameters    a training step of a transformer, 16 windows of 64 tokens, ever wider
    context       a training step of the medium transformer on one window, ever longer
    tokens        counting all n-grams up to 5 of a text, ever longer
    rows          reading a CSV file and dividing it by strata, ever longer
    nodes         building a graph of the scalar engine and deriving it, ever larger

Every point has a process of its own, so that its memory is its own: shown is by how much the most that the process ever
held has grown. The clock is the CPU time of one thread, the median of the turns. The exponent is the slope of a
straight line through the logarithms: 1 is linear, 2 is quadratic. Small sizes cost little more than the calls
themselves, so the exponent of the upper half is shown beside that of all.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memory import Action, grown_by

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


class Point(NamedTuple):
    """What one size costs."""

    size: int
    seconds: float
    grown: int  # bytes


class Curve(NamedTuple):
    """How one thing grows; `prepare` makes what is timed and tells the size itself where it is known only then."""

    name: str
    does: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], tuple[int, Action]]


def training_step(vocab_size: int, width: int, batch_size: int, context: int) -> tuple[int, Action]:
    """One step after another of a transformer on tokens drawn at random; how many parameters it has."""
    import torch

    from pellucid.data.prepare.tokens import Corpus
    from pellucid.models.catalogue import find_network
    from pellucid.models.sequences.configs import TransformerConfig
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.records import Plan
    from pellucid.training.loop import steps
    from pellucid.training.optimizers import build_optimizer
    from pellucid.training.tasks.batches import make_batches

    torch.set_num_threads(1)
    torch.manual_seed(0)
    recipe = find_network("transformer", "text").recipe
    plan = Plan(
        steps=1000,
        batch_size=batch_size,
        context=context,
        optimizer=recipe.optimizer,
        learning_rate=1e-3,
        matrix_learning_rate=1e-3,
        momentum=0.0,
        weight_decay=recipe.weight_decay,
        clip=recipe.clip,
        warmup=0,
        schedule="constant",
        evaluate_every=1000,
        probe_every=1000,
        sample_every=1000,
        save_every=1000,
        threads=1,
        seed=0,
    )
    model = Transformer(TransformerConfig(vocab_size, context, width, depth=4, n_heads=4))
    tokens = np.random.default_rng(0).integers(0, vocab_size, 4 * batch_size * context + 1)
    batches = make_batches(Corpus(tokens, False), batch_size, context, seed=0)
    found = steps(model, batches, build_optimizer(model, plan), plan)
    return model.n_parameters, lambda: next(found)


def parameters(width: int) -> tuple[int, Action]:
    return training_step(vocab_size=65, width=width, batch_size=16, context=64)


def context(length: int) -> tuple[int, Action]:
    return length, training_step(vocab_size=65, width=64, batch_size=1, context=length)[1]


def tokens(n: int) -> tuple[int, Action]:
    from pellucid.data.prepare.tokens import Corpus
    from pellucid.models.counting.ngram import AddS, NGram, NGramConfig

    # Letters as rare as those of a language are: the k-th has a share of 1/k.
    shares = 1 / np.arange(1, 28)
    drawn = np.random.default_rng(0).choice(27, n, p=shares / shares.sum())
    return n, lambda: NGram.fit(Corpus(drawn, False), NGramConfig(27, 5, AddS(0.0)))


def rows(n: int) -> tuple[int, Action]:
    from pellucid.data import TableData, open_data
    from pellucid.data.sets.transactions import load
    from pellucid.data.splits import SplitRequest
    from pellucid.data.splits.split import split_data

    folder = tempfile.TemporaryDirectory()  # until what is timed is not needed any more
    path = Path(folder.name) / "transactions.csv"
    load(n=n).frame.write_csv(path)
    request = SplitRequest("stratified", by="items_scanned", together_with=("loyalty_tier",), repeats=0)

    def divide() -> None:
        data = open_data(Path(folder.name) / path.name)
        assert isinstance(data, TableData)
        split_data(data, request)

    return n, divide


def nodes(n: int) -> tuple[int, Action]:
    from pellucid.autograd.value import Value

    def derive() -> None:
        weights = [Value(0.5 + 0.001 * i) for i in range(10)]
        out = weights[0]
        for i in range(n // 3):
            out = (out * weights[i % 10] + weights[(i + 1) % 10]).tanh()
        out.backward()

    return n, derive


CURVES = (
    Curve("parameters", "a training step, 16 windows of 64 tokens", (32, 64, 128, 256, 512), parameters),
    Curve("context", "a training step on one window", (64, 128, 256, 512, 1024, 2048, 4096), context),
    Curve("tokens", "counting all n-grams up to 5", (10_000, 100_000, 1_000_000, 10_000_000), tokens),
    Curve("rows", "reading a CSV file and dividing it", (10_000, 100_000, 1_000_000), rows),
    Curve("nodes", "building a scalar graph and deriving it", (1_000, 10_000, 100_000, 1_000_000), nodes),
)


def one_point(curve: Curve, size: int, turns: int) -> Point:
    """In a process of its own. The first call loads what is loaded once, so its memory counts and its time does not."""
    size, action = curve.prepare(size)
    grown = grown_by(action)
    spent = []
    for _ in range(turns):
        began = time.process_time()
        action()
        spent.append(time.process_time() - began)
    return Point(size, statistics.median(spent), grown)


def measured(curve: Curve, turns: int) -> list[Point]:
    found = []
    for size in curve.sizes:
        words = [sys.executable, __file__, "--point", curve.name, str(size), "--turns", str(turns)]
        run = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", env=ONE_THREAD, check=True)
        found.append(Point(*json.loads(run.stdout)))
    return found


def exponent(points: Sequence[Point]) -> float:
    """The slope of the straight line through the logarithms."""
    sizes, seconds = ([math.log(point[i]) for point in points] for i in (0, 1))
    return statistics.linear_regression(sizes, seconds).slope


def upper_half(points: Sequence[Point]) -> Sequence[Point]:
    return points[-max(2, (len(points) + 1) // 2) :]


def draw(found: dict[str, list[Point]]) -> str:
    """All curves in one picture, by powers of ten."""
    from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning, draw_lines
    from pellucid.figures.picture import picture

    lines = {
        f"{name}, power {exponent(upper_half(points)):.2f}": [(float(p.size), p.seconds) for p in points]
        for name, points in found.items()
    }
    every = [point for points in lines.values() for point in points]
    panel = Panel(
        axis_spanning([x for x, _ in every], "size: parameters, tokens, rows or nodes", is_log=True),
        axis_spanning([y for _, y in every], "CPU seconds of one thread", is_log=True),
        720,
        420,
    )
    draw_lines(panel, lines)
    captions = ["Both axes by powers of ten. The power is the slope of the upper half: 1 is linear, 2 is quadratic."]
    return picture("What size costs", captions, panel.draw(0, 12), LEFT + 720 + 230, 12 + 420 + BOTTOM).svg


def table(found: dict[str, list[Point]]) -> list[str]:
    """A row for each curve: the smallest and the largest, and how it grows between them."""
    lines = []
    does = {curve.name: curve.does for curve in CURVES}
    for name, points in found.items():
        first, last = points[0], points[-1]
        lines.append(
            f"| {name} | {does[name]} | {first.size:,} to {last.size:,} "
            f"| {first.seconds * 1e3:,.1f} to {last.seconds * 1e3:,.1f} ms "
            f"| {first.grown / 1e6:,.0f} to {last.grown / 1e6:,.0f} MB "
            f"| {exponent(points):.2f}, upper half {exponent(upper_half(points)):.2f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[curve.name for curve in CURVES])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the picture")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--point", nargs=2, metavar=("CURVE", "SIZE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    by_name = {curve.name: curve for curve in CURVES}
    if asked.point:
        print(json.dumps(one_point(by_name[asked.point[0]], int(asked.point[1]), asked.turns)))
        return
    found: dict[str, Any] = {
        curve.name: measured(curve, asked.turns) for curve in CURVES if asked.only in (None, curve.name)
    }
    if asked.write:
        asked.write.write_text(draw(found), encoding="utf-8")
    if asked.json:
        print(json.dumps(found))
        return
    for name, points in found.items():
        print(f"{name}: {by_name[name].does}")
        for point in points:
            print(f"  {point.size:>12,}  {point.seconds * 1e3:>10,.2f} ms  {point.grown / 1e6:>8,.1f} MB")
        print(
            f"  seconds grow to the power {exponent(points):.2f}, in the upper half {exponent(upper_half(points)):.2f}"
        )


if __name__ == "__main__":
    main()
