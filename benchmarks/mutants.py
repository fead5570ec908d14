"""Makes mutants of healthy programs, verifies each in plain torch, and writes tests/broken/mutants/verified.json.

    python benchmarks/mutants.py [--programs 22] [--each 4] [--tries 16] [--shards 3 --shard 0]
                                 [--source] [--write FILE]
    python benchmarks/mutants.py --join FILE FILE FILE --write tests/broken/mutants/verified.json
    python benchmarks/mutants.py --patients --write tests/broken/mutants/patients.json

Of each program, in an order that is drawn once, so many edits are tried, of those kinds first of which the fewest are
proven so far. Those that are proven to change nothing are kept as the control group. What is left unclear is left out.
The work can be shared by several processes, each with a part of the programs. With --patients the well patients of the
doctor's rules are edited, each by the kinds of edit that the rule's certificate claims to exclude.

The list that is stored is of 13, 21 and 26 programs of three shards with --each 4 --tries 16, and of 12 and 26 programs
of two shards with --source --each 6 --tries 18.
"""

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

# One thread, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

ROOT = Path(__file__).parent.parent
LONGEST_SECONDS = 3.0  # of the verification of a healthy program: slower ones are left out
MOST_HARMLESS = 3  # of one kind, beside those of the kinds that are meant to be harmless


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=4, help="proven mutants of a kind, in each shard")
    parser.add_argument("--tries", type=int, default=16, help="edits of a program that are tried")
    parser.add_argument("--programs", type=int, default=22, help="of each shard that are edited")
    parser.add_argument("--shards", type=int, default=1, help="take only each nth program, to share the work")
    parser.add_argument("--shard", type=int, default=0, help="the first of these programs")
    parser.add_argument("--join", type=Path, nargs="*", default=[], metavar="FILE", help="join what shards wrote")
    parser.add_argument("--source", action="store_true", help="make edits of the source alone")
    parser.add_argument("--patients", action="store_true", help="edit the well patients of the doctor's rules")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT))
    if options.join:
        rows = join_rows(options.join)
    elif options.patients:
        rows = verify_patients(Verifier(), options.write)
    else:
        rows = verify_programs(Verifier(), options)
    write_rows(rows, options.write)
    harmful = [row for row in rows if not row["is_harmless"]]
    kinds = {row["kind"] for row in harmful}
    print(f"{len(harmful)} mutants of {len(kinds)} kinds, {len(rows) - len(harmful)} harmless")


def verify_programs(verifier: "Verifier", options: argparse.Namespace) -> list[dict[str, Any]]:
    programs = sorted(one for one in verifier.mutants.known_programs() if not one.startswith("well patient of "))
    random.Random(0).shuffle(programs)
    for program in programs[options.shard :: options.shards][: options.programs]:
        verifier.verify_program(program, options.each, options.tries, options.source)
        write_rows(verifier.rows, options.write)
    return verifier.rows


def verify_patients(verifier: "Verifier", file: Path | None) -> list[dict[str, Any]]:
    certificates: Any = importlib.import_module("tests.broken.certificates")
    for rule, excluded in certificates.EXCLUDES.items():
        for kind in certificates.kinds_to_try(excluded):
            verifier.verify_places(verifier.mutants.name_of_patient(rule), kind, most=2)
        write_rows(verifier.rows, file)
    return [row for row in verifier.rows if not row["is_harmless"]]


def join_rows(files: list[Path]) -> list[dict[str, Any]]:
    """What shards wrote, each edit once."""
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    return list({json.dumps([row[key] for key in ("program", "kind", "place", "site")]): row for row in rows}.values())


def write_rows(rows: list[dict[str, Any]], file: Path | None) -> None:
    if file is not None:
        file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


class Verifier:
    """Keeps what was measured of healthy programs, and which edits of them were proven."""

    def __init__(self) -> None:
        self.mutants: Any = importlib.import_module("tests.broken.mutants")
        self.proof: Any = importlib.import_module("tests.broken.mutants.proof")
        self.yardsticks: dict[str, Any] = {}
        self.counts: Counter[tuple[str, bool]] = Counter()
        self.rows: list[dict[str, Any]] = []

    def verify_program(self, program: str, each: int, tries: int, only_source: bool) -> None:
        """Some edits of a program, of the kinds that are still rare."""
        began = time.process_time()
        draw = random.Random(program)
        kinds = list(self.mutants.SOURCE_EDITS if only_source else [*self.mutants.KINDS, *self.mutants.HARMLESS_EDITS])
        draw.shuffle(kinds)
        kinds.sort(key=self.rank)
        verdicts: Counter[str] = Counter()
        for kind in kinds:
            if sum(verdicts.values()) >= tries or self.yardstick(program) is None:
                break
            if self.counts[kind, kind in self.mutants.HARMLESS_EDITS] < each:
                verdicts.update(self.verify_places(program, kind, most=2 if kind in self.mutants.SOURCE_EDITS else 1))
        print(f"{program}: {dict(verdicts)}, {time.process_time() - began:.1f} s", file=sys.stderr, flush=True)

    def rank(self, kind: str) -> float:
        """Lowest for what is tried first: rare kinds, and edits of the source, which often change nothing."""
        count = self.counts[kind, kind in self.mutants.HARMLESS_EDITS]
        return count / 2 if kind in self.mutants.SOURCE_EDITS else count

    def verify_places(self, program: str, kind: str, most: int) -> list[str]:
        """The verdicts on some edits of one kind; what is proven is kept."""
        verdicts: list[str] = []
        try:
            places = self.mutants.list_mutants(self.mutants.known_programs()[program](0), program, kind)
        except Exception as error:
            print(f"{program}: {kind}: {type(error).__name__}: {error}", file=sys.stderr)
            return []
        random.Random(program + kind).shuffle(places)
        yardstick = self.yardstick(program) if places else None
        for mutant in places[:most] if yardstick else ():
            harm = judge(yardstick, mutant)
            verdicts.append(harm.verdict if harm else "raises")
            if harm is not None:
                self.keep(mutant, harm)
        return verdicts

    def keep(self, mutant: Any, harm: Any) -> None:
        is_control = mutant.kind in self.mutants.HARMLESS_EDITS
        is_harmless = harm.verdict == "nothing"
        if harm.verdict == "unclear" or (is_control and not is_harmless):
            return
        if is_harmless and not is_control and self.counts[mutant.kind, True] >= MOST_HARMLESS:
            return
        self.counts[mutant.kind, is_harmless] += 1
        numbers = {"before": round_to_four(harm.before), "after": round_to_four(harm.after)}
        self.rows.append(asdict(replace(mutant, is_harmless=is_harmless, proof=harm.how, **numbers)))

    def yardstick(self, program: str) -> Any:
        """What the healthy program learns; None where too little, too slowly or by no loss that can be asked."""
        if program not in self.yardsticks:
            began = time.process_time()
            try:
                found = self.proof.Yardstick(self.mutants.known_programs()[program])
                is_usable = found.learns and time.process_time() - began < LONGEST_SECONDS
            except Exception as error:
                print(f"{program}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
                is_usable = False
            self.yardsticks[program] = found if is_usable else None
        return self.yardsticks[program]


def judge(yardstick: Any, mutant: Any) -> Any:
    """None where the mutant stops with an error: that is found by everyone."""
    try:
        return yardstick.judge(mutant.build)
    except Exception:
        return None


def round_to_four(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 1e30 else 1e30


if __name__ == "__main__":
    main()
