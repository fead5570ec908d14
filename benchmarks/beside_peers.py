"""Every benchmark that has a peer, as one table: what theirs takes, what ours takes, and who is faster.

    python benchmarks/beside_peers.py [--only generation,split] [--kept] [--write docs/performance.md]

It runs the benchmarks beside this file one after another, each with --json, and keeps what they printed in out/bench/,
one file each. With --kept, what is there is not measured again, so that a run that was stopped goes on. About an hour.

A ratio is theirs over ours, so that above 1 ours is faster: the median, and in brackets the lowest and the highest of
the turns' own ratios. Where 1 lies between those two, neither is called faster.
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
    memory: str = ""  # theirs and ours, where it was measured
    ratio: float | None = None  # where it is not the median of the turns'

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
        return f"{times(self.middle)}× [{times(min(self.ratios))}..{times(max(self.ratios))}]"


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


def duration(seconds: float) -> str:
    """In the unit that fits.

    >>> duration(0.00042), duration(0.25), duration(12.3)
    ('0.42 ms', '250 ms', '12.3 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def beside(task: str, peer: str, theirs: Sequence[float], ours: Sequence[float], memory: str = "") -> Row:
    """A row of seconds, turn by turn."""
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    return Row(task, peer, duration(statistics.median(theirs)), duration(statistics.median(ours)), ratios, memory)


def scalar_rows(found: Any) -> Iterator[Row]:
    cpu = {name: [step[1] for step in arm["steps"]] for name, arm in found["arms"].items()}
    peers = ("micrograd", "micrograd, collector off")
    for peer in peers:
        yield beside("scalar engine, a step of the moons demo", peer, cpu[peer], cpu["pellucid, micrograd's nn code"])
    for peer in peers:
        yield beside("the same step, replayed", peer, cpu[peer], cpu["pellucid, replayed"])


def counting_rows(found: Any) -> Iterator[Row]:
    for row in found:
        for verb, peer, ours in (("fit", row["peer_fit"], row["fit"]), ("score", row["peer_score"], row["score"])):
            yield beside(f"{verb} {row['order']}-grams, {row['data']}", "nltk.lm", peer, ours)


def split_rows(found: Any) -> Iterator[Row]:
    for file_format, arms in found["results"].items():
        *peers, ours, _ = arms
        for peer in peers:
            theirs, own = ([run["seconds"] for run in arms[arm]] for arm in (peer, ours))
            peaks = [max(run["peak_mb"] for run in arms[arm]) for arm in (peer, ours)]
            task = f"split {found['rows']:,} rows, {file_format}, by the clock"
            name = peer if "pandas" in peer else "pandas + scikit-learn, strata as numbers"
            yield beside(task, name, theirs, own, memory=f"{peaks[0]:,.0f} and {peaks[1]:,.0f} MB")


def training_rows(found: Any) -> Iterator[Row]:
    """Time to the best loss of the peer's recipe; the ratios are those of the turns' steps, times the steps of each."""
    for name, arms in found.items():
        theirs, ours = arms["theirs"], arms["ours"]
        best = min(theirs, key=lambda point: point["dev"])
        peer = {"names": "makemore's recipe", "shakespeare": "nanoGPT's recipe"}[name]
        task = f"train on {name} to {best['dev']:.4f}"
        equal = next((point for point in ours if point["dev"] <= best["dev"]), None)
        if equal is None:
            yield Row(task, peer, duration(best["seconds"]), "not reached", [0.0])
            continue
        each = [
            [(b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in itertools.pairwise([START, *arm])]
            for arm in (theirs, ours)
        ]
        ratios = [a * best["step"] / (b * equal["step"]) for a, b in zip(*each, strict=True)]
        whole = best["seconds"] / equal["seconds"]
        yield Row(task, peer, duration(best["seconds"]), duration(equal["seconds"]), ratios, ratio=whole)


START = {"step": 0, "seconds": 0.0}


def generation_rows(found: Any) -> Iterator[Row]:
    names = {"uncached": "without a cache", "peer": "Hugging Face generate"}
    for row in found:
        for arm, seconds in row["seconds"].items():
            if arm in names:
                yield beside(f"generate, {row['name']}", names[arm], seconds, row["seconds"]["ours"])


def serve_rows(found: Any) -> Iterator[Row]:
    for n_clients, arms in found.items():
        rates = {arm: [turn["n_tokens"] / turn["cpu_seconds"] for turn in turns] for arm, turns in arms.items()}
        for arm, theirs in rates.items():
            if arm != "ours":
                ratios = [a / b for a, b in zip(rates["ours"], theirs, strict=True)]
                slow, fast = (f"{statistics.median(each):,.0f} tokens/s" for each in (theirs, rates["ours"]))
                yield Row(f"serve {n_clients} client{'s' * (n_clients != '1')}", arm, slow, fast, ratios)


def attention_rows(found: Any) -> Iterator[Row]:
    for row in found["training"]:
        ours, *others = row["seconds"]
        for arm in others:
            yield beside("forward and back", row["name"], row["seconds"][arm], row["seconds"][ours])
    longest = found["lengths"][-1]
    (fused, written), (few, many) = longest["seconds"], longest["grown"]
    yield Row(
        f"attention over {longest['length']:,} tokens",
        "written out",
        duration(written),
        duration(fused),
        [written / fused],
        f"{many / 1e6:,.0f} and {few / 1e6:,.0f} MB",
    )


def overhead_figures(found: Any) -> Iterator[Own]:
    for one in found:
        low, middle, high = one["low"], one["median"], one["high"]
        yield Own(one["what"], f"{middle:.1f} {one['unit']} [{low:.1f}..{high:.1f}]")


def scaling_figures(found: Any) -> Iterator[Own]:
    for name, says in (("threads", "two threads"), ("strong", "two processes")):
        yield Own(
            f"{says} beside one, {found['parameters']:,} parameters",
            f"{found['arms'][name]['times_one']:.2f} × as fast",
        )
    if "compare" in found:
        yield Own("`compare` with two workers beside one", f"{found['compare']['ratio']:.2f} × as fast")


class Part(NamedTuple):
    """A benchmark: its file, the options it is run with, and what is made of what it printed."""

    name: str
    options: tuple[str, ...]
    rows: Callable[[Any], Iterator[Row]] | None = None
    figures: Callable[[Any], Iterator[Own]] | None = None


PARTS = (
    Part("training", ("--json",), training_rows),
    Part("generation", ("--json",), generation_rows),
    Part("serve", ("--json",), serve_rows),
    Part("scalar", ("--json",), scalar_rows),
    Part("counting", ("--json", "--turns", "3"), counting_rows),
    Part("split", ("--json", "--rounds", "3"), split_rows),
    Part("attention", ("--json",), attention_rows),
    Part("overhead", ("--json",), figures=overhead_figures),
    Part("scaling", ("--json",), figures=scaling_figures),
    Part("growth", ("--json", "--write", str(PICTURE))),
)


def measure(part: Part, is_kept: bool) -> Any:
    """What the benchmark prints, with when it was measured; or what it printed before."""
    path = KEPT / f"{part.name}.json"
    if is_kept and path.exists():
        return json.loads(path.read_text())
    print(f"{part.name} …", end=" ", flush=True, file=sys.stderr)
    began = time.perf_counter()
    words = [sys.executable, str(Path(__file__).parent / f"{part.name}.py"), *part.options]
    run = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8", check=True)
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
    head = ["| task | peer | theirs | ours | theirs / ours | faster | memory |", "|---|---|---|---|---|---|---|"]
    return head + [
        f"| {row.task} | {row.peer} | {row.theirs} | {row.ours} | {row.spread} | {row.faster} | {row.memory} |"
        for row in rows
    ]


def page(rows: Sequence[Row], own: Sequence[Own], curves: dict[str, list[growth.Point]], dates: set[str]) -> str:
    slower = [row for row in rows if row.faster != "ours"]
    behind = "; ".join(f"{row.task} beside {row.peer} ({row.spread})" for row in slower) or "nowhere in this table"
    figures = "\n".join(f"| {one.what} | {one.figure} |" for one in own)
    return f"""# How fast it is

Written by `python benchmarks/beside_peers.py --write docs/performance.md`, which `make bench` runs. Measured on
{" and ".join(sorted(dates))}: {machine()}.

All arms of a row ran in the same minutes on the same machine and took turns. A ratio above 1 means that ours is faster;
in brackets stand the lowest and the highest of the turns. The clock is the CPU time of one thread unless the row says
otherwise. "Recipe" means that the peer's way of training (network, optimizer, rates, batches, steps) is run by our
code, so that the recipes are compared and not the two programs. Ratios last; seconds belong to this machine.

{chr(10).join(peers_table(rows))}

**Where a peer is as fast or faster:** {behind}.

## Ours alone

| what | measured |
|---|---|
{figures}
{size_section(curves) if curves else ""}"""


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
    dates, curves = set(), {}
    for part in PARTS:
        if part.name not in names:
            continue
        kept = measure(part, asked.kept)
        dates.add(kept["date"])
        if part.rows:
            rows += part.rows(kept["found"])
        elif part.figures:
            own += part.figures(kept["found"])
        else:
            curves = {name: [growth.Point(*point) for point in points] for name, points in kept["found"].items()}
    if asked.write:
        asked.write.write_text(page(rows, own, curves, dates), encoding="utf-8")
    print(machine())
    print("\n".join(peers_table(rows)))
    for one in own:
        print(f"{one.what}: {one.figure}")
    print("\n".join(growth.table(curves)))


if __name__ == "__main__":
    main()
