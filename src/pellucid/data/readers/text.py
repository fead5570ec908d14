"""Text files as lists (one item a line), pairs (source TAB target) or running text of any size."""

from pellucid.data.kinds import ListData, PairsData, ReadOptions, TextData
from pellucid.data.readers.encodings import Scan, characters, notes_of, scan_text
from pellucid.data.readers.sources import Source, require_memory
from pellucid.errors import PellucidError, quoted

# A short str takes about 60 bytes and its place in the list 8.
BYTES_EACH = 70


def read_list(source: Source, options: ReadOptions, because: str = "") -> ListData:
    """The lines that hold something, without their line ends."""
    found = scan_text(source, options.encoding)
    require_memory(
        found.n_lines * BYTES_EACH + 2 * source.size,
        source.name,
        "Try {kind}, which is read in pieces",
        options={"kind": "text"},
    )
    if found.first_nul >= 0:
        raise PellucidError(
            f"there is a NUL in {source.name}",
            where=f"at character {found.first_nul + 1:,}",
            fix="Remove it, or use {kind} and {tokens}",
            options={"kind": "text", "tokens": "bytes"},
        )
    # An old Mac's list: its line ends are CR and nothing else.
    newlines = "unix" if found.n_cr and not found.n_lf else options.newlines
    lines = "".join(characters(source, options.encoding, newlines)).split("\n")
    if newlines == "keep":
        # Whoever ends lines with CRLF does not mean the CR to be the last letter of every name.
        lines = [line.removesuffix("\r") for line in lines]
    items = [line for line in lines if line.strip()]
    if not items:
        raise PellucidError(f"{source.name} holds no item, only empty lines", fix="Write one item a line")
    n_empty = len(lines) - (not lines[-1]) - len(items)
    n_repeats = len(items) - len(set(items))
    n_spaced = sum(item != item.strip() for item in items)
    return ListData(
        name=source.name,
        items=items,
        because=because,
        fingerprint=found.fingerprint,
        notes=(
            *_line_ends(found, newlines),
            *_counted(n_empty, "empty lines were left out"),
            *_counted(n_repeats, f"of the {len(items):,} items repeat an earlier one"),
            *_counted(n_spaced, "items begin or end with white space, which is kept"),
        ),
    )


def read_text(source: Source, options: ReadOptions, because: str = "") -> TextData:
    """A text that is read in pieces when it is used."""
    found = scan_text(source, options.encoding)
    if found.only_symbol:
        raise PellucidError(
            f"{source.name} holds only one distinct symbol, {quoted(found.only_symbol)}",
            fix="There is nothing to learn from it; check that it is the file you meant",
        )
    nul = f"a NUL at character {found.first_nul + 1:,}; only --tokens bytes can take it"
    return TextData(
        name=source.name,
        source=source,
        encoding=options.encoding,
        newlines=options.newlines,
        n_characters=found.n_characters,
        first_nul=found.first_nul,
        because=because,
        fingerprint=found.fingerprint,
        notes=(*notes_of(found, options.newlines), *([nul] if found.first_nul >= 0 else [])),
    )


def read_pairs(source: Source, options: ReadOptions, because: str = "") -> PairsData:
    """Every line as (source, target); a line with another number of tabs is named."""
    found = scan_text(source, options.encoding)
    require_memory(found.n_lines * 200 + 2 * source.size, source.name, "Give a smaller file")
    lines = "".join(characters(source, options.encoding, options.newlines)).split("\n")
    pairs: list[tuple[str, str]] = []
    n_empty = 0
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if line.strip():
            pairs.append(_pair(line, f"in {source.name}:{number}"))
        else:
            n_empty += number < len(lines)
    if not pairs:
        raise PellucidError(f"{source.name} holds no pair, only empty lines", fix="Write source, one tab, target")
    targets: dict[str, str] = {}
    n_torn = sum(targets.setdefault(before, after) != after for before, after in pairs)
    n_repeats = len(pairs) - len(set(pairs))
    return PairsData(
        name=source.name,
        pairs=pairs,
        because=because,
        fingerprint=found.fingerprint,
        notes=(
            *notes_of(found, options.newlines),
            *_counted(n_empty, "empty lines were left out"),
            *_counted(n_repeats, f"of the {len(pairs):,} pairs repeat an earlier one"),
            *_counted(n_torn, "pairs give a source another target than before"),
        ),
    )


def _pair(line: str, where: str) -> tuple[str, str]:
    parts = line.split("\t")
    fix = "Write source, one tab, target"
    if len(parts) != 2:
        raise PellucidError(f"{len(parts) - 1} tabs stand where 1 is wanted, in {quoted(line)}", where=where, fix=fix)
    if not parts[0] or not parts[1]:
        raise PellucidError(f"the {'target' if parts[0] else 'source'} is empty", where=where, fix=fix)
    if "\0" in line:
        raise PellucidError("there is a NUL", where=where, fix="Remove it")
    return parts[0], parts[1]


def _counted(n: int, what: str) -> list[str]:
    return [f"{n:,} {what}"] if n else []


def _line_ends(found: Scan, newlines: str) -> tuple[str, ...]:
    notes = notes_of(found, newlines)
    if newlines == "keep" and found.n_crlf and not (found.n_cr or found.n_separators):
        return (
            *(note for note in notes if "CRLF" not in note),
            f"{found.n_crlf:,} lines end in CRLF, which was left out",
        )
    return notes
