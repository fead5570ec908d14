"""What the doctor proved, in a terminal: the gravest first, what is sound in short lines, and what was passed over."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.model_facts import show, table
from pellucid.figures.words.numbers import counted, ended, lasting
from pellucid.records import Diagnosis, Finding, as_plain

STYLES = {"broken": "bold red", "suspicious": "yellow", "note": "", "sound": "green"}
_LABELS = (("means", "means"), ("try", "try_next"), ("again", "again"))


def show_diagnosis(diagnosis: Diagnosis, *, is_whole: bool = False) -> None:
    """Print the findings on stdout; is_whole: also what was passed over, and how long each rule took."""
    show(*_parts(diagnosis, is_whole))


def diagnosis_json(diagnosis: Diagnosis) -> str:
    """Everything as JSON."""
    plain = as_plain(diagnosis)
    assert isinstance(plain, dict)
    return json.dumps({**plain, "is_ill": diagnosis.is_ill}, ensure_ascii=False, allow_nan=False)


def verdict(diagnosis: Diagnosis) -> str:
    """The whole in one line.

    >>> verdict(Diagnosis("net", (Finding("sound", "loss", "1.1 nats", "it starts unsure", ""),), (), 0.5))
    'net: nothing is broken; 1 thing proven sound, in 0.5 s'
    """
    found = Counter(finding.severity for finding in diagnosis.findings)
    grave = [f"{found[severity]} {severity}" for severity in ("broken", "suspicious") if found[severity]]
    if found["note"]:
        grave.append(counted(found["note"], "note"))
    if not found["broken"]:
        grave.insert(0, "nothing is broken")
    sound = f"{counted(found['sound'], 'thing')} proven sound"
    return printable(f"{diagnosis.name}: {', '.join(grave)}; {sound}, in {lasting(diagnosis.seconds)}")


def findings_parts(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    """All findings: what is not sound in full, what is in a line each."""
    for finding in findings:
        if finding.severity != "sound":
            yield Text("")
            yield from finding_parts(finding)
    sound = [finding for finding in findings if finding.severity == "sound"]
    if sound:
        yield Text("\nProven sound", "bold")
    for finding in sound:
        says = f"{finding.rule or finding.where}{_at(finding)}: {finding.seen}"
        line = Text.assemble(("✓ ", "green"), printable(says))
        yield Padding(line, (0, 0, 0, 2), expand=False)


def finding_parts(finding: Finding) -> Iterator[RenderableType]:
    """One finding: where and what was seen; below it what it means, what to try and how to see it again."""
    head = Text.assemble(
        (finding.severity, STYLES.get(finding.severity, "")),
        printable(f"  {finding.where}{_at(finding)}: {ended(finding.seen)}"),
        (printable(f"  [{finding.rule}]") if finding.rule else "", "dim"),
    )
    yield head
    for label, name in _LABELS:
        says = getattr(finding, name)
        if says:
            words = says if name == "again" else ended(says)
            yield Padding(Text.assemble((f"{label:<6}", "dim"), printable(words)), (0, 0, 0, 2), expand=False)


def _at(finding: Finding) -> str:
    return f" at step {finding.step:,}" if finding.step else ""


def _parts(diagnosis: Diagnosis, is_whole: bool) -> Iterator[RenderableType]:
    yield Text(verdict(diagnosis), "bold red" if diagnosis.is_ill else "bold")
    yield from findings_parts(diagnosis.findings)
    if is_whole:
        yield from _rules(diagnosis)
    else:
        n_unknown = sum(bool(rule.passed_over) for rule in diagnosis.rules)
        if n_unknown:
            yield Text(f"\n{counted(n_unknown, 'rule')} did not apply or could not tell; --all shows why", "dim")
    for note in diagnosis.notes:
        yield Text(f"note: {printable(note)}", "yellow")


def _rules(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """Every rule, how long it took, and why it said nothing where it did."""
    yield Text("\nRules", "bold")
    listing = table(("rule", "left"), ("seconds", "right"), ("passed over", "left"))
    listing.columns[2].no_wrap = False
    for rule in diagnosis.rules:
        listing.add_row(printable(rule.rule), f"{rule.seconds:.2f}", printable(rule.passed_over))
    yield Padding(listing, (0, 0, 0, 2), expand=False)
