"""What `pellucid export` and `pellucid open` say: the files, what they were checked with, and what to type next."""

from collections.abc import Iterator

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, note_lines, right
from pellucid.figures.words.notes import note_sentences
from pellucid.records import Export, OpenedModel

NEXT = (
    "sample {} --prompt The",
    'score {} "a text"',
    "inspect {}",
    'draw attention-maps {} --input "a text" --out maps.svg',
)


def export_parts(made: Export) -> Iterator[Part]:
    """What a terminal shows of an export."""
    yield Text(f"{made.model} of the run {printable(made.run)}, as {made.to}, in {printable(made.folder)}", "dim")
    yield Text("")
    table = Table("file", *right("bytes"))
    for file in made.files:
        table.add(printable(file.name), f"{file.n_bytes:,}")
    yield table
    yield Text("")
    yield Text(check_words(made), "bold")
    yield from note_lines(note_sentences(made.notes))
    yield Text("")
    yield from [Text(f"  {printable(line)}") for line in made.use]


def check_words(made: Export) -> str:
    """How far apart the other tool and the network are."""
    check = made.check
    tokens = ", the tokens of texts are the same" if check.reads_the_same else ""
    text = ", and the greedy text is the same" if check.says_the_same else ""
    return (
        f"Checked on {check.n_inputs} inputs: {check.tool} and the network differ by {check.largest_difference:.1e} at "
        f"most ({check.allowed:.0e} is allowed){tokens}{text}."
    )


def opened_parts(opened: OpenedModel) -> Iterator[Part]:
    """What a terminal shows of a model that was opened."""
    context = f"{opened.context:,} tokens at once" if opened.context else "any number of tokens at once"
    yield Text(
        f"{opened.architecture}, {opened.parameters:,} parameters, {opened.vocab_size:,} symbols, {context}: now the "
        f"run {printable(opened.run)}, with a copy of the weights ({opened.n_bytes / 1e6:,.1f} MB)",
        "dim",
    )
    yield Text("")
    yield Text(contract_words(opened), "bold")
    yield Text("What it was trained on, and how well it does, is not known.")
    yield Text("")
    for verb in NEXT:
        yield Text(f"  pellucid {verb.format(printable(opened.run))}")


def contract_words(opened: OpenedModel) -> str:
    """What was measured of it before it became a run."""
    how = "with its own cache" if opened.is_cached else "by reading all again for each token, as its cache gives others"
    return (
        f"It is causal: other later tokens moved earlier scores by {opened.leak:.1e}. Token by token it says the same, "
        f"to {opened.stepwise:.1e}, {how}."
    )
