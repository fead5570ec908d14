"""Palmer penguins: 344 rows with missing values, three species to tell apart."""

from pellucid.data.kinds import ReadOptions, TableData
from pellucid.data.readers.sources import MemorySource
from pellucid.data.sets import DatasetCard, read_embedded

ROWS = 344


def load(seed: int = 0, n: int = ROWS) -> TableData:
    """The first n penguins."""
    from pellucid.data.readers.csv import read_csv

    lines = read_embedded("penguins.csv.gz").splitlines(keepends=True)
    source = MemorySource("penguins", b"".join(lines[: n + 1]))
    return read_csv(source, ReadOptions(separator=","), "comes with pellucid")


DATASET = DatasetCard(
    name="penguins",
    kind="table",
    summary="344 penguins of three species: island, bill, flipper, body mass, sex and year, with missing cells",
    source="Gorman, Williams and Fraser 2014, doi:10.1371/journal.pone.0090081; Palmer Station, Antarctica; "
    "published as palmerpenguins by Horst, Hill and Gorman",
    licence="CC0",
    is_generated=False,
    load=load,
)
