"""Writes the pages and pictures that are made from the code, or with --check tells which are out of date.

python docs/build.py            rules.md, commands.md, drawings.md, doctor-rules.md, learn.md, claims.md, pictures/
python docs/build.py --check    exit 1 if one of them is not what the code says
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from pellucid.api.derive import derive
from pellucid.api.draw import drawable
from pellucid.api.learn import JOURNEY, all_steps
from pellucid.autograd.rules import RULES, Rule
from pellucid.claims.claim import all_claims, all_families
from pellucid.claims.running import stored_ledger
from pellucid.cli import COMMANDS, pellucid
from pellucid.data import datasets
from pellucid.figures.claims_page import draw_claim_result
from pellucid.figures.drawings.bigram_graph import draw_bigram_graph
from pellucid.figures.words.claims import claim_verdict_words, deciding_words, tally_words
from pellucid.inspection.rules import rules as doctors_rules
from pellucid.lessons.lesson import Lesson
from pellucid.models.catalogue import NETWORKS
from pellucid.models.counting.simple_models import word_counts
from pellucid.records import VERDICTS, ClaimResult

DOCS = Path(__file__).parent
NEURON = ("1/(1+exp(-(w0*x0+w1*x1+w2)))", {"w0": 2.0, "x0": -1.0, "w1": -2.0, "x1": -2.0, "w2": -3.0})


def rules_page() -> str:
    rows = "\n".join(rule_row(rule) for rule in RULES.values())
    return f"""# The table of rules

Everything the engine knows of each operation, as `src/pellucid/autograd/rules.py` has it. This page is written by
`docs/build.py`; a test fails when the two differ. `a`, `b` and `c` are the inputs in order.

| name | written | slope toward each input | why | wants |
|---|---|---|---|---|
{rows}

Where a slope jumps, the one used is torch's: 0 for `relu` and `abs` at 0, {RULES["leaky_relu"].slopes(0.0, 0.0)[0]} for
`leaky_relu` at 0, an equal share for each of the largest in `max` and the smallest in `min`. `derive` says so when it
happens. `where(a, b, c)` is `b` where `a > 0` and else `c`; the one not taken contributes exactly nothing, even when it
is not a number.
"""


def rule_row(rule: Rule) -> str:
    letters = "abc"[: rule.arity] if rule.arity else ["a", "..."]
    if rule.form == "infix":
        written = f"a {rule.symbol} b"
    elif rule.form == "prefix":
        written = f"{rule.symbol}a"
    else:
        written = f"{rule.symbol}({', '.join(letters)})"
    slopes = ", ".join(f"`{slope}`" for slope in rule.derivative)
    why = "; ".join(sentence.format(a="a", b="b", c="c", out=written) for sentence in rule.because)
    return f"| {rule.name} | `{written}` | {slopes} | {why} | {rule.domain or 'any number'} |"


def commands_page() -> str:
    """What each command prints, and the names that they take: networks and data sets."""
    parts = ["# The commands\n\nWhat each one prints for `--help`, with all options; written by `docs/build.py`.\n"]
    for name in COMMANDS:
        parts.append(f"## pellucid {name}\n\n```text\n{help_text(name)}\n```\n")
    networks = [f"| {card.name} | {', '.join(card.kinds)} | {card.summary} |" for card in NETWORKS]
    parts.append("\n".join(["## Networks\n", "| name | data | what it is |", "|---|---|---|", *networks, ""]))
    sets = [f"| {name} | {card.kind} | {card.summary} |" for name, card in datasets().items()]
    parts.append("\n".join(["## Data sets\n", "| name | kind | what it is |", "|---|---|---|", *sets, ""]))
    return "\n".join(parts)


def doctor_page() -> str:
    rows = "\n".join(
        f"| {rule.name} | {rule.proves} | {rule.how} | {rule.cannot_see} | {', '.join(rule.needs) or 'nothing more'} |"
        for rule in doctors_rules().values()
    )
    return f"""# The rules of the doctor

What each rule proves, how, and what it can't see, as its file in `src/pellucid/inspection/rules/` says it; written by
`docs/build.py`, and shown by `pellucid doctor --explain RULE`. A rule that lacks what it needs is passed over, and one
that fails on a strange module is reported as "not known".

| rule | proves | how | can't see | needs |
|---|---|---|---|---|
{rows}
"""


def drawings_page() -> str:
    rows = "\n".join(
        f"| {name} | {card.summary} | {'lesson' if isinstance(card, Lesson) else 'figure'} | "
        f"{', '.join([name.replace('_', '-') for name in card.options])} |"
        for name, card in drawable().items()
    )
    return f"""# What can be drawn

Every picture of `pellucid draw`, by its name; written by `docs/build.py`. A figure is drawn from data or from a run, a
lesson measures what it shows by itself, with knobs that `pellucid draw NAME --help` lists and explains.
[figures.md](figures.md) shows them one by one.

| name | shows | is a | options |
|---|---|---|---|
{rows}
"""


def learn_page() -> str:
    """The steps of `pellucid learn`, part by part."""
    numbers = {name: number for number, name in enumerate(all_steps(), start=1)}
    parts = []
    for part, steps in JOURNEY.items():
        rows = [f"| {numbers[step.name]} | `{step.name}` | {step.says} | `pellucid {step.command}` |" for step in steps]
        parts.append("\n".join([f"## {part}\n", "| | step | says | runs |", "|---|---|---|---|", *rows, ""]))
    return """# The way in steps

From a derivative to a vision transformer, each step one command with one sentence; written by `docs/build.py` from
`src/pellucid/api/learn.py`, which is what `pellucid learn` lists. `pellucid learn NAME`, or its number, shows the
command of a step, runs it and names the next. Nothing is fetched: all of them run on what comes with pellucid, each in
well under a minute. Pictures are written into the folder where you are, runs below `./runs`; `--json` gives what a
step says as one document.

""" + "\n".join(parts)


def claims_page() -> str:
    """Totals by document and family, what surprises, and numbers of documents that are wrong beside the right ones."""
    claims = {name: claim for name, (_, claim) in all_claims().items()}
    results = stored_ledger().results
    families = {name: family.title for name, family in all_families().items()}
    by_document = tally_rows([(document, one) for one in results for document in documents_of(one)])
    by_family = tally_rows([(families[one.family], one) for one in results])
    surprising = [one for one in results if claims[one.id].surprise]
    wrong = [one for one in results if claims[one.id].stated and one.verdict == "fails"]
    shown = "\n".join(
        f"### {claim_verdict_words(one)}: {one.statement}\n\n`{one.id}` ({one.where}): {claims[one.id].surprise}. "
        f"{deciding_words(one)}.\n\n![{one.statement}](pictures/claims/{one.id}.svg)\n"
        for one in surprising
    )
    numbers = "\n".join(
        f"| {one.where} | {unlinked(one.statement)} | {claims[one.id].stated} | {deciding_words(one)} | `{one.id}` |"
        for one in wrong
    )
    changed = "\n".join(
        [f"| all of {name} | {family.changed} |" for name, family in all_families().items() if family.changed]
        + [f"| `{name}` | {claim.changed} |" for name, claim in claims.items() if claim.changed]
    )
    n_by_processor = sum(one.timed_by == "processor" for one in results)
    head = "| | statements | holds | fails | only when | not decided | not testable |\n|---|---|---|---|---|---|---|"
    n_second = sum(any(number.second is not None for number in one.numbers) for one in results)
    told = (
        f"{tally_words(stored_ledger())} {n_second} of them have a number that a second, independent route gave, too."
    )
    return f"""# Claims and their verdicts

What courses, exams, answer keys and notes say about networks, each as an experiment with its rule and a control in
which it must come out the other way. Written by `docs/build.py` from the stored ledger, which `make claims` makes anew;
`pellucid claims show ID` has everything about one, and `pellucid claims run ID` runs it here. Seconds of a claim are
those of processors where it says so ({n_by_processor} of {len(results)}); the others were timed by a clock on a busy
machine, and are several times too long.

{told}

## By document

{head}
{by_document}

## By family

{head}
{by_family}

## {len(surprising)} results that surprise

{shown}
## Numbers that are wrong

As a document has it, and as it was measured or computed here.

| where | says | stated | here | claim |
|---|---|---|---|---|
{numbers}

## What was changed after a first run

A rule stands in the claim before its numbers are made. Of these claims a rule, a set-up, the number of seeds or the
control was changed when some numbers had been seen; each says it itself, too. Of all claims that are searched along a
knob, the turning point was once the place where the mean margin changes its sign; it now lies between two values at
which the claim is decided by itself.

| claim | what was changed, and why |
|---|---|
{changed}
"""


def unlinked(statement: str) -> str:
    """A statement in which nothing looks like a link: L[tanh](½) is a formula."""
    return statement.replace("](", "] (")


def documents_of(result: ClaimResult) -> list[str]:
    """The documents that a claim is from, by the first words of where it stands."""
    return list(dict.fromkeys(part.split()[0] for part in result.where.split("; ")))


def tally_rows(named: Sequence[tuple[str, ClaimResult]]) -> str:
    """One row for each name: how many statements, those that are covered too, have which verdict."""
    rows = []
    for name in dict.fromkeys(name for name, _ in named):
        counts = Counter(dict.fromkeys(VERDICTS, 0))
        for other, one in named:
            if other == name:
                counts[one.verdict] += 1 + len(one.covers)
        rows.append(f"| {name} | {counts.total()} | " + " | ".join(str(counts[verdict]) for verdict in VERDICTS) + " |")
    return "\n".join(rows)


def claim_pictures() -> dict[Path, str]:
    """The pictures of results that surprise."""
    claims = all_claims()
    return {
        DOCS / "pictures" / "claims" / f"{one.id}.svg": draw_claim_result(one).svg + "\n"
        for one in stored_ledger().results
        if claims[one.id][1].surprise
    }


def help_text(name: str) -> str:
    with pellucid.make_context("pellucid", [name], resilient_parsing=True) as context:
        command = pellucid.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=f"pellucid {name}", max_content_width=100, terminal_width=100)
        inner.meta["pellucid.help_all"] = True
        return command.get_help(inner).rstrip()


def generated() -> dict[Path, str]:
    return {
        DOCS / "rules.md": rules_page(),
        DOCS / "commands.md": commands_page(),
        DOCS / "drawings.md": drawings_page(),
        DOCS / "doctor-rules.md": doctor_page(),
        DOCS / "learn.md": learn_page(),
        DOCS / "claims.md": claims_page(),
        **claim_pictures(),
        DOCS / "pictures" / "neuron.svg": derive(*NEURON).svg() + "\n",
        DOCS / "pictures" / "emma.svg": draw_bigram_graph(word_counts("emma")).svg + "\n",
    }


def main() -> None:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.relative_to(DOCS.parent)} is out of date: run python docs/build.py")
        else:
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(generated()[path])
            print(f"wrote {path.relative_to(DOCS.parent)}")
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
