"""Samples of a model in a terminal, each with how new it is."""

import json
from collections import Counter
from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.model_facts import cut, facts_lines, show, table
from pellucid.figures.words.numbers import counted
from pellucid.records import Sample, Samples, as_plain

LONGEST = 28  # letters of one cell


def show_samples(samples: Samples) -> None:
    """Print the samples on stdout."""
    show(*_parts(samples))


def samples_json(samples: Samples) -> str:
    """Everything as JSON."""
    return json.dumps(as_plain(samples), ensure_ascii=False, allow_nan=False)


def _parts(samples: Samples) -> Iterator[RenderableType]:
    for line in facts_lines(samples.model):
        yield Text(printable(line), "dim")
    if line := way(samples):
        yield Text(line, "dim")
    yield Text("")
    yield from sample_parts(samples.samples)
    for note in samples.notes:
        yield Text(f"note: {printable(note)}", "yellow")


def sample_parts(samples: tuple[Sample, ...]) -> Iterator[RenderableType]:
    """Items of a list as a table with a tally below it, running text as it is."""
    if samples and samples[0].where:
        yield _listing(samples)
        yield Text("")
        yield Text(tally(samples))
    else:
        yield from _texts(samples)


def _listing(samples: tuple[Sample, ...]) -> Table:
    listing = table(
        ("sample", "left"), ("nats", "right"), ("found", "left"), ("nearest in train", "left"), ("copied", "left")
    )
    for sample in samples:
        near = (
            "itself" if not sample.distance else f"{cut(sample.nearest, LONGEST)}, {counted(sample.distance, 'edit')}"
        )
        listing.add_row(
            Text((cut(sample.text, LONGEST) or "(empty)") + ("…" if sample.is_cut else ""), "bold"),
            f"{sample.nats:.2f}",
            f"in {sample.where}" if sample.where in ("train", "dev") else sample.where,
            near if sample.nearest else "",
            cut(sample.copied, LONGEST),
        )
    return listing


def way(samples: Samples) -> str:
    """How the tokens were chosen, where it was not by chance among all of them.

    >>> from pellucid.records import Loss, ModelFacts
    >>> facts = ModelFacts("bigram", "names", 27, 10, 10, 729, 729, Loss(2.0, 10), None, ())
    >>> way(Samples(facts, "", 0.8, 0, (), top_k=5, top_p=0.9))
    'drawn from the 5 likeliest tokens, and of these from the fewest that hold 0.9 of the probability'
    >>> way(Samples(facts, "", 1.0, 0, (), beam=4, length_penalty=1.0))
    'the best that a beam of 4 found, by log-probability / length^1'
    """
    if samples.beam:
        by = f", by log-probability / length^{samples.length_penalty:g}" if samples.length_penalty else ""
        return f"the best that a beam of {samples.beam} found{by}"
    parts = [f"the {samples.top_k} likeliest tokens"] if samples.top_k else []
    if samples.top_p < 1:
        parts.append(f"the fewest that hold {samples.top_p:g} of the probability")
    return f"drawn from {', and of these from '.join(parts)}" if parts else ""


def tally(samples: tuple[Sample, ...]) -> str:
    """How many are new, and how many the data have.

    >>> tally((Sample("emma", 9.0, 5, "train", "emma", 0, "emma"), Sample("emna", 12.0, 5, "new", "emma", 1, "em")))
    '2 samples: 1 in train, 0 in dev, 1 new; new are those in neither, as the test side is not looked at'
    """
    found = Counter(sample.where for sample in samples)
    if "not known" in found:
        return f"{counted(len(samples), 'sample')}; whether the data have them is not known"
    return (
        f"{counted(len(samples), 'sample')}: {found['train']} in train, {found['dev']} in dev, {found['new']} new; "
        "new are those in neither, as the test side is not looked at"
    )


def _texts(samples: tuple[Sample, ...]) -> Iterator[RenderableType]:
    for number, sample in enumerate(samples, start=1):
        if len(samples) > 1:
            yield Text(f"sample {number}", "bold")
        for line in sample.text.split("\n"):
            yield Padding(Text(printable(line)), (0, 0, 0, 2))
        yield Text("")
        mean = f"{sample.nats / sample.n_tokens:.4f} nats a token"
        copied = "whether it was copied is not known"
        if sample.copied:
            copied = f"the longest part copied from train has {len(sample.copied):,} letters: {cut(sample.copied, 60)}"
        yield Text(f"{mean}; {copied}", "dim")
