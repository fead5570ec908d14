"""What `pellucid train` says on stdout, part by part: data, baselines, plan, start, and at the end the report."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.charts.braille import Canvas
from pellucid.figures.charts.series import block_means
from pellucid.figures.words.answers import answer_parts
from pellucid.figures.words.data_words import guessing_costs, has_tokens, side_sizes, wanted_words
from pellucid.figures.words.ladder import ladder_table, plain_ladder
from pellucid.figures.words.merits import loss_unit, loss_words, metric_words
from pellucid.figures.words.model_facts import cut, show, table
from pellucid.figures.words.numbers import counted, ended, lasting, rough
from pellucid.figures.words.samples import sample_parts
from pellucid.records import (
    DataFacts,
    Finding,
    InitialLoss,
    Measure,
    NetworkFacts,
    Plan,
    Rung,
    TrainingReport,
    as_plain,
)

# What a configuration has from the data, which are told before it.
GIVEN = {"vocab_size", "numbers", "categories", "outputs", "longest_source", "longest_target"}
USUAL_LOSS = "cross-entropy"
COUNTING = Measure()
GRAVE = {"broken": "bold red", "suspicious": "yellow", "note": "", "sound": "green"}


def data_lines(data: DataFacts) -> list[str]:
    """What was read, its sides, and its symbols or what is to be foretold of it."""
    lines = [data.said, "; ".join([f"{side} {held}" for side, held in side_sizes(data).items()])]
    lines += [f"reads {part}" for part in data.about]
    if has_tokens(data):
        lines.append(
            f"{counted(data.vocab_size, 'symbol')} ({data.tokens}); "
            f"guessing costs {guessing_costs(data.vocab_size)} nats a token"
        )
    else:
        lines.append(wanted_words(data))
    return [printable(line) for line in [*lines, *[f"note: {note}" for note in data.notes]]]


def baseline_table(rungs: Sequence[Rung], measure: Measure = COUNTING) -> Table:
    """What counting alone reaches, or other models that are no networks."""
    metric, unit = measure.metric, loss_unit(measure)
    if not metric:
        made = table(
            ("counting alone", "left"), (f"dev {unit}", "right"), ("bits/char", "right"), ("numbers kept", "right")
        )
        for rung in rungs:
            dev = f"{rung.dev:.4f}" if math.isfinite(rung.dev) else "infinite"
            made.add_row(cut(rung.name, 30), dev, f"{rung.bits_per_character:.3f}", f"{rung.parameters:,}")
        return made
    made = table(
        (measure.simple, "left"), (f"dev {metric}", "right"), (f"dev {unit}", "right"), ("numbers kept", "right")
    )
    for rung in rungs:
        reached = metric_words(metric, rung.metric), loss_words(rung.dev, metric)
        made.add_row(cut(rung.name, 30), *reached, f"{rung.parameters:,}")
    return made


def plan_lines(plan: Plan, network: NetworkFacts) -> list[str]:
    """The network, the steps, the optimizer, and why they were chosen."""
    config = config_words({name: value for name, value in network.config.items() if name not in GIVEN})
    rate = f"rate {rough(plan.learning_rate)}" + (
        f", {rough(plan.matrix_learning_rate)} for matrices" if plan.matrix_learning_rate else ""
    )
    takes = f", about {lasting(plan.seconds)}" if plan.seconds else ""
    lines = [
        f"{network.name}, {counted(network.parameters, 'parameter')}" + (f": {config}" if config else ""),
        f"{counted(plan.steps, 'step')} of {plan.batch_size:,}{takes}; {plan.optimizer}, {rate}, "
        f"{counted(plan.warmup, 'step')} of warm-up, then {plan.schedule}",
        f"seed {plan.seed}, {counted(plan.threads, 'thread')}",
        *[f"{name}: {says}" for name, says in goal_facts(plan)],
        *plan.because,
    ]
    return [printable(line) for line in lines]


def config_words(config: Mapping[str, object]) -> str:
    """
    >>> config_words({"width": 8, "channels": [8, 16], "norm": "layer"})
    'width 8, channels (8, 16), norm layer'
    """
    written = {
        name: f"({', '.join([str(each) for each in value])})" if isinstance(value, list | tuple) else str(value)
        for name, value in config.items()
    }
    return ", ".join([f"{name} {value}" for name, value in written.items()])


def goal_facts(plan: Plan) -> list[tuple[str, str]]:
    """What is made small, what is added to it and what is done to the images, where it is not the usual.

    >>> from pellucid.figures.tiny_run import TINY_RUN
    >>> goal_facts(TINY_RUN.plan._replace(loss="hinge", penalty="l2", strength=0.001, shift=1))
    [('loss', 'hinge'), ('penalty', 'l2 of the weights, times 0.001'), ('images', 'moved at random by up to 1 pixel')]
    """
    found = [("loss", plan.loss)] if plan.loss != USUAL_LOSS else []
    if plan.penalty:
        found.append(("penalty", f"{plan.penalty} of the weights, times {rough(plan.strength)}"))
    if plan.shift:
        found.append(("images", f"moved at random by up to {counted(plan.shift, 'pixel')}"))
    return found


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
        **{name: getattr(report, name) for name in ("samples", "answers", "ending", "verdict", "sentence")},
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
    if report.answers:
        yield Text("")
        yield from answer_parts(report.answers, report.data)
    yield Text("")
    yield Text(printable(report.sentence), "bold")
    yield Text("")
    yield from _next(report)


def _next(report: TrainingReport) -> Iterator[RenderableType]:
    seconds = report.timings[-1].seconds if report.timings else math.nan
    trained = f", trained for {lasting(seconds)}" if math.isfinite(seconds) else ""
    yield Text(f"The run is in {printable(report.folder)}{trained}. Now you can type or open")
    lines = [*_commands(report), f"{report.folder}/report.html"]
    yield Padding(Text("\n".join([printable(line) for line in lines])), (0, 0, 0, 2))


def _commands(report: TrainingReport) -> list[str]:
    if report.answers or report.ladder.measure.metric:
        source = report.answers.examples[0].what if report.answers and report.answers.examples else ""
        if report.data.kind == "pairs" and source.isascii() and source.isalnum():
            return [f"pellucid predict {report.name} --text {source}"]
        return [f"pellucid predict {report.name} FILE"]
    text = report.data.first[0] if report.data.kind == "list" and report.data.first else "some text"
    # A word of the data may hold anything; one that the shell would read otherwise is not put into a command.
    text = text if text.isalnum() else "emma" if report.data.kind == "list" else '"some text"'
    return [f"pellucid sample {report.name}", f"pellucid score {report.name} {text}"]


def loss_picture(report: TrainingReport) -> list[str]:
    """The loss on train and dev over the steps as a few lines of text, with the best simple model as a dotted rule."""
    finite = [evaluation for evaluation in report.evaluations if math.isfinite(evaluation.dev)]
    if len(finite) < 2 or len(report.steps) < 2:
        return []
    best = report.ladder.best_count
    # Beside a metric, the best of them need not have a loss; then there is no rule.
    best = best if best and math.isfinite(best.dev) else None
    train = block_means([(step.step, step.loss) for step in report.steps], 128, least=4)[0]
    dev = [(evaluation.step, evaluation.dev) for evaluation in report.evaluations]
    losses = [loss for _, loss in [*train, *dev] if math.isfinite(loss)] + ([best.dev] if best else [])
    # Near the end is where it is decided; the first steps, far above, leave the picture.
    reach = max([finite[-1].dev, best.dev if best else finite[0].dev]) - min(losses)
    high = min(max(losses), min(losses) + max(4 * reach, 0.2))
    canvas = Canvas((0, report.steps[-1].step), (min(losses), max(high, min(losses) + 1e-9)))
    labels = [(finite[-1].dev, f"dev {finite[-1].dev:.4f}")]
    if best:
        canvas.across(best.dev)
        labels.append((best.dev, f"{cut(best.name, 24)} {best.dev:.4f}"))
    canvas.line(train)
    canvas.line(dev)
    last = f"{report.steps[-1].step:,} steps"
    below = " " * 8 + "0".ljust(canvas.width - len(last)) + last
    return [*canvas.lines("{:.2f}".format, labels), below]
