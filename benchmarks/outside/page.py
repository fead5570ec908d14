"""Results as a page in Markdown: a summary of each kind and part, and a table of each kind."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from outside import ITEMS, KINDS, PARTS, Item
from outside.results import VERDICTS, Result
from pellucid.figures.words.notation import is_share, loss_words, metric_words

HEADINGS = {"list": "Lists", "text": "Texts", "table": "Tables", "images": "Images", "pairs": "Pairs"}
AMOUNTS = {"list": "tokens", "text": "tokens", "table": "columns", "images": "classes", "pairs": "tokens"}


def page_of(results: Mapping[str, Result], command: str) -> str:
    """Everything that is known; what was not tried is left out and counted."""
    done = [(ITEMS[name], one) for name, one in results.items() if name in ITEMS]
    left_out = len(ITEMS) - len(done)
    return "\n\n".join(
        [
            "# Data that others made",
            intro(done, command),
            *([f"{left_out} of {len(ITEMS)} were not tried and are left out."] if left_out else []),
            "## Summary\n\n" + summary(done),
            *[kind_section(kind, [pair for pair in done if pair[0].kind == kind]) for kind in KINDS],
        ]
    )


def intro(done: Sequence[tuple[Item, Result]], command: str) -> str:
    ran = sorted({(one.cores, one.jobs, one.threads) for _, one in done if not one.reason})
    on = "; ".join([f"{cores} cores, {jobs} at once, threads of each: {threads}" for cores, jobs, threads in ran])
    return f"""Written by `{command}`.
Every row is a `pellucid train` of its own with the defaults: it is told the kind of the data and the column of a table
that is predicted, and nothing else. Machine: {on or "not known"}.

The files are made from packages that `benchmarks/outside/fetch.sh` unpacks; none of them is part of pellucid. Recipes
were chosen on one part; those marked † are the other, at which nobody looked meanwhile. Which is which follows from
the hashes of the names.

Network and simple model are shown on dev and on test: nats a token for lists and texts, where less is better, and
the metric for the others, where more is. The simple model is the one that is best on dev. Gains are paired over the
same examples, with their 95 % intervals. **Ahead** means that the intervals of dev and test are both above 0;
**behind** that one is below 0 and none above; **level** is everything between. Seconds are those of the whole
process, the share behind them is by how much the budget was missed (below 0: it ended early), and CPU seconds are
beside them for a machine that was busy; memory is its peak; steps have the epochs they make and the share of the
seconds that went into them."""


def summary(done: Sequence[tuple[Item, Result]]) -> str:
    head = ("kind", "part", "tried", *VERDICTS, "failed", "within 10 % of the time", "in steps (median)", "peak MB")
    rows = []
    for kind in KINDS:
        for part in ("choose", "unseen"):
            ones = [one for item, one in done if item.kind == kind and PARTS[item.name] == part]
            if ones:
                rows.append((kind, part, *counts(ones)))
    if done:
        rows.append(("all", "both", *counts([one for _, one in done])))
    return table(head, rows)


def counts(ones: Sequence[Result]) -> tuple[str, ...]:
    trained = [one for one in ones if not one.reason]
    in_time = sum(1 for one in trained if one.is_in_time)
    return (
        f"{len(ones)}",
        *(f"{sum(1 for one in trained if one.verdict == verdict)}" for verdict in VERDICTS),
        f"{len(ones) - len(trained)}",
        f"{in_time} of {len(trained)}" + (f" ({100 * in_time / len(trained):.0f} %)" if trained else ""),
        f"{100 * statistics.median([one.learning_share for one in trained]):.0f} %" if trained else "",
        f"{max([one.peak_bytes for one in ones]) / 1e6:,.0f}",
    )


def kind_section(kind: str, done: Sequence[tuple[Item, Result]]) -> str:
    """The table of one kind, the unseen ones last; below it what failed, and what was taken for another task."""
    parts = [f"## {HEADINGS[kind]}"]
    order = {name: place for place, name in enumerate(ITEMS)}
    done = sorted(done, key=lambda pair: (PARTS[pair[0].name] == "unseen", order[pair[0].name]))
    has_metric = any(one.metric for _, one in done)
    head = ("name", "what it is", "rows", AMOUNTS[kind], *(["metric"] * has_metric), "network", "simple model")
    head += ("gain on dev", "gain on test", "verdict", "seconds", "CPU s", "MB", "steps")
    trained = [(item, one) for item, one in done if not one.reason]
    parts.append(table(head, [row(item, one, has_metric) for item, one in trained]) if trained else "None tried.")
    parts += [f"- {label(item)} failed after {one.seconds:.0f} s: {one.reason}" for item, one in done if one.reason]
    parts += [
        f"- {label(item)} is meant for {item.task} and was taken for {one.task}."
        for item, one in trained
        if item.task and one.task and item.task != one.task
    ]
    return "\n\n".join(parts)


def row(item: Item, one: Result, has_metric: bool) -> tuple[str, ...]:
    amount = getattr(one, AMOUNTS[item.kind])
    return (
        label(item),
        f"{shortened(one.package.split(' + '))}: {item.member}",
        f"{one.rows:,}" if one.rows else "",
        f"{amount:,}",
        *([one.metric] * has_metric),
        f"{one.model} {sides_words(one.network, one.metric)}",
        f"{one.simple_name} {sides_words(one.simple, one.metric)}",
        gain_words(one, "dev"),
        gain_words(one, "test"),
        f"**{one.verdict}**" if one.verdict == "behind" else one.verdict,
        f"{one.seconds:.0f} ({signed(100 * one.over, 0)} %)",
        f"{one.cpu_seconds:.0f}",
        f"{one.peak_bytes / 1e6:,.0f}",
        f"{one.steps:,} ({one.epochs:,.1f} epochs, {100 * one.learning_share:.0f} %, {one.ended})",
    )


def label(item: Item) -> str:
    return f"`{item.name}`" + (" †" if PARTS[item.name] == "unseen" else "")


def shortened(packages: Sequence[str]) -> str:
    return " + ".join(packages) if len(packages) < 3 else f"{packages[0]} and {len(packages) - 1} more"


def sides_words(sides: Iterable[float | None], metric: str) -> str:
    return " · ".join([metric_words(metric, side) if metric else loss_words(side) for side in sides])


def gain_words(one: Result, side: str) -> str:
    """The mean and its interval; shares in points of percent."""
    gain = next((gain for gain in one.gains if gain[0] == side), None)
    if gain is None:
        return "not known"
    scale, digits = (100, 2) if is_share(one.metric) else (1, 4)
    mean, low, high = (signed(scale * number, digits) for number in gain[1:4])
    return f"{mean} [{low}, {high}]"


def signed(number: float, digits: int) -> str:
    """
    >>> signed(0.03, 2), signed(-0.03, 2), signed(-0.0001, 2)
    ('+0.03', '−0.03', '±0.00')
    """
    return f"{number:+.{digits}f}".replace("-", "−") if round(number, digits) else f"±{0:.{digits}f}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """In Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
