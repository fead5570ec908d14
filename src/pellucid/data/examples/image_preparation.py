"""How images become numbers: size, gray or colour, and the mean and deviation of each channel on train."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pellucid.data.readers.images import LARGEST_FILE
from pellucid.data.readers.pictures import decode_image, find_trouble
from pellucid.data.readers.sources import FileSource, read_all
from pellucid.errors import PellucidError

LARGEST_SIDE = 1 << 12  # pixels; more is a mistake
Pixels = NDArray[np.uint8]  # (image, height, width) or (image, height, width, 3)


@dataclass(frozen=True)
class ImagePreparation:
    """What of an image a network reads.

    >>> gray = ImagePreparation(size=(2, 1), mode="gray", mean=(100.0,), deviation=(50.0,), classes=("cat", "dog"))
    >>> gray.read(np.array([[[50, 200]]], dtype=np.uint8)).tolist()
    [[[[-1.0, 2.0]]]]
    """

    kind: ClassVar[str] = "images"
    size: tuple[int, int]  # (width, height)
    mode: str  # "gray" or "rgb"
    mean: tuple[float, ...]  # of each channel on train
    deviation: tuple[float, ...]
    classes: tuple[str, ...]
    task: str = "classification"

    @property
    def numbers_shape(self) -> tuple[int, ...]:
        return (len(self.mean), self.size[1], self.size[0])

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    def read(self, pixels: Pixels) -> NDArray[np.float32]:
        """(image, height, width[, 3]), 0 to 255 -> (image, channels, height, width), standardised."""
        channels = in_channels(pixels)
        if channels.shape[1:] != self.numbers_shape:
            height, width = channels.shape[2:]
            raise PellucidError(
                f"the images are {width}×{height} with {channels.shape[1]} channels, and the network reads "
                f"{self.size[0]}×{self.size[1]} {self.mode}",
                fix="Give images like those it was trained on",
            )
        mean, deviation = (
            np.array(values, dtype=np.float32).reshape(-1, 1, 1) for values in (self.mean, self.deviation)
        )
        numbers = channels.astype(np.float32)
        numbers -= mean
        numbers /= deviation
        return numbers

    def pixels_of(self, paths: Sequence[Path]) -> Pixels:
        """Image files as pixels of this size and mode, whatever theirs are; one that cannot be read is named."""
        shape = (len(paths), self.size[1], self.size[0]) + ((3,) if self.mode == "rgb" else ())
        pixels = np.zeros(shape, dtype=np.uint8)
        for place, path in enumerate(paths):
            source = FileSource(path)
            is_too_large = source.size > LARGEST_FILE
            content = b"" if is_too_large else read_all(source)
            trouble = f"larger than {LARGEST_FILE >> 20} MB" if is_too_large else find_trouble(content)[3]
            if trouble:
                raise PellucidError(f"the image {source.name} cannot be read: {trouble}", fix="Mend or replace it")
            pixels[place] = decode_image(content, self.mode, self.size)
        return pixels

    def to_json(self) -> dict[str, Any]:
        """What `preparation_from_json` takes."""
        return {
            "kind": self.kind,
            "size": list(self.size),
            "mode": self.mode,
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "classes": list(self.classes),
            "task": self.task,
        }


def in_channels(pixels: Pixels) -> Pixels:
    """(image, height, width[, 3]) -> (image, channels, height, width)."""
    return np.moveaxis(pixels, -1, 1) if pixels.ndim == 4 else pixels[:, None]


def channel_statistics(pixels: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the deviation of each channel; the deviation of a channel without contrast is 1.

    >>> channel_statistics(np.array([[[0, 100]]], dtype=np.uint8)), channel_statistics(np.zeros((1, 1, 1), np.uint8))
    (((50.0,), (50.0,)), ((0.0,), (1.0,)))
    """
    levels = np.arange(256)
    means, deviations = [], []
    for channel in np.moveaxis(in_channels(pixels), 1, 0):
        # By how often each of 256 levels occurs: exact, and no array of floats as large as the data.
        share = np.bincount(channel.reshape(-1), minlength=256) / channel.size
        mean = float(share @ levels)
        means.append(mean)
        deviations.append(float(np.sqrt(share @ (levels - mean) ** 2)) or 1.0)
    return tuple(means), tuple(deviations)


def converted(pixels: Pixels, size: tuple[int, int], mode: str) -> Pixels:
    """Pixels in another size or mode, by the one conversion that files go through."""
    from PIL import Image

    if pixels.shape[1:] == (size[1], size[0]) + ((3,) if mode == "rgb" else ()):
        return pixels
    changed = []
    for picture in pixels:
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "PNG", compress_level=0)
        changed.append(decode_image(file.getvalue(), mode, size))
    return np.stack(changed)
