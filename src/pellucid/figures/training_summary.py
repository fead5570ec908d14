"""What `pellucid train` says on stdout, part by part: data, baselines, plan, start, and at the end the report."""

import json
import math
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.braille import Canvas
from pellucid.figures.ladder import ladder_table, plain_ladder
from pellucid.figures.model_facts import cut, show, table
from pellucid.figures.numbers import counted, ended, lasting, rough
from pellucid.figures.samples import sample_parts
from pellucid.figures.thinning import block_means
from pellucid.records import (
    DataFacts,
    Finding,
    InitialLoss,
    NetworkFacts,
    Plan,
    Rung,
    TrainingReport,
    as_plain,
)

GRAVE = {"broken": "bold red", "suspicious": "yellow", "note": "", "sound": "green"}


def data_lines(data: DataFacts) -> list[str]:
    """What was read, its sides and its symbols."""
    lines = [data.said]
    sides = []
    for side, n in data.n_tokens.items():
        items = data.items.get(side, 0)
        held = f"{counted(items, 'item')}, " if items else ""
        sides.append(f"{side} {held}{counted(n, 'token')}")
    lines.append("; ".join(sides))
    lines.append(
        f"{counted(data.vocab_size, 'symbol')} ({data.tokens}); guessing costs {_ln(data.vocab_size)} nats a token"
    )
    return [printable(line) for line in [*lines, *[f"note: {note}" for note in data.notes]]]


def _ln(n: int) -> str:
    return f"ln {n:,} = {math.log(n):.4f}" if n > 0 else "nothing: there is no symbol, so 0"


def baseline_table(rungs: Sequence[Rung]) -> Table:
    """What counting alone reaches."""
    made = table(("counting alone", "left"), ("dev nats", "right"), ("bits/char", "right"), ("numbers kept", "right"))
    for rung in rungs:
        dev = f"{rung.dev:.4f}" if math.isfinite(rung.dev) else "infinite"
        made.add_row(cut(rung.name, 30), dev, f"{rung.bits_per_character:.3f}", f"{rung.parameters:,}")
    return made


def plan_lines(plan: Plan, network: NetworkFacts) -> list[str]:
    """The network, the steps, the optimizer, and why they were chosen."""
    config = ", ".join([f"{name} {value}" for name, value in network.config.items() if name != "vocab_size"])
    rate = f"rate {rough(plan.rate)}" + (f", {rough(plan.matrix_rate)} for matrices" if plan.matrix_rate else "")
    takes = f", about {lasting(plan.seconds)}" if plan.seconds else ""
    lines = [
        f"{network.name}, {counted(network.parameters, 'parameter')}: {config}",
        f"{counted(plan.steps, 'step')} of {plan.batch:,}{takes}; {plan.optimizer}, {rate}, "
        f"{counted(plan.warm_up, 'step')} of warm-up, then {plan.decay}",
        f"seed {plan.seed}, {counted(plan.threads, 'thread')}",
        *plan.because,
    ]
    return [printable(line) for line in lines]


def start_line(start: InitialLoss) -> str:
    """The loss before the first step, beside what it should be."""
    return printable(f"before the first step: {start.says}")


def finding_lines(finding: Finding) -> list[str]:
    """What was seen, what it means, what to try."""
    at = f" at step {finding.step:,}" if finding.step else ""
    where = f"{finding.where}{at}: " if finding.where or at else ""
    return [
        printable(f"{finding.severity}: {where}{finding.seen}"),
        printable(f"  {advice(finding)}"),
    ]


def advice(finding: Finding) -> str:
    """What a finding means and what to try, as far as there is something to say.

    >>> advice(Finding("sound", "the first loss", "3.3 nats", "no step is lost", ""))
    'It means: no step is lost.'
    """
    parts = [("It means", finding.means), ("Try", finding.try_next)]
    return " ".join([f"{word}: {ended(says)}" for word, says in parts if says])


def show_report(report: TrainingReport) -> None:
    """Print the end of a training on stdout."""
    show(*report_parts(report))


def report_json(report: TrainingReport) -> str:
    """The run as JSON: all but what was logged step by step, which stands in the run's own files."""
    logged = {"steps": len(report.steps), "evaluations": report.evaluations, "sampled": report.sampled}
    document = {
        **{name: getattr(report, name) for name in ("name", "folder", "seed", "threads", "versions")},
        **{name: getattr(report, name) for name in ("data", "network", "plan", "start", "findings", "timings")},
        **logged,
        **{name: getattr(report, name) for name in ("samples", "ending", "verdict", "sentence")},
    }
    plain = as_plain(document)
    assert isinstance(plain, dict)
    return json.dumps({**plain, "ladder": plain_ladder(report.ladder)}, ensure_ascii=False, allow_nan=False)


def report_parts(report: TrainingReport) -> Iterator[RenderableType]:
    """Everything that is said at the end of a training."""
    yield ladder_table(report.ladder)
    picture = loss_picture(report)
    if picture:
        yield Text("")
        yield Text("\n".join(picture))
    yield Text("")
    yield Text(printable(report.ending.says))
    verdict = report.verdict
    yield Text(printable(f"{verdict.name}: {ended(verdict.because)} {ended(verdict.try_next)}"))
    for finding in report.findings:
        if finding.severity != "sound":
            first, second = finding_lines(finding)
            yield Text(first, GRAVE.get(finding.severity, ""))
            yield Text(second, "dim")
    if report.samples:
        yield Text("")
        yield from sample_parts(tuple(report.samples))
    yield Text("")
    yield Text(printable(report.sentence), "bold")
    yield Text("")
    yield from _next(report)


def _next(report: TrainingReport) -> Iterator[RenderableType]:
    seconds = report.timings[-1].seconds if report.timings else math.nan
    trained = f", trained for {lasting(seconds)}" if math.isfinite(seconds) else ""
    yield Text(f"The run is in {printable(report.folder)}{trained}. Now you can type or open")
    text = report.data.first[0] if report.data.kind == "list" and report.data.first else "some text"
    # A word of the data may hold anything; one that the shell would read otherwise is not put into a command.
    text = text if text.isalnum() else "emma" if report.data.kind == "list" else '"some text"'
    lines = [f"pellucid sample {report.name}", f"pellucid score {report.name} {text}", f"{report.folder}/report.html"]
    yield Padding(Text("\n".join([printable(line) for line in lines])), (0, 0, 0, 2))


def loss_picture(report: TrainingReport) -> list[str]:
    """The loss on train and dev over the steps as a few lines of text, with the best count as a dotted rule."""
    finite = [evaluation for evaluation in report.evaluations if math.isfinite(evaluation.dev)]
    if len(finite) < 2 or len(report.steps) < 2:
        return []
    best = report.ladder.best_count
    train = block_means([(step.step, step.loss) for step in report.steps], 128, least=4)[0]
    dev = [(evaluation.step, evaluation.dev) for evaluation in report.evaluations]
    losses = [loss for _, loss in [*train, *dev] if math.isfinite(loss)] + ([best.dev] if best else [])
    # Near the end is where it is decided; the first steps, far above, leave the picture.
    reach = max([finite[-1].dev, *([best.dev] if best else [])]) - min(losses)
    high = min(max(losses), min(losses) + max(4 * reach, 0.2))
    canvas = Canvas((0, report.steps[-1].step), (min(losses), max(high, min(losses) + 1e-9)))
    labels = [(finite[-1].dev, f"dev {finite[-1].dev:.4f}")]
    if best and math.isfinite(best.dev):
        canvas.across(best.dev)
        labels.append((best.dev, f"{cut(best.name, 24)} {best.dev:.4f}"))
    canvas.line(train)
    canvas.line(dev)
    last = f"{report.steps[-1].step:,} steps"
    below = " " * 8 + "0".ljust(canvas.width - len(last)) + last
    return [*canvas.lines("{:.2f}".format, labels), below]
