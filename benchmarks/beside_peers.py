"""Every benchmark that has a peer, as one table: what theirs takes, what ours takes, and who is faster.

    python benchmarks/beside_peers.py [--only generation,split] [--kept] [--write docs/performance.md]

It runs the benchmarks beside this file one after another, each with --json, and keeps what they printed in out/bench/,
one file each. With --kept, what is there is not measured again, so that a run that was stopped goes on. On two quiet
cores it takes between a quarter and three quarters of an hour, by how fast they are.

A ratio is theirs over ours, so that above 1 ours is faster: the median, and in brackets the lowest and the highest of
the turns' own ratios. Where 1 lies between those two, neither is called faster. A benchmark that fails is named and
left out.
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import growth

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "out" / "bench"
PICTURE = ROOT / "docs" / "pictures" / "growth.svg"


class Row(NamedTuple):
    """One task of ours beside one peer's."""

    task: str
    peer: str
    theirs: str
    ours: str
    ratios: list[float]  # of each turn: theirs over ours
    memory: tuple[int, int] | None = None  # bytes, theirs and ours; None: not measured
    ratio: float | None = None  # where it is not the median of the turns'
    clock: str = "CPU"  # or wall

    @property
    def middle(self) -> float:
        return statistics.median(self.ratios) if self.ratio is None else self.ratio

    @property
    def faster(self) -> str:
        """Who is, where the turns agree."""
        if min(self.ratios) > 1:
            return "ours"
        return "theirs" if max(self.ratios) < 1 else "level"

    @property
    def spread(self) -> str:
        return faster_by(self.ratios, self.middle)

    @property
    def holds(self) -> str:
        return "{} and {} MB".format(*map(megabytes, self.memory)) if self.memory else ""


class Own(NamedTuple):
    """A figure of ours that no peer has."""

    what: str
    figure: str


def times(ratio: float) -> str:
    """Three digits, or as many as stand before the point.

    >>> times(1234.5), times(56.78), times(1.234)
    ('1,234', '56.8', '1.23')
    """
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def faster_by(ratios: Sequence[float], middle: float) -> str:
    """The ratio in the middle and, of several turns, the lowest and the highest.

    >>> faster_by([3.0, 2.0, 2.5], 2.5), faster_by([2.0], 2.0)
    ('2.5× [2..3]', '2×')
    """
    return f"{times(middle)}×" + f" [{times(min(ratios))}..{times(max(ratios))}]" * (len(ratios) > 1)


def duration(seconds: float) -> str:
    """In the unit that fits.

    >>> duration(0.00042), duration(0.25), duration(12.3)
    ('0.42 ms', '250 ms', '12.3 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def megabytes(n_bytes: int) -> str:
    """Below ten with one digit after the point.

    >>> megabytes(1_234_567_890), megabytes(2_340_000)
    ('1,235', '2.3')
    """
    return f"{n_bytes / 1e6:,.0f}" if n_bytes >= 10e6 else f"{n_bytes / 1e6:.1f}"


def beside(
    task: str,
    peer: str,
    theirs: Sequence[float],
    ours: Sequence[float],
    memory: tuple[int, int] | None = None,
    clock: str = "CPU",
) -> Row:
    """A row of seconds, turn by turn."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    slow, fast = (duration(statistics.median(seconds)) for seconds in (theirs, ours))
    return Row(task, peer, slow, fast, ratios, memory, clock=clock)


def scalar_rows(found: Any) -> Iterator[Row]:
    cpu = {name: [step[1] for step in arm["steps"]] for name, arm in found["arms"].items()}
    tasks = {
        "scalar engine, a step of the moons demo": "pellucid, micrograd's nn code",
        "scalar engine, the same step replayed": "pellucid, replayed",
    }
    for task, ours in tasks.items():
        for peer in ("micrograd", "micrograd, collector off"):
            memory = (found["arms"][peer]["grown"], found["arms"][ours]["grown"])
            yield beside(task, peer, cpu[peer], cpu[ours], memory)


def counting_rows(found: Any) -> Iterator[Row]:
    for row in found:
        memory = zip(row["peer_grown"], row["grown"], strict=True)
        for verb, held in zip(("fit", "score"), memory, strict=True):
            yield beside(f"{verb} {row['order']}-grams, {row['data']}", "nltk.lm", row[f"peer_{verb}"], row[verb], held)


def split_rows(found: Any) -> Iterator[Row]:
    for file_format, arms in found["results"].items():
        *peers, ours, _ = arms
        for peer in peers:
            theirs, own = ([run["seconds"] for run in arms[arm]] for arm in (peer, ours))
            memory = (max(run["grown"] for run in arms[peer]), max(run["grown"] for run in arms[ours]))
            name = peer if "pandas" in peer else "pandas + scikit-learn, strata as numbers"
            yield beside(f"split {found['rows']:,} rows, {file_format}", name, theirs, own, memory, clock="wall")


def training_rows(found: Any) -> Iterator[Row]:
    """A step, and the time to the best loss of the peer's recipe, by the steps that each makes until then."""
    for name, arms in found.items():
        theirs, ours = arms["theirs"], arms["ours"]
        best = min(theirs, key=lambda point: point["dev"])
        peer = {"names": "makemore's recipe", "shakespeare": "nanoGPT's recipe"}[name]
        task = f"train on {name} to {best['dev']:.4f} nats"
        memory = (arms["grown"]["theirs"], arms["grown"]["ours"])
        slow, fast = (
            [(b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in itertools.pairwise([START, *arm])]
            for arm in (theirs, ours)
        )
        yield beside(f"a step on {name}, each with its own batch", peer, slow, fast, memory)
        equal = next((point for point in ours if point["dev"] <= best["dev"]), None)
        if equal is None:
            yield Row(task, peer, duration(best["seconds"]), "not reached", [0.0], memory)
            continue
        ratios = [a * best["step"] / (b * equal["step"]) for a, b in zip(slow, fast, strict=True)]
        whole = best["seconds"] / equal["seconds"]
        yield Row(task, peer, duration(best["seconds"]), duration(equal["seconds"]), ratios, memory, ratio=whole)


START = {"step": 0, "seconds": 0.0}


def generation_rows(found: Any) -> Iterator[Row]:
    names = {"uncached": "without a cache", "peer": "Hugging Face generate"}
    for row in found:
        seconds, grown = row["seconds"], row["grown"]
        for arm in filter(seconds.get, names):
            memory = (grown[arm], grown["ours"])
            yield beside(f"generate, {row['name']}", names[arm], seconds[arm], seconds["ours"], memory)


def serve_rows(found: Any) -> Iterator[Row]:
    for n_clients, arms in found.items():
        if "peer" in arms:
            rates = [served_rates(arms[arm]) for arm in ("peer", "ours")]
            ratios = [ours / theirs for theirs, ours in zip(*rates, strict=True)]
            slow, fast = (f"{statistics.median(each):,.0f} tokens/s" for each in rates)
            memory = (arms["peer"][-1]["held"], arms["ours"][-1]["held"])
            task = f"serve {n_clients} client{'s' * (n_clients != '1')}"
            yield Row(task, "Hugging Face generate", slow, fast, ratios, memory)


def serve_figures(found: Any) -> Iterator[Own]:
    n_clients, arms = list(found.items())[-1]
    rates = [served_rates(arms[arm]) for arm in ("ours", "one by one")]
    ratios = [together / alone for together, alone in zip(*rates, strict=True)]
    what = f"`serve`, {n_clients} clients in one batch beside `--batch 1`: tokens of a CPU second of the server"
    yield Own(what, faster_by(ratios, statistics.median(ratios)))


def served_rates(turns: Any) -> list[float]:
    """Tokens of a CPU second, by turn."""
    return [turn["n_tokens"] / turn["cpu_seconds"] for turn in turns]


LAYERS = {
    "heads": ("attention heads", "torch MultiheadAttention"),
    "block": ("transformer block", "torch TransformerEncoderLayer"),
    "gpt2": ("transformer block", "Hugging Face GPT2Block"),
}


def attention_rows(found: Any) -> Iterator[Row]:
    for row in found["training"]:
        kind, _, size = row["name"].partition(": ")
        task, peer = LAYERS[kind]
        ours, theirs = row["seconds"].values()
        yield beside(f"{task}, forward and back, {size}", peer, theirs, ours, memory=tuple(reversed(row["grown"])))
    longest = found["lengths"][-1]
    (fused, written), (few, many) = longest["seconds"], longest["grown"]
    task = f"attention over {longest['length']:,} tokens, forward and back"
    yield beside(task, "written out", [written], [fused], (many, few))


def overhead_figures(found: Any) -> Iterator[Own]:
    for one in found:
        low, middle, high = (f"{one[name]:.{one['digits']}f}" for name in ("low", "median", "high"))
        yield Own(one["what"], f"{middle} {one['unit']}" + f" [{low}..{high}]" * (low != high))


def scaling_figures(found: Any) -> Iterator[Own]:
    tasks = {
        "threads": "two threads beside one",
        "strong": "two processes beside one, sharing its batch",
        "weak": "two processes beside one, each with a whole batch",
    }
    for name, says in tasks.items():
        ratios = found["arms"][name]["ratios"]
        what = f"`train`, {found['parameters']:,} parameters, {says}: tokens/s"
        yield Own(what, faster_by(ratios, statistics.median(ratios)))
    if "compare" in found:
        yield Own("`compare` with two workers beside one", f"{times(found['compare']['ratio'])}×")


class Part(NamedTuple):
    """A benchmark: its file, the options it is run with, and what is made of what it printed."""

    name: str
    options: tuple[str, ...]
    rows: Callable[[Any], Iterator[Row]] | None = None
    figures: Callable[[Any], Iterator[Own]] | None = None


PARTS = (
    Part("training", ("--json",), training_rows),
    Part("generation", ("--json",), generation_rows),
    Part("serve", ("--json",), serve_rows, serve_figures),
    Part("scalar", ("--json",), scalar_rows),
    Part("counting", ("--json", "--turns", "3"), counting_rows),
    Part("split", ("--json", "--rounds", "7"), split_rows),
    Part("attention", ("--json", "--turns", "9"), attention_rows),
    Part("overhead", ("--json", "--demo"), figures=overhead_figures),
    Part("scaling", ("--json",), figures=scaling_figures),
    Part("growth", ("--json", "--write", str(PICTURE))),
)


def measure(part: Part, is_kept: bool) -> Any:
    """What the benchmark prints, with when it was measured, or what it printed before; None where it fails."""
    path = KEPT / f"{part.name}.json"
    if is_kept and path.exists():
        return json.loads(path.read_text())
    print(f"{part.name} …", end=" ", flush=True, file=sys.stderr)
    began = time.perf_counter()
    words = [sys.executable, str(Path(__file__).parent / f"{part.name}.py"), *part.options]
    run = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if run.returncode:
        print(f"{part.name} ended with {run.returncode} and is left out", file=sys.stderr)
        return None
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    found = {"date": day, "found": json.loads(run.stdout.splitlines()[-1])}
    KEPT.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return found


def machine() -> str:
    """Processor, cores and versions, as they are here."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "polars"))
    return f"{processor or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}"


def peers_table(rows: Sequence[Row]) -> list[str]:
    head = ("task", "peer", "clock", "theirs", "ours", "theirs / ours", "faster", "memory, theirs and ours")
    cells = [(one.task, one.peer, one.clock, one.theirs, one.ours, one.spread, one.faster, one.holds) for one in rows]
    return [f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *cells)]


def page(
    rows: Sequence[Row],
    own: Sequence[Own],
    curves: dict[str, list[growth.Point]],
    dates: set[str],
    failed: Sequence[str] = (),
) -> str:
    behind = listed([f"{row.task}, beside {row.peer}: {row.spread}" for row in rows if row.faster != "ours"])
    larger = [row for row in rows if row.memory and row.memory[1] > row.memory[0]]
    holding = listed([f"{row.task}, beside {row.peer}: {row.holds}" for row in larger])
    missing = f"\nNot measured, because it ended with an error: {', '.join(failed)}.\n" if failed else ""
    alone = ", ".join(f"`{part.name}.py`" for part in PARTS)
    figures = "\n".join(f"| {one.what} | {one.figure} |" for one in own)
    return f"""# How fast it is

Written by `python benchmarks/beside_peers.py --write docs/performance.md`, which `make bench` runs. Measured on
{" and ".join(sorted(dates))}: {machine()}.

All arms of a row ran in the same minutes on the same machine and took turns. A ratio above 1 means that ours is faster;
in brackets stand the lowest and the highest of the turns, and where these are on both sides of 1 the two are called
level. CPU is the processor's time of one thread, of a server that of its process; wall is time by the clock. Memory is
by how much the most that a process of its own held has grown while it worked, over what it held with its libraries
loaded and its inputs made; of a server it is all that it held. "Recipe" means that the peer's way of training (network,
optimizer, rates, batches, steps) is run by our code, so that the recipes are compared and not the two programs. Ratios
last; seconds belong to this machine.

Each part can be run alone, says how it measures and tells more than stands here. In `benchmarks/` they are
{alone}.
{missing}
{chr(10).join(peers_table(rows))}

**Where a peer is as fast or faster:**{behind}

**Where ours holds more memory:**{holding}

## Ours alone

By the clock, unless a row says that it is of the processor.

| what | measured |
|---|---|
{figures}
{size_section(curves) if curves else ""}"""


def listed(lines: Sequence[str]) -> str:
    return "\n\n" + "\n".join(f"- {line}" for line in lines) if lines else " nowhere in this table."


def size_section(curves: dict[str, list[growth.Point]]) -> str:
    return f"""
## What size costs

![Seconds against size, by powers of ten](pictures/growth.svg)

Each size in a process of its own (`benchmarks/growth.py`). Memory is by how much the most that the process ever held
has grown; seconds are CPU time of one thread. A power of 1 is linear, of 2 quadratic.

| size | of what | from, to | time | memory | power |
|---|---|---|---|---|---|
{chr(10).join(growth.table(curves))}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="some of them, separated by commas")
    parser.add_argument("--kept", action="store_true", help="do not measure again what out/bench/ has")
    parser.add_argument("--write", type=Path, help="the page")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else [part.name for part in PARTS]
    rows: list[Row] = []
    own: list[Own] = []
    dates, curves, failed = set(), {}, []
    for part in PARTS:
        if part.name not in names:
            continue
        kept = measure(part, asked.kept)
        if kept is None:
            failed.append(part.name)
            continue
        dates.add(kept["date"])
        if part.rows:
            rows += part.rows(kept["found"])
        if part.figures:
            own += part.figures(kept["found"])
        if part.name == "growth":
            curves = {name: [growth.Point(*point) for point in points] for name, points in kept["found"].items()}
    if asked.write:
        asked.write.write_text(page(rows, own, curves, dates, failed), encoding="utf-8")
    print(machine())
    print("\n".join(peers_table(rows)))
    for one in own:
        print(f"{one.what}: {one.figure}")
    print("\n".join(growth.table(curves)))
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
