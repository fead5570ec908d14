"""What is promised of the engine, of reading files and of runs, proved again from seeds: `make trust`, or --quick.

Each proof runs in a process of its own and prints its figures; a table at the end says which of them held.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Proof(NamedTuple):
    module: str
    says: str
    options: str
    quick_options: str
    has_seed: bool = True


PROOFS = (
    Proof("trust.depth", "100,000 deep: right, under 2 s and 200 MB", "", "", has_seed=False),
    Proof("trust.ulps", "every rule within 4 ulp of mpmath", "--points 10000", "--points 1000"),
    Proof("trust.bytes", "any text gets an answer or our own error", "--count 1000000", "--count 100000"),
    Proof("trust.damaged", "damaged files get one line, or honest data", "--count 5000", "--count 500"),
    Proof("trust.big_text", "a gigabyte of text in 300 MB", "", "--megabytes 50 --limit 150", has_seed=False),
    Proof("trust.loads", "large data in twice their size and a gigabyte", "", "--share 0.01", has_seed=False),
    Proof("trust.faults", "every system call of a save fails or kills: nothing is lost", "", "--share 0.05"),
    Proof(
        "trust.kills", "200 × kill -9: ends byte by byte like a run left alone", "--kills 200", "--kills 20 --forked"
    ),
    Proof(
        "trust.tampered",
        "10,000 damages to run folders: none is believed",
        "--count 10000",
        "--count 500 --commands 10",
    ),
    Proof(
        "trust.crafted", "10,000 crafted run folders: exit 2, never 70", "--count 10000", "--count 100 --processes 2"
    ),
    Proof("trust.soak", "half an hour in one process: memory flat to 5 %", "", "--minutes 3", has_seed=False),
    Proof(
        "pytest",
        "every test at length: resumed at any step, every bug of strangers, every mutant",
        "-q --no-header -p no:cacheprovider --numprocesses=auto --dist=worksteal",
        "-q --no-header -p no:cacheprovider tests/test_resume.py -k mlp",
        has_seed=False,
    ),
    Proof("trust.serving", "10⁵ requests, a tenth of them bad: no 5xx, no leak, none lost", "", "--count 2000"),
    Proof(
        "trust.exports", "every network in every format, checked by the other tool", "", "mlp logistic", has_seed=False
    ),
    Proof(
        "trust.lab_door",
        "100,000 hostile requests and 1,000 half-open connections: no 5xx, nothing hangs",
        "--requests 100000 --half-open 1000",
        "--requests 2000 --half-open 200",
    ),
    Proof("trust.door_matrix", "960,000 requests: the lab lets in what the table says", "", "--count 50000"),
    Proof(
        "trust.lab_slow", "1,000 slow connections to the lab: gone in 15 s, visits under 250 ms", "", "", has_seed=False
    ),
    Proof("trust.lab_soak", "a million requests to the lab: memory, threads and files stay", "", "--requests 60000"),
    Proof("trust.exploits", "published exploits of other labs and servers: none succeeds", "", "", has_seed=False),
    Proof(
        "trust.processes",
        "1, 2 and 4 processes agree to 1e-5; killed workers restart; no worker outlives its launcher",
        "",
        "--kills 3 --worker-kills 1 --steps 40",
        has_seed=False,
    ),
    Proof(
        "trust.ray_cluster",
        "a Ray cluster of two nodes: same results, killed nodes are made up for",
        "",
        "",
        has_seed=False,
    ),
    Proof("trust.expressions", "values and gradients are torch's", "--count 1000000", "--count 20000"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases, the same proofs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    asked = parser.parse_args()
    rows: list[tuple[str, str, float, str]] = []
    for proof in PROOFS:
        options = (proof.quick_options if asked.quick else proof.options).split()
        if proof.has_seed:
            options += ["--seed", str(asked.seed)]
        if proof.module == "trust.expressions":
            options += ["--processes", str(asked.processes)]
        print(f"== {proof.module} {' '.join(options)}".rstrip(), flush=True)
        started = time.monotonic()
        # Tests that `make test` runs in short are run at length here.
        at_length = {**os.environ, "PELLUCID_AT_LENGTH": "1"}
        done = subprocess.run([sys.executable, "-m", proof.module, *options], cwd=ROOT, env=at_length, check=False)
        print(flush=True)
        verdict = "holds" if done.returncode == 0 else "FAILS"
        rows.append((f"{proof.module} {' '.join(options)}", proof.says, time.monotonic() - started, verdict))
    width = max(len(row[0]) for row in rows)
    for what, says, seconds, verdict in rows:
        print(f"{verdict}  {seconds:7.0f} s  {what:<{width}}  {says}")
    return 0 if all(row[3] == "holds" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
