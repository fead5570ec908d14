"""Exclusive or: the smallest task that no single neuron can do."""

from pellucid.data.kinds import TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of, require_count


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
    frame = polars.DataFrame({"x1": x1, "x2": x2, "y": y})
    kinds = dict.fromkeys(frame.columns, "numeric")
    because = f"generated, seed {seed}, noise {noise:g}"
    return dataset_table("xor", frame, kinds, because, fingerprint_of(x1, x2, y), target="y")


DATASET = DatasetCard(
    name="xor",
    kind="table",
    summary="x1, x2 and whether exactly one of them is 1",
    source="the truth table of exclusive or",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
