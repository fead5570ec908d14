"""A polynomial without noise: whatever error is left is the model's own."""

from pellucid.data.kinds import TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of, require_count


def load(seed: int = 0, n: int = 1_000, n_inputs: int = 4, reach: float = 2.0) -> TableData:
    """n rows of x1, x2, ... uniform from -reach to reach, and y = Σ (xᵢ³ + 3 xᵢ² + 3).

    >>> row = load(n=1, n_inputs=1).frame.rows()[0]
    >>> row[1] == row[0] ** 3 + 3 * row[0] ** 2 + 3
    True
    """
    import numpy
    import polars

    require_count(n, "rows", most=10_000_000)
    require_count(n_inputs, "inputs", most=1_000)
    x = numpy.random.default_rng([seed, 0]).uniform(-reach, reach, (n, n_inputs))
    y = (x**3 + 3 * x**2 + 3).sum(axis=1)
    names = [f"x{i + 1}" for i in range(n_inputs)]
    frame = polars.DataFrame({**{name: x[:, i] for i, name in enumerate(names)}, "y": y})
    kinds = dict.fromkeys((*names, "y"), "numeric")
    return dataset_table("polynomial", frame, kinds, f"generated, seed {seed}", fingerprint_of(x, y), target="y")


DATASET = DatasetCard(
    name="polynomial",
    kind="table",
    summary="y = Σ (xᵢ³ + 3 xᵢ² + 3), without noise, to watch a regression fit",
    source="the formula itself",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
