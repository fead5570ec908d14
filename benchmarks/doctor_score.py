"""The doctor's score: which bugs it finds, what it says of healthy models, and how long it takes.

    python benchmarks/doctor_score.py [--parts museum first second third mutants certificates]
                                      [--only NAME ...]
                                      [--journal out/doctor-score.jsonl] [--write docs/doctor-score.md] [--json]

It is told apart by who made the bugs:

- museum: programs that the rules were written and mended with. Found is a bug when one of the rules that are expected
  to find it calls it broken or suspicious; for those that only waste something a note is enough.
- first, second, third: programs of strangers' bugs, each beside its repaired twin. Found is a bug when a rule calls it
  broken or suspicious, and the same rule does not so call the twin.
- mutants: small edits of healthy programs, each verified in plain torch to do harm. Found as those of strangers, beside
  the program before the edit. Edits that change nothing may bring no finding that the program had not before.
- certificates: what each rule calls sound, on mutants of its well patient and of programs that it claims to exclude.

A false alarm is a healthy program (a twin, an edit that changes nothing) that is called broken; where one is only
called suspicious, that is counted beside it. Times are CPU seconds of one thread. `--only` takes parts of names; what
the journal holds is not run again, unless the rules or the programs have changed since.
"""

import argparse
import ast
import hashlib
import importlib
import itertools
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

# One thread, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.records import Diagnosis

ROOT = Path(__file__).parent.parent
GRAVE = ("broken", "suspicious")
PARTS = {
    "museum": "exhibits that the rules were written with",
    "first": "programs that strangers wrote, seen while the rules were mended",
    "second": "programs that strangers wrote, run once before rules were mended with them",
    "third": "bugs that people reported, written anew as programs",
    "mutants": "small edits of healthy programs",
}
RUNS = (*PARTS, "certificates")  # the last are mutants of the rules' own well patients, and no part of the score
INTRODUCTION = """\
Printed by `make doctor-score`. The score is told apart by who made the bugs, and the lowest of these stands first.
*museum*: programs of `tests/broken/museum`, each a bug of the kind people reported; the rules were written and mended
with these at hand, so that it is no measure of bugs that nobody has shown them. *first* and *second*: programs that
strangers wrote (`tests/broken/strangers`), each shown to be broken in plain torch beside its repaired twin; rules were
mended with the first set at hand, and with the second once it had been run. *third*: bugs that people reported of their
own code or of others', each named in its file and written anew as a program; all were committed before the doctor was
shown one of them, and no rule was mended with what it said of them. They were known to whoever wrote the newest rules:
docs/LOG.md has what the rules from before find of them.
*mutants*: small edits of healthy programs and of published architectures, made by `tests/broken/mutants`, each verified
in plain torch to do harm.

In the museum a bug is found when a rule that is expected to find it calls it broken or suspicious; where something is
only wasted, a note is enough. Elsewhere it is found when any rule so calls it and the same rule does not so call the
twin, or the program before the edit. Healthy are the museum's healthy programs, many of them odd; the twins; and edits
that change nothing, which may bring no finding that was not there before. Times of patients are CPU seconds of one
thread, those of rules are by the clock."""
Said = tuple[tuple[str, str, str], ...]  # severity, rule and where, of all that is broken or suspicious


class Seen(NamedTuple):
    """One patient: what was expected, and what the doctor said."""

    part: str  # one of PARTS
    kind: str  # of bug, or of edit
    name: str
    says: str
    is_healthy: bool
    expected: tuple[str, ...]  # none where any rule may find it
    found: tuple[str, ...]  # the rules that found it
    said: Said
    seconds: float
    by_rule: dict[str, float]
    unknown: dict[str, str]  # rules that failed, and why
    crash: str  # why there is no diagnosis at all; "" where there is one
    excludes: tuple[str, ...] = ()  # the rules whose certificates claim that there is no such bug
    survived: tuple[str, ...] = ()  # those of them that said so of this mutant

    def called(self, severity: str) -> list[str]:
        """The rules that said so."""
        return list(dict.fromkeys(rule for grave, rule, _ in self.said if grave == severity))


Jobs = Iterator[tuple[str, Callable[[], list[Seen]]]]  # the name of each, and what examines it


class Look(NamedTuple):
    """What the doctor said of a patient, and what it cost."""

    said: Said = ()
    seconds: float = 0.0
    by_rule: Mapping[str, float] = MappingProxyType({})
    unknown: Mapping[str, str] = MappingProxyType({})
    crash: str = ""
    diagnosis: Diagnosis | None = None

    @property
    def rules(self) -> set[str]:
        """Those that call it broken or suspicious."""
        return {rule for _, rule, _ in self.said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=RUNS, default=list(RUNS), metavar="PART")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="keep each result there, and run none of them again"
    )
    parser.add_argument("--shards", type=int, default=1, help="take only each nth patient, to share the work")
    parser.add_argument("--shard", type=int, default=0, help="the first of these patients")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there, too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seen = list(examine_parts(options.parts, options.only, options.journal, (options.shard, options.shards)))
    if options.json:
        print(json.dumps([one._asdict() for one in seen]))
        return
    page = make_page(seen)
    print(page)
    if options.write:
        options.write.write_text(page + "\n", encoding="utf-8")


def examine_parts(
    parts: Sequence[str], only: Sequence[str], journal: Path | None, shard: tuple[int, int] = (0, 1)
) -> Iterator[Seen]:
    """All patients of these parts, or those with one of these words in their names. shard: the first, and each nth."""
    sys.path.insert(0, str(ROOT))
    kept = read_journal(journal)
    wanted: dict[str, Callable[[], Jobs]] = {
        "certificates": certificate_jobs,
        "museum": museum_jobs,
        "first": lambda: stranger_jobs("first"),
        "second": lambda: stranger_jobs("second"),
        "third": lambda: stranger_jobs("third"),
        "mutants": mutant_jobs,
    }
    for part in parts:
        for name, examine in itertools.islice(wanted[part](), shard[0], None, shard[1]):
            if only and not any(word in name for word in only):
                continue
            rows = kept.get((part, name))
            if rows is None:
                rows = examine()
                if journal is not None:
                    journal.parent.mkdir(parents=True, exist_ok=True)
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([state_of_rules(), part, name, [row._asdict() for row in rows]]) + "\n")
                for row in rows:
                    print(line(row), file=sys.stderr, flush=True)
            yield from rows


def read_journal(journal: Path | None) -> dict[tuple[str, str], list[Seen]]:
    """What was examined before by these very rules, by part and name."""
    if journal is None or not journal.exists():
        return {}
    kept = {}
    for text in journal.read_text(encoding="utf-8").splitlines():
        state, part, name, rows = json.loads(text)
        if state != state_of_rules():
            continue
        kept[part, name] = [
            Seen(**{**row, "said": tuple(map(tuple, row["said"])), "found": tuple(row["found"])}) for row in rows
        ]
    return kept


@cache
def state_of_rules() -> str:
    """Another one after any change of what the doctor does or is shown; comments and layout do not count."""
    folders = [ROOT / "src/pellucid/inspection" / name for name in ("instrument", "rules")]
    folders += [ROOT / "tests/broken" / name for name in ("museum", "mutants", "strangers")]
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.suffix in (".py", ".json"))
    files += [ROOT / "src/pellucid/inspection" / f"{name}.py" for name in ("doctor", "judgements", "losses")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    code = [
        ast.unparse(ast.parse(text)) if file.suffix == ".py" else text for file, text in zip(files, texts, strict=True)
    ]
    return hashlib.sha256("".join(code).encode()).hexdigest()[:16]


def museum_jobs() -> Jobs:
    museum: Any = importlib.import_module("tests.broken.museum")  # the programs are written as users write: untyped

    def examine(room: str, exhibit: Any) -> list[Seen]:
        look = look_at(exhibit.patient)
        is_healthy = room == "healthy"
        expected = () if is_healthy else exhibit.expected
        found = () if is_healthy or look.diagnosis is None else tuple(exhibit.found_by(look.diagnosis))
        return [make_row("museum", room, exhibit.name, exhibit.says, is_healthy, expected, found, look)]

    for room, exhibits in {**museum.ROOMS, "healthy": museum.HEALTHY}.items():
        for exhibit in exhibits:
            yield exhibit.name, partial(examine, room, exhibit)


def stranger_jobs(which: str) -> Jobs:
    twins: Any = importlib.import_module("tests.broken.twins")

    def examine(name: str) -> list[Seen]:
        stranger = twins.load_stranger(which, name)
        broken, repaired = look_at(stranger.broken), look_at(stranger.repaired)
        found = rules_beyond(broken, repaired)
        return [
            make_row(which, stranger.kind, name, stranger.says, False, (), found, broken),
            make_row(which, stranger.kind, f"{name} repaired", "the same without the bug", True, (), (), repaired),
        ]

    for name in twins.names_of_strangers(which):
        yield name, partial(examine, name)


def mutant_jobs() -> Jobs:
    mutants: Any = importlib.import_module("tests.broken.mutants")
    before: dict[str, Look] = {}

    def examine(mutant: Any) -> list[Seen]:
        if mutant.program not in before:
            before[mutant.program] = look_at(mutant.original)
        look = look_at(mutant.patient)
        beyond = rules_beyond(look, before[mutant.program])
        if mutant.is_harmless:  # what its program was called before the edit is no alarm of the edit
            look = look._replace(said=tuple(one for one in look.said if one[1] in beyond))
        found = () if mutant.is_harmless else beyond
        row = make_row("mutants", mutant.kind, mutant.name, mutant.proof, mutant.is_harmless, (), found, look)
        return [with_certificates(row, mutant, look)]

    for mutant in mutants.load_mutants():
        yield mutant.name, partial(examine, mutant)


def certificate_jobs() -> Jobs:
    mutants: Any = importlib.import_module("tests.broken.mutants")

    def examine(mutant: Any) -> list[Seen]:
        look = look_at(mutant.patient)
        row = make_row("certificates", mutant.kind, mutant.name, mutant.proof, False, (), tuple(look.rules), look)
        return [with_certificates(row, mutant, look)]

    for mutant in mutants.patient_mutants():
        yield mutant.name, partial(examine, mutant)


def with_certificates(row: Seen, mutant: Any, look: Look) -> Seen:
    """Which rules claim to exclude this mutant, and which of them call it sound all the same."""
    certificates: Any = importlib.import_module("tests.broken.certificates")
    excludes = [rule for rule in certificates.EXCLUDES if certificates.is_excluded(rule, mutant)]
    survived = [
        rule
        for rule in excludes
        if look.diagnosis and certificates.surviving_certificates(rule, mutant, look.diagnosis)
    ]
    return row._replace(excludes=tuple(excludes), survived=tuple(survived))


def look_at(build: Callable[[], Specimen]) -> Look:
    """What the doctor says of a patient; a crash is told and stops nothing."""
    patient = build()
    began = time.process_time()
    try:
        diagnosis = diagnose(patient)
    except Exception as error:
        return Look(seconds=time.process_time() - began, crash=f"{type(error).__name__}: {error}")
    return Look(
        tuple((one.severity, one.rule, one.where) for one in diagnosis.findings if one.severity in GRAVE),
        time.process_time() - began,
        {one.rule: one.seconds for one in diagnosis.rules if one.seconds},
        {one.rule: one.passed_over for one in diagnosis.rules if one.passed_over.startswith("not known")},
        diagnosis=diagnosis,
    )


def rules_beyond(look: Look, other: Look) -> tuple[str, ...]:
    """The rules that call this one broken or suspicious, and not the other."""
    return tuple(dict.fromkeys(rule for _, rule, _ in look.said if rule not in other.rules))


def make_row(
    part: str,
    kind: str,
    name: str,
    says: str,
    is_healthy: bool,
    expected: tuple[str, ...],
    found: tuple[str, ...],
    look: Look,
) -> Seen:
    said, seconds, by_rule, unknown, crash, _ = look
    return Seen(part, kind, name, says, is_healthy, expected, found, said, seconds, dict(by_rule), dict(unknown), crash)


def line(one: Seen) -> str:
    """What is shown while it runs."""
    if one.is_healthy:
        said = "; ".join(f"{severity} by {rule} at {where}" for severity, rule, where in one.said) or "passed"
    else:
        others = ", ".join(rule for _, rule, _ in one.said if rule not in one.found)
        said = f"found by {', '.join(one.found)}" if one.found else "MISSED"
        said += f", {', '.join(one.expected)} were expected" if one.expected and not one.found else ""
        said += f" (also: {others})" if others else ""
    failed = f" FAILED: {one.unknown}" if one.unknown else ""
    crash = f" CRASHED: {one.crash}" if one.crash else ""
    return f"{one.part}: {one.kind}: {one.name}: {said}, {one.seconds:.1f} s{failed}{crash}"


def make_page(seen: list[Seen]) -> str:
    """In Markdown; only of the parts that were run."""
    scored = [one for one in seen if one.part in PARTS]
    broken = [one for one in scored if not one.is_healthy]
    parts = [part for part in PARTS if any(one.part == part for one in seen)]
    return "\n\n".join(
        [
            "# The doctor's score",
            *([lead_sentence(scored)] if broken else []),
            INTRODUCTION,
            *([shared_bugs_words(broken)] if "second" in parts else []),
            summary(scored, parts),
            *[by_kind(part, [one for one in broken if one.part == part]) for part in parts],
            *[by_alarms(part, [one for one in seen if one.is_healthy and one.part == part]) for part in parts],
            *[by_missed(part, [one for one in broken if one.part == part]) for part in parts],
            by_certificate(seen),
            by_rule(scored),
            *[by_program(part, [one for one in broken if one.part == part]) for part in parts],
        ]
    )


def shared_bugs_words(broken: list[Seen]) -> str:
    """How much of the second set is new in its bugs, too, and what is found of that."""
    shared: Any = importlib.import_module("tests.broken.twins").SHARED_BUGS
    second = [one for one in broken if one.part == "second"]
    known, new = ([one for one in second if (one.name in shared) == is_known] for is_known in (True, False))
    found = [sum(bool(one.found) for one in some) for some in (known, new)]
    return (
        f"The two sets are less apart than their names say: {len(known)} programs of *second* have a bug that one of "
        f"*first* has too, and {found[0]} of them are found. Of the other {len(new)}, whose bugs are new, it finds "
        f"**{found[1]}, {share(found[1], len(new))}**."
    )


def lead_sentence(seen: list[Seen]) -> str:
    """The lowest of the scores, in the words that the README has too."""
    counts = {}
    for part in PARTS:
        broken = [one for one in seen if one.part == part and not one.is_healthy]
        if broken:
            counts[part] = (sum(bool(one.found) for one in broken), len(broken))
    part = min(counts, key=lambda name: counts[name][0] / counts[name][1])
    found, n_broken = counts[part]
    others = [f"{share(*counts[name])} of {counts[name][1]} in {name}" for name in counts if name != part]
    healthy = [one for one in seen if one.is_healthy]
    called = sum(bool(one.called("broken")) for one in healthy)
    said = f"Of {n_broken} {WORDS[part]} it finds {found}, {share(found, n_broken)}"
    said += f" (elsewhere: {', '.join(others)})" if others else ""
    return f"{said}, and calls {called or 'none'} of {len(healthy)} healthy ones broken."


WORDS = {
    "museum": "broken programs of its museum",
    "first": "broken programs that strangers wrote",
    "second": "broken programs that strangers wrote and that were run once before rules were mended with them",
    "third": "bugs that people reported, written anew as programs that no rule was mended with,",
    "mutants": "mutants of healthy programs",
}


def summary(seen: list[Seen], parts: Sequence[str]) -> str:
    columns = []
    for part in parts:
        rows = [one for one in seen if one.part == part]
        broken, healthy = [one for one in rows if not one.is_healthy], [one for one in rows if one.is_healthy]
        found, times = sum(bool(one.found) for one in broken), sorted(one.seconds for one in rows)
        columns.append(
            (
                *(f"{len(broken)}", f"{found}", share(found, len(broken)), f"{len(healthy)}"),
                *(f"{sum(bool(one.called(severity)) for one in healthy)}" for severity in GRAVE),
                *(f"{statistics.median(times):.2f}", f"{times[-1]:.2f}", f"{sum(bool(one.crash) for one in rows)}"),
            )
        )
    names = [
        *("broken programs", "found", "share", "healthy programs", "of them called broken"),
        *("of them called suspicious", "median seconds per patient", "longest", "crashes"),
    ]
    wanted = ("", "", "at least 85 %", "", "0", "at most 5 %", "below 5", "", "0")
    rows_of_table = [(name, *cells, want) for name, *cells, want in zip(names, *columns, wanted, strict=True)]
    return table(("", *parts, "wanted"), rows_of_table)


def by_kind(part: str, broken: list[Seen]) -> str:
    kinds: dict[str, list[Seen]] = defaultdict(list)
    for one in broken:
        kinds[one.kind].append(one)
    rows = [
        (kind, f"{len(ones)}", f"{(found := sum(bool(one.found) for one in ones))}", share(found, len(ones)))
        for kind, ones in kinds.items()
    ]
    head = ("kind of edit" if part == "mutants" else "kind of bug", "programs", "found", "share")
    return f"## By kind: {part}\n\nOf {PARTS[part]}.\n\n" + table(head, rows)


def by_missed(part: str, broken: list[Seen]) -> str:
    rows = [
        (f"`{one.name}`", one.says, ", ".join(one.called(GRAVE[0]) + one.called(GRAVE[1])) or "nothing")
        for one in broken
        if not one.found
    ]
    return f"## Not found: {part}\n\n" + (table(("program", "bug", "said instead"), rows) if rows else "None.")


def by_alarms(part: str, healthy: list[Seen]) -> str:
    rows = [(one.name, one.says, join_said(one)) for one in healthy if one.said]
    head = ("model", "why it is right", "said")
    return f"## Alarms on healthy models: {part}\n\n" + (table(head, rows) if rows else "None.")


def by_certificate(seen: list[Seen]) -> str:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in seen:
        for rule in one.excludes:
            counts[rule][0] += 1
            counts[rule][1] += rule in one.survived
    rows = [(rule, f"{tried}", f"{survived}") for rule, (tried, survived) in sorted(counts.items())]
    survivors = [(rule, f"`{one.name}`", one.says) for one in seen for rule in one.survived]
    text = (
        "## Certificates\n\nHow often a rule called sound, and said nothing else of, a mutant that it claims to\n"
        "exclude (`tests/broken/certificates.py`).\n\n"
    )
    text += table(("rule", "mutants that it excludes", "certificates that survived"), rows)
    return text + ("\n\n" + table(("rule", "mutant", "proven harm"), survivors) if survivors else "")


def join_said(one: Seen) -> str:
    words = [(severity, ", ".join(one.called(severity))) for severity in GRAVE]
    return "; ".join(f"{severity}: {rules}" for severity, rules in words if rules)


def by_rule(seen: list[Seen]) -> str:
    times: dict[str, list[float]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen:
        for rule, seconds in one.by_rule.items():
            times[rule].append(seconds)
        for rule in one.found:
            counts[rule, "museum" if one.part == "museum" else "elsewhere"] += 1
        for severity in GRAVE if one.is_healthy else ():
            for rule in one.called(severity):
                counts[rule, severity] += 1
        for rule in one.unknown:
            counts[rule, "failed"] += 1
    columns = ("museum", "elsewhere", *GRAVE, "failed")
    rows = [
        (
            rule,
            *(f"{counts[rule, column]}" for column in columns),
            f"{statistics.median(taken):.3f}",
            f"{max(taken):.2f}",
        )
        for rule, taken in sorted(times.items())
    ]
    head = ("rule", "found in the museum", "found elsewhere", "healthy called broken", "healthy called suspicious")
    return "## By rule\n\n" + table((*head, "failed", "median s", "most s"), rows)


def by_program(part: str, broken: list[Seen]) -> str:
    rows = [(f"`{one.name}`", one.says, ", ".join(one.found) or "—") for one in broken]
    return f"## All broken programs: {part}\n\n" + table(("program", "bug", "found by"), rows)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """In Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "—"


if __name__ == "__main__":
    main()
