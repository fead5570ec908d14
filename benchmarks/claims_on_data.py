"""`pellucid claims run ID --data FILE` for every claim that takes data, on data that others made.

    python benchmarks/claims_on_data.py [--folder FOLDER] [--only ID,ID] [--seeds 2] [--quick]

FOLDER holds unpacked packages, as `benchmarks/outside/fetch.sh FOLDER` leaves them. Each claim is asked of the data of
its own kind (see ASKED), by its command line, in a process of its own; what came is one line of
FOLDER/claims.jsonl, so that this can be stopped and called again. A claim that breaks, or that is
refused data of its own kind, is named at the end, and the exit code is 1. --quick: one seed, and no search along a
knob, which stays at its usual value.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outside import ITEMS, Packages
from pellucid.claims.claim import Claim, all_claims

ROOT = Path(__file__).resolve().parent.parent
# What claims are asked of, by the set that they use by themselves: the first that is there is taken.
ASKED = {
    "names": ("pokemon", "dinosaurs", "superheroes"),
    "copy-back": ("pokemon", "dinosaurs"),
    "manual": ("jargon", "german_quotes", "us_constitution"),
    "digits": ("fashion_mnist", "mnist"),
    "transactions": ("diamonds", "restaurants", "computers"),
    "incomes": ("canadian_wages", "diamonds", "computers"),
}
# A claim that wants more of a table than its kind: an order of time.
OTHER = {"time-split-loses-balance": ("seattle_weather", "restaurants")}
KNOBS: dict[tuple[str, str], tuple[str, ...]] = {}


class Answer(NamedTuple):
    """What a command said of a claim."""

    id: str
    data: str
    verdict: str  # "" where it was refused or broke
    number: str
    seconds: float  # of processors
    error: str


def usual_data(claim: Claim) -> str:
    """The set that a claim is asked of where no other is named, without its settings."""
    return str(claim.knobs().data).split(":")[0]


def ask(claim: Claim, item: str, path: Path, seeds: int, is_quick: bool) -> Answer:
    words = ["claims", "run", claim.id, "--data", str(path), "--json", *KNOBS.get((claim.id, item), ())]
    if claim.seeds > 1:
        words += ["--seeds", "1" if is_quick else str(seeds)]
    if is_quick and claim.search:
        words += ["--knob", f"{claim.search.knob}={getattr(claim.knobs(), claim.search.knob)}"]
    before = os.times()
    done = subprocess.run([sys.executable, "-m", "pellucid", *words], capture_output=True, encoding="utf-8", cwd=ROOT)
    after = os.times()
    seconds = after.children_user - before.children_user + after.children_system - before.children_system
    if done.returncode:
        return Answer(claim.id, item, "", "", seconds, done.stderr.strip().splitlines()[-1])
    result = json.loads(done.stdout)[0]
    number = next(one for one in result["numbers"] if one["name"] == result["deciding"])
    spread = f"{number['mean']:.6g} ({number['low']:.6g} to {number['high']:.6g})"
    return Answer(claim.id, item, result["verdict"], f"{result['deciding']}: {spread}", seconds, "")


def ask_all(folder: Path, only: list[str], seeds: int, is_quick: bool) -> Iterator[Answer]:
    packages = Packages(folder)
    journal = folder / "claims.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    known = {one.id: one for one in (Answer(**json.loads(line)) for line in lines) if not one.error}
    for name, (_, claim) in all_claims().items():
        if not claim.takes_data or (only and name not in only):
            continue
        if name in known and not only:
            yield known[name]
            continue
        asked = OTHER.get(name, ASKED[usual_data(claim)])
        item = next(ITEMS[one] for one in asked if not ITEMS[one].missing(packages))
        if not item.path(folder).exists():
            item.write(packages)
        answer = ask(claim, item.name, item.path(folder), seeds, is_quick)
        with journal.open("a") as file:
            file.write(json.dumps(answer._asdict(), ensure_ascii=False) + "\n")
        print(*answer, sep="  ", flush=True)
        yield answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/own-data"))
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    began = time.monotonic()
    answers = list(ask_all(asked.folder, asked.only.split(",") if asked.only else [], asked.seeds, asked.quick))
    refused = [one for one in answers if one.error]
    seconds = sum([one.seconds for one in answers])
    print(f"{len(answers)} claims, {len(refused)} refused or broken; {seconds:.0f} s of processors")
    print(f"this call took {time.monotonic() - began:.0f} s")
    for one in refused:
        print(f"  {one.id} of {one.data}: {one.error}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
