"""30,000 given names, the most frequent first."""

import csv
import hashlib
import io
from typing import NamedTuple

from pellucid.data.kinds import ListData, TableData
from pellucid.data.sets import DatasetCard, dataset_table, read_embedded


class NameBirths(NamedTuple):
    """How many children were given a name, 1880 to 2015."""

    name: str
    female: int
    male: int


def births() -> list[NameBirths]:
    """Every name with its counts. `nan` and `true` are among them: nothing here guesses types."""
    rows = csv.reader(io.StringIO(read_embedded("names.csv.gz").decode("ascii")))
    next(rows)
    return [NameBirths(name, int(female), int(male)) for name, female, male in rows]


def load(seed: int = 0, n: int = 30_000) -> ListData:
    """The n most frequent names."""
    lines = read_embedded("names.csv.gz").decode("ascii").splitlines()[1 : n + 1]
    items = [line.partition(",")[0] for line in lines]  # none is quoted; rows with counts take five times as long
    return ListData(
        name="names",
        items=items,
        because="comes with pellucid",
        fingerprint=hashlib.sha256("\n".join(items).encode()).hexdigest(),
    )


def load_birth_table(seed: int = 0, n: int = 30_000) -> TableData:
    """The n most frequent names with their counts, as a table."""
    import polars

    rows = births()[:n]
    content = "\n".join(f"{row.name},{row.female},{row.male}" for row in rows)
    frame = polars.DataFrame(rows, schema=list(NameBirths._fields), orient="row")
    kinds = {"name": "text", "female": "numeric", "male": "numeric"}
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return dataset_table("names", frame, kinds, "comes with pellucid", fingerprint)


DATASET = DatasetCard(
    name="names",
    kind="list",
    summary="30,000 given names of the United States, the most frequent first; as a table with how many "
    "children got each",
    source="United States Social Security Administration, national data on given names, births 1880–2015; the 30,000 "
    "most frequent, 99.3 % of all births, placeholders such as 'unknown' removed",
    licence="a work of the United States government, in the public domain",
    is_generated=False,
    load=load,
    also={"table": load_birth_table},
)
