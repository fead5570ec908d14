"""Lists: one item a line."""

from pellucid.data.decoding import Scan, characters, notes_of
from pellucid.data.kinds import ListData
from pellucid.data.memory import require_memory
from pellucid.data.sources import Source
from pellucid.errors import PellucidError

# A short str takes about 60 bytes and its place in the list 8.
BYTES_EACH = 70


def read_list(source: Source, scan: Scan, *, encoding: str, newlines: str, because: str) -> ListData:
    """The lines that hold something, without their line ends."""
    require_memory(scan.n_lines * BYTES_EACH + 2 * source.size, source.name, "Try --kind text, which is read in pieces")
    if scan.first_nul >= 0:
        raise PellucidError(
            f"there is a NUL in {source.name}",
            where=f"at character {scan.first_nul + 1:,}",
            fix="Remove it, or use --kind text --tokens bytes",
        )
    if scan.n_cr and not scan.n_lf:
        newlines = "unix"  # an old Mac's list: its line ends are CR and nothing else
    lines = "".join(characters(source, encoding, newlines)).split("\n")
    if newlines == "keep":
        # Whoever ends lines with CRLF does not mean the CR to be the last letter of every name.
        lines = [line.removesuffix("\r") for line in lines]
    items = [line for line in lines if line.strip()]
    if not items:
        raise PellucidError(f"{source.name} holds no item, only empty lines", fix="Write one item a line")
    reason = f" ({because})" if because else ""
    return ListData(
        name=source.name,
        items=items,
        said=f"{source.name}: a list of {len(items):,} item{'s' if len(items) > 1 else ''}{reason}; "
        "--kind text to read it as running text",
        fingerprint=scan.fingerprint,
        notes=(*_line_ends(scan, newlines), *notes_on(items, len(lines) - (not lines[-1]))),
    )


def notes_on(items: list[str], n_lines: int) -> tuple[str, ...]:
    """What whoever splits or trains on these items should know."""
    notes = []
    if n_lines > len(items):
        notes.append(f"{n_lines - len(items):,} empty lines were left out")
    repeats = len(items) - len(set(items))
    if repeats:
        notes.append(f"{repeats:,} of the {len(items):,} items repeat an earlier one")
    spaced = sum(item != item.strip() for item in items)
    if spaced:
        notes.append(f"{spaced:,} items begin or end with white space, which is kept")
    return tuple(notes)


def _line_ends(scan: Scan, newlines: str) -> tuple[str, ...]:
    notes = notes_of(scan, newlines)
    if newlines == "keep" and scan.n_crlf and not (scan.n_cr or scan.n_separators):
        return (
            *(note for note in notes if "CRLF" not in note),
            f"{scan.n_crlf:,} lines end in CRLF, which was left out",
        )
    return notes
