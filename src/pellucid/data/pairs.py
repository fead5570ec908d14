"""Pairs: source TAB target, one pair a line."""

from pellucid.data.decoding import Scan, characters, notes_of
from pellucid.data.kinds import PairsData
from pellucid.data.memory import require_memory
from pellucid.data.sources import Source
from pellucid.errors import PellucidError, quoted


def read_pairs(source: Source, scan: Scan, *, encoding: str, newlines: str, because: str) -> PairsData:
    """Every line as (source, target); a line with another number of tabs is named."""
    require_memory(scan.n_lines * 200 + 2 * source.size, source.name, "Give a smaller file")
    lines = "".join(characters(source, encoding, newlines)).split("\n")
    pairs: list[tuple[str, str]] = []
    n_empty = 0
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if not line.strip():
            n_empty += number < len(lines)
            continue
        parts = line.split("\t")
        if len(parts) != 2:
            raise PellucidError(
                f"{len(parts) - 1} tabs stand where 1 is wanted, in {quoted(line)}",
                where=f"in {source.name}:{number}",
                fix="Write source, one tab, target",
            )
        if not parts[0] or not parts[1]:
            side = "source" if not parts[0] else "target"
            raise PellucidError(
                f"the {side} is empty", where=f"in {source.name}:{number}", fix="Write source, one tab, target"
            )
        if "\0" in line:
            raise PellucidError("there is a NUL", where=f"in {source.name}:{number}", fix="Remove it")
        pairs.append((parts[0], parts[1]))
    if not pairs:
        raise PellucidError(f"{source.name} holds no pair, only empty lines", fix="Write source, one tab, target")
    targets: dict[str, str] = {}
    n_torn = sum(targets.setdefault(before, after) != after for before, after in pairs)
    repeats = len(pairs) - len(set(pairs))
    reason = f" ({because})" if because else ""
    return PairsData(
        name=source.name,
        pairs=pairs,
        said=f"{source.name}: {len(pairs):,} pairs{reason}; --kind table to read it as a table",
        fingerprint=scan.fingerprint,
        notes=(
            *notes_of(scan, newlines),
            *([f"{n_empty:,} empty lines were left out"] if n_empty else []),
            *([f"{repeats:,} of the {len(pairs):,} pairs repeat an earlier one"] if repeats else []),
            *([f"{n_torn:,} pairs give a source another target than before"] if n_torn else []),
        ),
    )
