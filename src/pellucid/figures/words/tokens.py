"""What `pellucid tokens` says: symbols above their indices, contexts and targets, shapes, and what each way costs."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from pellucid.errors import printable, quoted
from pellucid.figures.tables import Cell, FittedLines, Part, Table, heading, indent, note_lines, right
from pellucid.figures.words.notation import count_of, token_label, with_prefix
from pellucid.figures.words.notes import note_sentences
from pellucid.records import AxisSizes, TokenExample, TokenListing

LONGEST_CONTEXT = 12  # tokens of a context that are shown, its last ones
MOST_LISTED = 60  # symbols of a vocabulary


def token_parts(listing: TokenListing) -> Iterator[Part]:
    """What a terminal shows of a text as tokens."""
    yield from [Text(line, "dim") for line in _source_lines(listing)]
    label = _Labels(listing)
    yield heading(f"Vocabulary: {count_of(listing.vocab_size, 'symbol')}")
    yield _numbered([label.of(symbol) for symbol in listing.vocabulary[:MOST_LISTED]], range(listing.vocab_size))
    yield from _more(listing.vocab_size - MOST_LISTED, "symbol")
    yield heading(f"Tokens: {listing.n_tokens:,}")
    yield _numbered([label.of(symbol) for symbol in listing.symbols], listing.indices)
    yield from _more(listing.n_tokens - len(listing.indices), "token")
    yield heading(f"Examples: {_examples_words(listing)}")
    if listing.examples:
        yield indent(_example_table(listing.examples, label))
        yield from _more(listing.n_examples - len(listing.examples), "example")
    if listing.tensors:
        yield heading("Tensors")
        yield indent(_tensor_table(listing.tensors))
        if listing.n_left:
            yield indent(Text(f"{count_of(listing.n_left, 'prediction')} at the end fill no window", "dim"))
    if listing.costs:
        yield heading(_costs_words(listing))
        yield indent(_cost_table(listing))
        yield indent(Text(_ratio_words(listing), "bold"))
    yield from note_lines(note_sentences(listing.notes))


def _source_lines(listing: TokenListing) -> list[str]:
    if not listing.is_given:
        return [printable(listing.source)]
    taken = "a list" if listing.kind == "list" else "text"
    return [f"{quoted(listing.source, 60)}, taken as {taken}: there is no file or set of that name"]


class _Labels:
    """How each symbol is shown, so that it can be seen."""

    def __init__(self, listing: TokenListing) -> None:
        self.boundary = listing.vocabulary[0] if listing.has_boundary else None

    def of(self, symbol: str) -> str:
        return symbol if symbol == self.boundary else token_label(symbol)


def _numbered(labels: Sequence[str], indices: Sequence[int]) -> Part:
    """Symbols with their indices below them, in as many lines as the terminal needs."""
    pairs = [(label, str(index)) for label, index in zip(labels, indices, strict=False)]

    def make(width: int) -> list[str]:
        lines: list[str] = []
        above = below = " "
        for label, index in pairs:
            room = max(cell_len(label), len(index)) + 1
            if cell_len(above) + room > width and above.strip():
                lines, above, below = [*lines, above, below], " ", " "
            above += " " * (room - cell_len(label)) + label
            below += " " * (room - len(index)) + index
        return [*lines, above, below]

    return FittedLines(make)


def _more(n: int, noun: str) -> list[Part]:
    return [indent(Text(f"and {count_of(n, noun)} more", "dim"))] if n > 0 else []


def _examples_words(listing: TokenListing) -> str:
    """How many there are, and what each looks back on."""
    n = count_of(listing.n_examples, "prediction")
    if not listing.n_examples:
        return "none, as one token has no next one"
    if listing.is_window:
        return f"{n}, each from the {count_of(listing.context, 'token')} before it"
    if listing.kind == "list":
        return f"{n}, each from all of its item before it"
    windows = count_of(listing.n_examples // listing.context, "window")
    return f"{n}, in {windows} of {listing.context:,}, each from all of its window before it"


def _example_table(examples: Sequence[TokenExample], label: _Labels) -> Table:
    made = Table(*right("context"), "target", *right("indices"), "index", n_keys=2)
    for one in examples:
        cut = "… " * (len(one.context) > LONGEST_CONTEXT)
        made.add(
            cut + " ".join([label.of(symbol) for symbol in one.context[-LONGEST_CONTEXT:]]),
            Cell(f"→ {label.of(one.target)}", "bold"),
            cut + " ".join(map(str, one.context_indices[-LONGEST_CONTEXT:])),
            Cell(f"→ {one.target_index}", "bold"),
        )
    return made


def _tensor_table(tensors: Sequence[AxisSizes]) -> Table:
    made = Table("tensor", *right("shape"), "axes")
    for one in tensors:
        made.add(one.name, str(one.shape), ", ".join(one.axes))
    return made


def _costs_words(listing: TokenListing) -> str:
    part = count_of(listing.n_characters, "character")
    if listing.n_costed < listing.n_characters:
        part = f"the first {listing.n_costed:,} of {listing.n_characters:,} characters"
    return f"Costs of {part} as one sequence, for {count_of(listing.n_layers, 'layer')} of width {listing.width}"


def _cost_table(listing: TokenListing) -> Table:
    columns = right("tokens", "symbols", "attention", "× least", "linear", "both × least")
    columns[-2] = columns[-2]._replace(spare=1)
    made = Table("cut into", *columns)
    for one in listing.costs:
        made.add(
            "byte pairs" if one.name == "bpe" else one.name,
            f"{one.n_tokens:,}",
            f"{one.vocab_size:,}",
            f"{with_prefix(one.attention_flops)}FLOPs",
            f"{one.attention_ratio:.1f}",
            f"{with_prefix(one.linear_flops)}FLOPs",
            f"{one.total_ratio:.1f}",
            style="bold" if one.name == listing.tokens else "",
        )
    return made


def _ratio_words(listing: TokenListing) -> str:
    by_name = {one.name: one for one in listing.costs}
    characters, words = by_name["characters"], by_name["words"]
    times = characters.attention_flops / words.attention_flops
    return (
        f"{count_of(characters.n_tokens, 'character')} against {count_of(words.n_tokens, 'word')}: "
        f"{times:.1f} times the work for attention"
    )
