"""A folder that `pellucid split` wrote: its parts as one, with the side that each row stands on.

split.json names the parts and their SHA-256; a part that changed since is refused.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy

from pellucid.data.kinds import KINDS, Data, ListData, PairsData, ReadOptions, TableData, load_named
from pellucid.data.readers.sources import FileSource, read_all
from pellucid.data.splits import SIDES, SplitRequest
from pellucid.errors import PellucidError, quoted
from pellucid.records.packed_texts import PackedTexts

DOCUMENT = "split.json"
LARGEST_DOCUMENT = 1 << 28


def read_split_folder(folder: Path, options: ReadOptions) -> ListData | PairsData | TableData:
    """Its train, dev and test parts, one behind the other; or train and test, where no dev side was asked for."""
    kind, digests, request = _described_parts(folder)
    parts: list[Data] = []
    for name, digest in digests.items():
        source = FileSource(folder / name)
        if hashlib.sha256(read_all(source)).hexdigest() != digest:
            raise PellucidError(
                f"{quoted(name)} in {quoted(folder.name)} is not what was written there", fix="Divide the data again"
            )
        parts.append(load_named(KINDS[kind].reader)(source, replace(options, fewest_rows=1), ""))
    numbers = [SIDES.index(side) for side in request.sides]
    sides = numpy.repeat(numpy.array(numbers, dtype=numpy.int8), [len(part) for part in parts])
    about: dict[str, Any] = {
        "name": folder.name,
        "because": f"divided before: {', '.join(digests)}",
        "fingerprint": hashlib.sha256("".join(digests.values()).encode()).hexdigest(),
        "sides": sides,
        "divided_by": request,
    }
    if kind == "list":
        items = PackedTexts.of(item for part in parts if isinstance(part, ListData) for item in part.items)
        return ListData(items=items, **about)
    if kind == "pairs":
        return PairsData(pairs=[pair for part in parts if isinstance(part, PairsData) for pair in part.pairs], **about)

    from pellucid.data.readers.columns import stack_tables

    table = stack_tables([part for part in parts if isinstance(part, TableData)])
    return replace(table, **about)


def _described_parts(folder: Path) -> tuple[str, dict[str, str], SplitRequest]:
    """The kind of the data, the name and digest of each part in the order of the sides, and how they were divided."""
    damaged = PellucidError(f"{DOCUMENT} in {quoted(folder.name)} is damaged", fix="Divide the data again")
    source = FileSource(folder / DOCUMENT)
    if source.size > LARGEST_DOCUMENT:
        raise damaged
    try:
        document = json.loads(read_all(source))
        kind = str(document["data"]["kind"])
        digests = {str(name): str(part["sha256"]) for name, part in document["parts"].items()}
        report = document["report"]
        request = SplitRequest.from_settings(report["settings"], report["fractions"])
    except (PellucidError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged from error
    # A folder may come from someone else: it names no file but its own.
    named = {name.partition(".")[0]: name for name in digests if Path(name).name == name}
    if kind not in ("list", "pairs", "table") or sorted(named) != sorted(request.sides):
        raise damaged
    return kind, {named[side]: digests[named[side]] for side in request.sides}, request
