"""How images are measured for the figures of the vision transformer: cut into patches, or read by a run's network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.measured import Asked, Measured
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import numpy

    from pellucid.records.pictured import Colours

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
FITTED = 96  # pixels of the side to which a picture of any size is fitted
PATCHES = 4  # on a side, where nothing else is asked for


def _patches(asked: Asked) -> Measured:
    from pellucid.records import PatchesShown

    pixels, said = _picture(asked)
    height, width = pixels.shape[:2]
    patch = max(1, min(height, width) // PATCHES) if asked.patch is None else asked.patch
    if height % patch or width % patch:
        sides = [side for side in range(1, min(height, width) + 1) if height % side == 0 and width % side == 0]
        near = min(sides, key=lambda side: (abs(side - patch), side))
        raise PellucidError(
            f"patches of {patch} pixels do not fill {width}×{height}", fix=f"The nearest side that does is {near}"
        )
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return Measured(PatchesShown(said, colours_of(pixels), patch, channels), ())


def _picture(asked: Asked) -> tuple[numpy.ndarray[Any, Any], str]:
    """One image as numbers: of a file, or the first of a set."""
    source = asked.source or "digits"
    if Path(source).suffix.lower() in ENDINGS and Path(source).is_file():
        return _fitted(Path(source)), f"{quoted(Path(source).name)}, fitted to {FITTED}×{FITTED}"
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData

    data = open_data(source, kind=asked.kind, encoding=asked.encoding)
    require_kind(data, "images")
    if isinstance(data, PixelsData):
        return data.pixels[0], f"The first image of {data.name}, a {data.classes[data.labels[0]]}"
    assert isinstance(data, ImagesData)
    first = data.files[0]
    return _fitted(first.path), f"The first image of {data.name}, a {first.label}, fitted to {FITTED}×{FITTED}"


def _fitted(path: Path) -> numpy.ndarray[Any, Any]:
    from pellucid.data.pictures import decoded, trouble_of

    content = path.read_bytes()
    *_, trouble = trouble_of(content)
    if trouble:
        raise PellucidError(f"{quoted(path.name)} cannot be read: {trouble}", fix="Give another image")
    return decoded(content, "rgb", (FITTED, FITTED))


def colours_of(pixels: numpy.ndarray[Any, Any]) -> Colours:
    """(height, width) or (height, width, 3) of 0 to 255, as rows of colours."""
    rows = pixels.tolist()
    if pixels.ndim == 2:
        return tuple(tuple(f"#{level:02x}{level:02x}{level:02x}" for level in row) for row in rows)
    return tuple(tuple("#" + "".join(f"{part:02x}" for part in pixel) for pixel in row) for row in rows)


MEASURES: dict[str, Callable[[Asked], Measured]] = {"PatchesShown": _patches}
