"""Exclusive or: the smallest task that no single neuron can do."""

from pellucid.data.card import DatasetCard
from pellucid.data.generated import fingerprint_of, require_count
from pellucid.data.kinds import Column, TableData


def load(seed: int = 0, n: int = 4, noise: float = 0.0) -> TableData:
    """The four corners of the square, again and again; with noise, points around them.

    >>> load().frame.rows()
    [(0.0, 0.0, 0), (0.0, 1.0, 1), (1.0, 0.0, 1), (1.0, 1.0, 0)]
    """
    import numpy
    import polars

    require_count(n, "points", most=10_000_000)
    corner = numpy.arange(n) % 4
    moved = numpy.random.default_rng([seed, 0]).normal(0.0, noise, (n, 2))
    x1, x2 = corner // 2 + moved[:, 0], corner % 2 + moved[:, 1]
    y = (corner // 2) ^ (corner % 2)
    return TableData(
        name="xor",
        frame=polars.DataFrame({"x1": x1, "x2": x2, "y": y}),
        columns=(Column("x1", "numeric", 0), Column("x2", "numeric", 0), Column("y", "numeric", 0)),
        said=f"xor: a table of {n:,} rows and 3 columns (generated, seed {seed}, noise {noise:g})",
        fingerprint=fingerprint_of(x1, x2, y),
        row_word="row",
    )


DATASET = DatasetCard(
    name="xor",
    kind="table",
    says="x1, x2 and whether exactly one of them is 1",
    source="the truth table of exclusive or",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
