"""What the doctor proved and what a watch saw, in words: the gravest first, what is sound in short lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, heading, indent, note_lines
from pellucid.figures.words.numbers import count_of, duration, percent
from pellucid.figures.words.text import cut_end, end_sentence
from pellucid.records import Diagnosis, Finding, Health, Watched, as_plain

STYLES = {"broken": "bold red", "suspicious": "yellow", "note": "", "sound": "green"}
WATCH_FIGURES = ("layer-histograms", "update-ratios", "gradient-norms", "unit-maps")  # that can be drawn of a watch
MOST_ROWS = 24


def diagnosis_parts(diagnosis: Diagnosis, *, is_whole: bool = False) -> Iterator[Part]:
    """What a terminal shows; is_whole: also what was passed over, and how long each rule took."""
    yield Text(diagnosis_words(diagnosis), "bold red" if diagnosis.is_ill else "bold")
    yield from finding_parts(diagnosis.findings)
    n_unknown = sum(bool(rule.passed_over) for rule in diagnosis.rules)
    if is_whole:
        yield heading("Rules")
        made = Table([("rule", "left"), ("seconds", "right"), ("passed over", "wrap")])
        for rule in diagnosis.rules:
            made.add(rule.rule, f"{rule.seconds:.2f}", rule.passed_over)
        yield indent(made)
    elif n_unknown:
        yield Text(f"\n{count_of(n_unknown, 'rule')} did not apply or could not tell; --all shows why", "dim")
    yield from note_lines(diagnosis.notes)


def plain_diagnosis(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as what JSON can hold, with whether anything is broken."""
    plain = as_plain(diagnosis)
    assert isinstance(plain, dict)
    return {**plain, "is_ill": diagnosis.is_ill}


def diagnosis_words(diagnosis: Diagnosis) -> str:
    """The whole in one line.

    >>> diagnosis_words(Diagnosis("net", (Finding("sound", "loss", "1.1 nats", "it starts unsure", ""),), (), 0.5))
    'net: nothing is broken; 1 thing proven sound, in 0.5 s'
    """
    found = Counter(finding.severity for finding in diagnosis.findings)
    grave = [f"{found[severity]} {severity}" for severity in ("broken", "suspicious") if found[severity]]
    if found["note"]:
        grave.append(count_of(found["note"], "note"))
    if not found["broken"]:
        grave.insert(0, "nothing is broken")
    sound = f"{count_of(found['sound'], 'thing')} proven sound"
    return printable(f"{diagnosis.name}: {', '.join(grave)}; {sound}, in {duration(diagnosis.seconds)}")


def finding_parts(findings: Sequence[Finding]) -> Iterator[Part]:
    """All findings: what is not sound in full, with what it means and what to try; what is sound in a line each."""
    for finding in findings:
        if finding.severity != "sound":
            yield Text("")
            yield Text.assemble(
                (finding.severity, STYLES.get(finding.severity, "")),
                printable(f"  {end_sentence(finding_heading(finding))}"),
                (printable(f"  [{finding.rule}]") if finding.rule else "", "dim"),
            )
            means, try_next = [end_sentence(words) if words else "" for words in (finding.means, finding.try_next)]
            for label, words in (("means", means), ("try", try_next), ("again", finding.again)):
                if words:
                    yield indent(Text.assemble((f"{label:<6}", "dim"), printable(words)))
    sound = [finding for finding in findings if finding.severity == "sound"]
    if sound:
        yield heading("Proven sound")
    for finding in sound:
        words = finding_heading(finding._replace(where=finding.rule or finding.where))
        yield indent(Text.assemble(("✓ ", "green"), printable(words)))


def finding_heading(finding: Finding) -> str:
    """Where, when and what was seen.

    >>> finding_heading(Finding("note", "head", "its bias is 0", "", "", step=1200))
    'head at step 1,200: its bias is 0'
    """
    at = f" at step {finding.step:,}" if finding.step else ""
    return f"{finding.where}{at}: {finding.seen}" if finding.where or at else finding.seen


def advice_words(finding: Finding) -> str:
    """What a finding means and what to try, as far as there is something to say.

    >>> advice_words(Finding("sound", "the first loss", "3.3 nats", "no step is lost", ""))
    'It means: no step is lost.'
    """
    parts = [("It means", finding.means), ("Try", finding.try_next)]
    return " ".join([f"{word}: {end_sentence(words)}" for word, words in parts if words])


def watch_parts(seen: Watched) -> Iterator[Part]:
    """What a terminal shows of someone's own loop: the findings, and every layer at the last look."""
    looks = count_of(len(seen.health), "look")
    yield Text(cut_end(f"{seen.name}: {count_of(len(seen.steps), 'step')}, {looks}", 110), "bold")
    yield from finding_parts(seen.findings)
    if seen.health:
        last = seen.health[-1]
        yield heading(f"Layers at step {last.step:,}")
        yield indent(layer_table(last))
        n_more = len(last.layers) - MOST_ROWS
        if n_more > 0:
            yield Text(f"  … and {n_more:,} more in .report().health", "dim")
        if words := update_words(seen.health):
            yield Text(f"\n{words}")


def layer_table(look: Health) -> Table:
    """What every layer put out at one look, and the gradient that came back to it."""
    right = ("units", "mean", "deviation", "flat", "gradient's deviation")
    made = Table([("layer", "left"), ("kind", "left"), *[(heading, "right") for heading in right]])
    for layer in look.layers[:MOST_ROWS]:
        flat = "" if layer.saturated is None else percent(layer.saturated)
        numbers = f"{layer.width:,}", f"{layer.mean:.3f}", f"{layer.deviation:.3f}", flat
        made.add(cut_end(layer.path, 40), cut_end(layer.kind, 20), *numbers, f"{layer.gradient_deviation:.1e}")
    return made


def update_words(health: Sequence[Health]) -> str:
    """The middle of all updates of each matrix, of the one that moves least to the one that moves most."""
    moved: dict[str, list[float]] = {}
    for look in health:
        for weight in look.weights:
            if len(weight.shape) >= 2 and weight.update_ratio > 0:
                moved.setdefault(weight.path, []).append(weight.update_ratio)
    if not moved:
        return ""
    ratios = sorted((median(each), path) for path, each in moved.items())
    (least, at_least), (most, at_most) = ratios[0], ratios[-1]
    return (
        f"updates of {least:.1e} ({cut_end(at_least, 40)}) to {most:.1e} ({cut_end(at_most, 40)}) of the matrices' "
        "own size, where about 1e-3 is usual"
    )
