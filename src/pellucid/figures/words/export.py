"""What `pellucid export` and `pellucid open` say: the files, what they were checked with, and what to type next."""

from collections.abc import Iterator

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, note_lines, right
from pellucid.figures.words.notes import note_sentences
from pellucid.records import Export


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
    text = ", and the greedy text is the same" if check.says_the_same else ""
    return (
        f"Checked on {check.n_inputs} inputs: {check.tool} and the network differ by {check.largest_difference:.1e} at "
        f"most ({check.allowed:.0e} is allowed){text}."
    )
