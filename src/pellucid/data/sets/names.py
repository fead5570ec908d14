"""30,000 given names, the most frequent first."""

import csv
import hashlib
import io
from typing import NamedTuple

from pellucid.data.card import DatasetCard
from pellucid.data.kinds import Column, ListData, TableData
from pellucid.data.shipped import shipped


class Births(NamedTuple):
    """How many children were given a name, 1880 to 2015."""

    name: str
    female: int
    male: int


def births() -> list[Births]:
    """Every name with its counts. `nan` and `true` are among them: nothing here guesses types."""
    rows = csv.reader(io.StringIO(shipped("names.csv.gz").decode("ascii")))
    next(rows)
    return [Births(name, int(female), int(male)) for name, female, male in rows]


def load(seed: int = 0, n: int = 30_000) -> ListData:
    """The n most frequent names."""
    items = [row.name for row in births()[:n]]
    return ListData(
        name="names",
        items=items,
        said=f"names: a list of {len(items):,} items (comes with pellucid)",
        fingerprint=hashlib.sha256("\n".join(items).encode()).hexdigest(),
    )


def load_table(seed: int = 0, n: int = 30_000) -> TableData:
    """The n most frequent names with their counts, as a table."""
    import polars

    rows = births()[:n]
    content = "\n".join(f"{row.name},{row.female},{row.male}" for row in rows)
    return TableData(
        name="names",
        frame=polars.DataFrame(rows, schema=list(Births._fields), orient="row"),
        columns=(Column("name", "text", 0), Column("female", "numeric", 0), Column("male", "numeric", 0)),
        said=f"names: a table of {len(rows):,} rows and 3 columns (comes with pellucid)",
        fingerprint=hashlib.sha256(content.encode()).hexdigest(),
        row_word="row",
    )


DATASET = DatasetCard(
    name="names",
    kind="list",
    says="30,000 given names of the United States, the most frequent first; as a table with how many children got each",
    source="United States Social Security Administration, national data on given names, births 1880–2015; the 30,000 "
    "most frequent, 99.3 % of all births, placeholders such as 'unknown' removed",
    licence="a work of the United States government, in the public domain",
    is_generated=False,
    load=load,
    also={"table": load_table},
)
