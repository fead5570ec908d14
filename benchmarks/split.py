"""A table of 1.7 million rows: read, stratify, check and write, beside pandas with scikit-learn, in one run.

    python benchmarks/split.py [--rows 1700000] [--rounds 5] [--json]

All arms read the same file, stratify it 80/10/10 by the deciles of items_scanned times loyalty_tier (ours by the tail
bins too), compare each column of dev and test with train (Kolmogorov-Smirnov for numbers, total variation for tiers),
and write the three parts: once from Parquet to Parquet, once from CSV to CSV. Every run is a process of its own, so
that its memory is its own: by how much the most that it held has grown. That and the clock start when the libraries are
imported. Arms take turns; the median counts.

The peer is what people write: pd.qcut, train_test_split twice, scipy's ks_2samp. It comes with the strata as text, as
they are usually written, and with the strata as numbers, which scikit-learn handles faster. The first arm of ours does
the same work and the twins and the drift; the second is the whole report, with the tail over 30 + 30 other splits.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from memory import most_held, start_over

FORMATS = ("parquet", "csv")
ARMS = (
    "pandas + scikit-learn",
    "the same, strata as numbers",
    "pellucid, the same work",
    "pellucid, the whole report",
)


def pellucid_arm(source: Path, folder: Path, file_format: str, repeats: int) -> dict[str, Any]:
    # Imported before the clock starts, as pandas and what it imports are.
    import numpy.ma  # noqa: F401
    import polars  # noqa: F401

    from pellucid.api.split import write_parts
    from pellucid.data import TableData, open_data
    from pellucid.data.splits import SplitRequest
    from pellucid.data.splits.split import split_data

    held = start_over()
    start, cpu_start = time.perf_counter(), time.process_time()
    data = open_data(source)
    assert isinstance(data, TableData)
    has_read = time.perf_counter()
    request = SplitRequest("stratified", by="items_scanned", together_with=("loyalty_tier",), repeats=repeats)
    division = split_data(data, request)
    has_divided = time.perf_counter()
    write_parts(data, division, folder, f".{file_format}")
    end, cpu_seconds = time.perf_counter(), time.process_time() - cpu_start
    grown = most_held() - held
    found = {f"{one.column} {one.side}": one.distance for one in division.report.agreements}
    sizes = list(division.report.sizes.values())
    return _result((start, has_read, has_divided, end), cpu_seconds, grown, sizes, found)


def pandas_arm(source: Path, folder: Path, file_format: str, has_numbers: bool) -> dict[str, Any]:
    import pandas as pd
    from scipy.stats import ks_2samp
    from sklearn.model_selection import train_test_split

    held = start_over()
    start, cpu_start = time.perf_counter(), time.process_time()
    frame = pd.read_csv(source) if source.suffix == ".csv" else pd.read_parquet(source)
    has_read = time.perf_counter()
    deciles = pd.qcut(frame["items_scanned"], 10, labels=False, duplicates="drop")
    if has_numbers:
        strata = 10 * deciles + frame["loyalty_tier"].astype("category").cat.codes
    else:
        strata = deciles.astype(str) + frame["loyalty_tier"]
    train, rest = train_test_split(frame, test_size=0.2, stratify=strata, random_state=0)
    dev, test = train_test_split(rest, test_size=0.5, stratify=strata[rest.index], random_state=0)
    found = {}
    for name, part in (("dev", dev), ("test", test)):
        for column in ("seq_no", "items_scanned"):
            found[f"{column} {name}"] = float(ks_2samp(train[column], part[column], method="asymp").statistic)
        shares = [side["loyalty_tier"].value_counts(normalize=True) for side in (train, part)]
        found[f"loyalty_tier {name}"] = float((shares[0] - shares[1]).abs().sum() / 2)
    has_divided = time.perf_counter()
    folder.mkdir()
    for name, part in (("train", train), ("dev", dev), ("test", test)):
        if file_format == "parquet":
            part.to_parquet(folder / f"{name}.parquet", index=False)
        else:
            part.to_csv(folder / f"{name}.csv", index=False)
    end, cpu_seconds = time.perf_counter(), time.process_time() - cpu_start
    grown, sizes = most_held() - held, [len(train), len(dev), len(test)]
    return _result((start, has_read, has_divided, end), cpu_seconds, grown, sizes, found)


def _result(
    times: tuple[float, float, float, float], cpu_seconds: float, grown: int, sizes: list[int], found: dict[str, float]
) -> dict[str, Any]:
    start, has_read, has_divided, end = times
    return {
        "seconds": end - start,
        "read": has_read - start,
        "stratify and check": has_divided - has_read,
        "write": end - has_divided,
        "cpu_seconds": cpu_seconds,
        "grown": grown,
        "sizes": sizes,
        "distances": found,
    }


def run_arm(arm: str, source: Path, folder: Path, file_format: str) -> dict[str, Any]:
    """One arm in a process of its own."""
    words = [sys.executable, __file__, "--arm", arm, "--source", str(source), "--out", str(folder), "--as", file_format]
    run = subprocess.run(words, capture_output=True, encoding="utf-8", check=True)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def measure(rows: int, rounds: int) -> dict[str, Any]:
    """Every arm in both formats, in turns."""
    from pellucid.data.sets.transactions import load

    results: dict[str, dict[str, list[dict[str, Any]]]] = {name: {arm: [] for arm in ARMS} for name in FORMATS}
    with tempfile.TemporaryDirectory() as place:
        frame = load(n=rows).frame
        frame.write_csv(Path(place) / "transactions.csv")
        frame.write_parquet(Path(place) / "transactions.parquet")
        del frame
        for number in range(rounds):
            for file_format in FORMATS:
                for arm in ARMS:
                    source = Path(place) / f"transactions.{file_format}"
                    folder = Path(place) / f"{number}-{file_format}-{ARMS.index(arm)}"
                    results[file_format][arm].append(run_arm(arm, source, folder, file_format))
    return {"rows": rows, "rounds": rounds, "results": results}


def show(measured: dict[str, Any]) -> None:
    print(f"{measured['rows']:,} rows, median of {measured['rounds']} runs in turns [lowest..highest]")
    for file_format, arms in measured["results"].items():
        print(f"\nfrom {file_format} to {file_format}")
        for arm, runs in arms.items():
            wall, cpu = (sorted(run[clock] for run in runs) for clock in ("seconds", "cpu_seconds"))
            steps = ", ".join(
                f"{step} {statistics.median(run[step] for run in runs):.2f}"
                for step in ("read", "stratify and check", "write")
            )
            print(
                f"  {arm:29}{statistics.median(wall):6.2f} s [{wall[0]:.2f}..{wall[-1]:.2f}]  "
                f"CPU {statistics.median(cpu):5.2f} s [{cpu[0]:.2f}..{cpu[-1]:.2f}]  "
                f"memory {max(run['grown'] for run in runs) / 1e6:4.0f} MB   ({steps})"
            )
        for peer in ARMS[:2]:
            ratios = [
                f"{_median(arms[peer], clock) / _median(arms[ARMS[2]], clock):.1f}× by {word}"
                for clock, word in (("seconds", "the clock"), ("cpu_seconds", "CPU time"))
            ]
            print(f"  {ARMS[2]}, beside {peer}: {', '.join(ratios)}")
    peer, ours = (measured["results"]["parquet"][arm][0] for arm in ARMS[1:3])
    print(f"\nsizes: peer {peer['sizes']}, ours {ours['sizes']}")
    for name, distance in ours["distances"].items():
        print(f"  {name:20} from train: peer {peer['distances'][name]:.5f}, ours {distance:.5f}")


def _median(runs: list[dict[str, Any]], clock: str) -> float:
    return float(statistics.median(run[clock] for run in runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_700_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--as", dest="file_format", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.arm in ARMS[:2]:
        print(json.dumps(pandas_arm(words.source, words.out, words.file_format, words.arm == ARMS[1])))
    elif words.arm:
        repeats = 0 if words.arm == ARMS[2] else 30
        print(json.dumps(pellucid_arm(words.source, words.out, words.file_format, repeats)))
    else:
        measured = measure(words.rows, words.rounds)
        if words.as_json:
            print(json.dumps(measured))
        else:
            show(measured)


if __name__ == "__main__":
    main()
