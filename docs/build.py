"""Writes the pages and pictures that are made from the code, or with --check tells which are out of date.

python docs/build.py            rules.md, commands.md, drawings.md, doctor-rules.md, learn.md, pictures/
python docs/build.py --check    exit 1 if one of them is not what the code says
"""

import sys
from pathlib import Path

import click

from pellucid.api.derive import derive
from pellucid.api.draw import drawable
from pellucid.api.learn import JOURNEY, all_steps
from pellucid.autograd.rules import RULES, Rule
from pellucid.cli import COMMANDS, pellucid
from pellucid.data import datasets
from pellucid.figures.drawings.bigram_graph import draw_bigram_graph
from pellucid.inspection.rules import rules as doctors_rules
from pellucid.lessons.lesson import Lesson
from pellucid.models.catalogue import NETWORKS
from pellucid.models.counting.simple_models import word_counts

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
        DOCS / "pictures" / "neuron.svg": derive(*NEURON).svg() + "\n",
        DOCS / "pictures" / "emma.svg": draw_bigram_graph(word_counts("emma")).svg + "\n",
    }


def main() -> None:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.relative_to(DOCS.parent)} is out of date: run python docs/build.py")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(generated()[path])
            print(f"wrote {path.relative_to(DOCS.parent)}")
    sys.exit(1 if stale and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
