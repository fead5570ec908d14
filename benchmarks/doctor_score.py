"""The doctor's score: which bugs of the museum it finds, what it says of healthy models, and how long it takes.

    python benchmarks/doctor_score.py [--only NAME ...] [--write docs/doctor-score.md] [--json]

A bug counts as found when one of the rules that are expected to find it calls it broken or suspicious; for those that
only waste something a note is enough. A false alarm is a healthy model that is called broken; where one is only called
suspicious, that is counted beside it. Times are CPU seconds of one thread. `--only` takes parts of names.
"""

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# One thread, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from pellucid.inspection.doctor import diagnose
from pellucid.records import Diagnosis

ROOT = Path(__file__).parent.parent
GRAVE = ("broken", "suspicious")


class Seen(NamedTuple):
    """One patient of the museum: what was expected, and what the doctor said."""

    room: str
    name: str
    says: str
    expected: tuple[str, ...]  # none of a healthy one
    found: tuple[str, ...]  # those of the expected rules that found it
    said: tuple[tuple[str, str, str], ...]  # severity, rule and where, of all that is broken or suspicious
    seconds: float
    by_rule: dict[str, float]
    unknown: dict[str, str]  # rules that failed, and why

    @property
    def is_healthy(self) -> bool:
        return self.room == "healthy"

    def called(self, severity: str) -> list[str]:
        """The rules that said so."""
        return list(dict.fromkeys(rule for grave, rule, _ in self.said if grave == severity))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there, too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seen = examined(options.only)
    if options.json:
        print(json.dumps([one._asdict() for one in seen]))
        return
    page = shown(seen)
    print(page)
    if options.write:
        options.write.write_text(page + "\n")


def examined(only: list[str]) -> list[Seen]:
    """All patients, or those with one of these words in their names."""
    sys.path.insert(0, str(ROOT))
    museum: Any = importlib.import_module("tests.broken.museum")  # the programs are written as users write: untyped
    seen = []
    for room, exhibits in {**museum.ROOMS, "healthy": museum.HEALTHY}.items():
        for exhibit in exhibits:
            if not only or any(word in exhibit.name for word in only):
                seen.append(looked_at(room, exhibit))
                print(f"{len(seen)} {line(seen[-1])}", file=sys.stderr, flush=True)
    return seen


def looked_at(room: str, exhibit: Any) -> Seen:
    patient = exhibit.patient()
    began = time.process_time()
    diagnosis = diagnose(patient)
    seconds = time.process_time() - began
    is_healthy = room == "healthy"
    return Seen(
        room,
        exhibit.name,
        exhibit.says,
        () if is_healthy else exhibit.expected,
        () if is_healthy else tuple(exhibit.found_by(diagnosis)),
        tuple((one.severity, one.rule, one.where) for one in diagnosis.findings if one.severity in GRAVE),
        seconds,
        {one.rule: one.seconds for one in diagnosis.rules if one.seconds},
        unknown(diagnosis),
    )


def unknown(diagnosis: Diagnosis) -> dict[str, str]:
    return {one.rule: one.passed_over for one in diagnosis.rules if one.passed_over.startswith("not known")}


def line(one: Seen) -> str:
    """What is shown while it runs."""
    if one.is_healthy:
        said = "; ".join(f"{severity} by {rule} at {where}" for severity, rule, where in one.said) or "passed"
    else:
        others = ", ".join(rule for _, rule, _ in one.said if rule not in one.found)
        said = f"found by {', '.join(one.found)}" if one.found else f"MISSED, {', '.join(one.expected)} were expected"
        said += f" (also: {others})" if others else ""
    failed = f" FAILED: {one.unknown}" if one.unknown else ""
    return f"{one.room}: {one.name}: {said}, {one.seconds:.1f} s{failed}"


def shown(seen: list[Seen]) -> str:
    broken = [one for one in seen if not one.is_healthy]
    healthy = [one for one in seen if one.is_healthy]
    return "\n\n".join(
        [
            "# The doctor's score",
            "Printed by `make doctor-score`, which runs the doctor on every program of `tests/broken/museum`: broken\n"
            "ones, each a bug of the kind people reported, and healthy ones, many of them odd. A bug is found when a\n"
            "rule that is expected to find it calls it broken or suspicious; where something is only wasted, a note\n"
            "is enough. The rules were written and mended with these programs at hand, so that this is no measure of\n"
            "bugs that nobody has shown them; the kind `later` was added when the rules stood and mended two.\n"
            "Times of patients are CPU seconds of one thread, those of rules are by the clock.",
            summary(broken, healthy),
            *([by_room(broken), missed(broken)] if broken else []),
            *([alarms(healthy)] if healthy else []),
            by_rule(seen),
            *([every(broken)] if broken else []),
        ]
    )


def summary(broken: list[Seen], healthy: list[Seen]) -> str:
    found = sum(1 for one in broken if one.found)
    times = sorted(one.seconds for one in [*broken, *healthy])
    rows = [
        ("broken programs", f"{len(broken)}", ""),
        ("found", f"{found}, {share(found, len(broken))}", "at least 90 %"),
        ("healthy programs", f"{len(healthy)}", ""),
        ("of them called broken", f"{sum(1 for one in healthy if one.called('broken'))}", "0"),
        ("of them called suspicious", f"{sum(1 for one in healthy if one.called('suspicious'))}", ""),
        ("median seconds per patient", f"{statistics.median(times):.2f}", "below 5"),
        ("longest", f"{times[-1]:.2f}", ""),
    ]
    return table(("", "measured", "wanted"), rows)


def by_room(broken: list[Seen]) -> str:
    rooms: dict[str, list[Seen]] = defaultdict(list)
    for one in broken:
        rooms[one.room].append(one)
    rows = [
        (room, f"{len(ones)}", f"{(found := sum(1 for one in ones if one.found))}", share(found, len(ones)))
        for room, ones in rooms.items()
    ]
    return "## By kind of bug\n\n" + table(("kind", "programs", "found", "share"), rows)


def missed(broken: list[Seen]) -> str:
    rows = [
        (f"`{one.name}`", one.says, ", ".join(one.expected), said(one) or "nothing") for one in broken if not one.found
    ]
    head = ("program", "bug", "expected of", "said instead")
    return "## Not found\n\n" + (table(head, rows) if rows else "None.")


def alarms(healthy: list[Seen]) -> str:
    rows = [(one.name, one.says, said(one)) for one in healthy if one.said]
    return "## Alarms on healthy models\n\n" + (table(("model", "why it is right", "said"), rows) if rows else "None.")


def said(one: Seen) -> str:
    words = [(severity, ", ".join(one.called(severity))) for severity in GRAVE]
    return "; ".join(f"{severity}: {rules}" for severity, rules in words if rules)


def by_rule(seen: list[Seen]) -> str:
    times: dict[str, list[float]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen:
        for rule, seconds in one.by_rule.items():
            times[rule].append(seconds)
        for rule in one.found:
            counts[rule, "found"] += 1
        for severity in GRAVE if one.is_healthy else ():
            for rule in one.called(severity):
                counts[rule, severity] += 1
        for rule in one.unknown:
            counts[rule, "failed"] += 1
    rows = [
        (
            rule,
            *(f"{counts[rule, column]}" for column in ("found", *GRAVE, "failed")),
            f"{statistics.median(taken):.3f}",
            f"{max(taken):.2f}",
        )
        for rule, taken in sorted(times.items())
    ]
    head = ("rule", "bugs found", "healthy called broken", "healthy called suspicious", "failed", "median s", "most s")
    return "## By rule\n\n" + table(head, rows)


def every(broken: list[Seen]) -> str:
    rows = [(f"`{one.name}`", one.says, ", ".join(one.found) or "—") for one in broken]
    return "## All broken programs\n\n" + table(("program", "bug", "found by"), rows)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """In Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "—"


if __name__ == "__main__":
    main()
