"""One process that trains, samples, scores, predicts, splits and derives for half an hour: `python -m trust.soak`.

After each round the memory of the process is read. What is loaded and cached at first takes its part in the first third
of the time; from then on memory must be flat to 5 %: the median over the last third at most that far above the median
over the second, and so must be the highest. Files that a round left open, threads and temporary files are counted too.
"""

import argparse
import contextlib
import io
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import pellucid

FLAT = 1.05
NAMES = ("list", "text", "table", "pairs")
QUICK = {"size": "tiny", "steps": 12, "threads": 1}


def resident_megabytes() -> float:
    """The memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def play_round(number: int, folder: Path) -> None:
    """A training of one kind and everything that is asked of it, and what needs no run; nothing is kept."""
    words = [f"{a}{b}{c}" for a in ("ba", "ke", "lo", "mi") for b in "dnrst" for c in ("a", "en", "o", "i")]
    kind = NAMES[number % len(NAMES)]
    path = folder / f"{kind}.txt"
    if kind == "list":
        path.write_text("\n".join(words) + "\n")
    elif kind == "text":
        path.write_text((" ".join(words) + ". ") * 12)
    elif kind == "pairs":
        path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    source = "penguins" if kind == "table" else str(path)
    options = {"target": "species"} if kind == "table" else {"kind": kind}
    run = pellucid.train(source, name=f"round-{number}", seed=number, **QUICK, **options)
    _ = run.report, repr(run.table())
    if kind in ("list", "text"):
        _ = repr(run.sample(3)), repr(run.score("badena"))
    elif kind == "pairs":
        _ = repr(run.predict(text="baden"))
    _ = repr(pellucid.derive("tanh(x*w + b)^2 / y", x=1.0, w=2.0, b=0.5, y=3.0))
    _ = repr(pellucid.tokens("badena loren", vocabulary="abdelnor "))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    asked = parser.parse_args()
    began, rounds = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        number = 0
        while (seconds := time.monotonic() - began) < 60 * asked.minutes:
            with (
                tempfile.TemporaryDirectory(dir=folder) as own,
                contextlib.chdir(own),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                play_round(number, Path(own))
            n_files, n_threads = len(os.listdir("/proc/self/fd")), threading.active_count()
            rounds.append((seconds / 60, resident_megabytes(), n_files, n_threads))
            number += 1
        left = os.listdir(folder)
    third = len(rounds) // 3
    for minute, megabytes, n_files, n_threads in rounds[:: max(1, len(rounds) // 10)]:
        print(f"after {minute:5.1f} min: {megabytes:7.1f} MB, {n_files} open files, {n_threads} threads")
    before, after = rounds[third : 2 * third], rounds[2 * third :]
    if not third:
        print("too few rounds to tell")
        return 1
    median = statistics.median([one[1] for one in after]) / statistics.median([one[1] for one in before])
    highest = max(one[1] for one in after) / max(one[1] for one in before)
    others = max(one[2] for one in after) > max(one[2] for one in before) or after[-1][3] > before[0][3] or bool(left)
    is_flat = median <= FLAT and highest <= FLAT and not others
    print(f"{len(rounds)} rounds in {rounds[-1][0]:.1f} min: median {median - 1:+.1%}, highest {highest - 1:+.1%}")
    print(f"flat to 5 %: {is_flat}; files left behind: {len(left)}")
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
