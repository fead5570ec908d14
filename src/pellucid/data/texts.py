"""Running text, of any size."""

from pellucid.data.decoding import Scan, notes_of
from pellucid.data.kinds import TextData
from pellucid.data.sources import Source
from pellucid.errors import PellucidError, quoted


def read_text(source: Source, scan: Scan, *, encoding: str, newlines: str, because: str) -> TextData:
    """A text that is read in pieces when it is used."""
    if scan.only_symbol:
        raise PellucidError(
            f"{source.name} holds only one distinct symbol, {quoted(scan.only_symbol)}",
            fix="There is nothing to learn from it; check that it is the file you meant",
        )
    reason = f" ({because})" if because else ""
    nul = scan.first_nul >= 0
    return TextData(
        name=source.name,
        source=source,
        encoding=encoding,
        newlines=newlines,
        n_characters=scan.n_characters,
        first_nul=scan.first_nul,
        said=f"{source.name}: running text of {scan.n_characters:,} characters{reason}; "
        "--kind list to read each line as an item",
        fingerprint=scan.fingerprint,
        notes=(
            *notes_of(scan, newlines),
            *([f"a NUL at character {scan.first_nul + 1:,}; only --tokens bytes can take it"] if nul else []),
        ),
    )
