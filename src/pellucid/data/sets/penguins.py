"""Palmer penguins: 344 rows with missing values, three species to tell apart."""

from dataclasses import replace

from pellucid.data.card import DatasetCard
from pellucid.data.kinds import TableData
from pellucid.data.shipped import shipped
from pellucid.data.sources import MemorySource

ROWS = 344


def load(seed: int = 0, n: int = ROWS) -> TableData:
    """The first n penguins."""
    from pellucid.data.tables import read_table

    lines = shipped("penguins.csv.gz").splitlines(keepends=True)
    table = read_table(
        MemorySource("penguins", b"".join(lines[: n + 1])),
        ending=".csv",
        because="comes with pellucid",
        encoding="utf-8",
        separator=",",
        missing_values="usual",
        as_number=(),
    )
    return replace(table, said=table.said.partition(";")[0])


DATASET = DatasetCard(
    name="penguins",
    kind="table",
    says="344 penguins of three species: island, bill, flipper, body mass, sex and year, with missing cells",
    source="Gorman, Williams and Fraser 2014, doi:10.1371/journal.pone.0090081; Palmer Station, Antarctica; "
    "published as palmerpenguins by Horst, Hill and Gorman",
    licence="CC0",
    is_generated=False,
    load=load,
)
