"""1,797 handwritten digits of 8×8 pixels, which come with scikit-learn."""

from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import PixelsData, TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    import numpy

IMAGES = 1_797


def load(seed: int = 0, n: int = IMAGES) -> PixelsData:
    """The first n digits, gray levels 0 to 16 stretched to 0 to 255."""
    import numpy

    levels, labels = _digits(n)
    pixels = numpy.rint(levels * (255 / 16)).astype(numpy.uint8)
    return PixelsData(
        name="digits",
        pixels=pixels,
        labels=labels,
        classes=tuple("0123456789"),
        because="comes with scikit-learn",
        fingerprint=fingerprint_of(pixels, labels),
    )


def load_pixel_table(seed: int = 0, n: int = IMAGES) -> TableData:
    """The same as a table: 64 gray levels from 0 to 16, and the digit."""
    import polars

    levels, labels = _digits(n)
    names = [f"p{row}{column}" for row in range(8) for column in range(8)]
    flat = levels.reshape(len(labels), 64)
    frame = polars.DataFrame({name: flat[:, i] for i, name in enumerate(names)})
    frame = frame.with_columns(polars.Series("digit", [str(label) for label in labels]))
    kinds = {**dict.fromkeys(names, "numeric"), "digit": "category"}
    return dataset_table(
        "digits", frame, kinds, "comes with scikit-learn", fingerprint_of(flat, labels), target="digit"
    )


def _digits(n: int) -> "tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]":
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise PellucidError(
            "the digits come with scikit-learn, which is missing", fix="pip install scikit-learn"
        ) from error
    found = load_digits()
    return found.images[:n], found.target[:n]


DATASET = DatasetCard(
    name="digits",
    kind="images",
    summary="1,797 handwritten digits as 8×8 gray images",
    source="Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, "
    "doi:10.24432/C50P49; the test part, as scikit-learn ships it",
    licence="CC BY 4.0",
    is_generated=False,
    load=load,
    also={"table": load_pixel_table},
)
