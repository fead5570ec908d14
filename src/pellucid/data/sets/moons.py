"""Two half moons that reach into each other: no straight line tells them apart."""

from pellucid.data.kinds import TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of, require_count


def load(seed: int = 0, n: int = 1_000, noise: float = 0.1) -> TableData:
    """n points, by turns on the upper and the lower moon, moved by Gaussian noise.

    The upper moon is (cos t, sin t), the lower one (1 - cos t, 1/2 - sin t), with t uniform from 0 to π.
    """
    import numpy
    import polars

    require_count(n, "points", most=10_000_000)
    angle = numpy.random.default_rng([seed, 0]).uniform(0.0, numpy.pi, n)
    is_lower = numpy.arange(n) % 2 == 1
    x = numpy.where(is_lower, 1.0 - numpy.cos(angle), numpy.cos(angle))
    y = numpy.where(is_lower, 0.5 - numpy.sin(angle), numpy.sin(angle))
    moved = numpy.random.default_rng([seed, 1]).normal(0.0, noise, (n, 2))
    x, y = x + moved[:, 0], y + moved[:, 1]
    moon = polars.Series(["upper", "lower"]).gather(polars.Series(is_lower.astype(numpy.uint32)))
    frame = polars.DataFrame({"x": x, "y": y, "moon": moon})
    kinds = {"x": "numeric", "y": "numeric", "moon": "category"}
    because = f"generated, seed {seed}, noise {noise:g}"
    return dataset_table("moons", frame, kinds, because, fingerprint_of(x, y), target="moon")


DATASET = DatasetCard(
    name="moons",
    kind="table",
    summary="points on two half moons with noise: x, y and which moon",
    source="made by pellucid, in the form of scikit-learn's make_moons",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
