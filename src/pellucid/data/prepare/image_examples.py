"""Images as numbers, on three sides: size, gray or colour, and the mean and deviation of each channel on train.

Size, where none is asked for: that of the images if all have the same and it is between 8 and 64 pixels on both sides,
otherwise 32×32, which keeps proportions and fills up with white. Mode, where none is asked for: rgb if any of 100
images, taken evenly from all, has colour, which is a pixel whose channels differ by more than 8 of 255; else gray.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import COLOURS, ImagesData, PixelsData
from pellucid.data.prepare.examples import (
    Examples,
    ExampleSides,
    damaged_preparation,
    divide_examples,
    require_scale,
    require_task,
)
from pellucid.data.readers.images import LARGEST_FILE, decode_image, decode_images, find_trouble
from pellucid.data.readers.sources import FileSource, read_all, require_memory
from pellucid.data.splits.hashing import Words
from pellucid.errors import PellucidError, require_one_of
from pellucid.records import SplitChoice, Statement, make_note

Pixels = NDArray[np.uint8]  # (image, height, width) or (image, height, width, 3)
LARGEST_SIDE = 1 << 12  # pixels; more is a mistake
USUAL_SIDES = range(8, 65)  # pixels that small networks are made for
USUAL_SIZE = (32, 32)
LOOKED_AT = 100  # images, to see whether there is colour
COLOUR = 8  # of 255; JPEG moves the channels of a gray image apart by less


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


def convert_pixels(pixels: Pixels, size: tuple[int, int], mode: str) -> Pixels:
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


def image_sides(
    data: ImagesData | PixelsData, *, size: tuple[int, int] | None = None, mode: str = "", task: str = "classification"
) -> ExampleSides:
    """Images on three sides, by the hash of their pixels. size: (width, height); mode: "gray", "rgb" or "" for either.

    >>> from pellucid.data import open_data
    >>> sides = image_sides(open_data("digits"))
    >>> sides.train.numbers.shape, sides.preparation.mode, len(sides.dev), len(sides.test)
    ((1465, 1, 8, 8), 'gray', 175, 157)
    """
    if mode:
        require_one_of("colour mode", mode, COLOURS)
    if size and not all(1 <= side <= LARGEST_SIDE for side in size):
        raise PellucidError(f"{size[0]}×{size[1]} is no size for images", fix=f"Choose 1 to {LARGEST_SIDE:,} pixels")
    images, notes = _in_pixels(data, size, mode)
    pixels, labels = images.pixels, images.labels.astype(np.int64)
    single = int((np.bincount(labels, minlength=len(data.classes)) == 1).sum())
    if single:
        notes.append(make_note("single-images", n=single))
    hashes = pixel_hashes(pixels)
    places = divide_examples(hashes, labels, data.divided_by)
    n_different = 0 if len(places["dev"]) else len(np.unique(hashes))
    mean, deviation = channel_statistics(pixels[places["train"]])
    height, width = pixels.shape[1:3]
    mode = "rgb" if pixels.ndim == 4 else "gray"
    preparation = ImagePreparation((width, height), mode, mean, deviation, data.classes, task)
    parts = {
        side: Examples(preparation.read(pixels[where]), np.zeros((len(where), 0), dtype=np.int64), labels[where])
        for side, where in places.items()
    }
    return ExampleSides(
        train=parts["train"],
        dev=parts["dev"],
        test=parts["test"],
        places=places,
        preparation=preparation,
        task=task,
        classes=data.classes,
        target="class",
        notes=tuple(notes),
        split=SplitChoice("none", is_proposed=True, n_different=n_different) if n_different else None,
        name_of=data.place_of,
    )


def pixel_hashes(pixels: Pixels) -> Words:
    """The 8-byte BLAKE2b of the pixels of each image: equal images have equal hashes."""
    digests = b"".join([hashlib.blake2b(picture.tobytes(), digest_size=8).digest() for picture in pixels])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _in_pixels(
    data: ImagesData | PixelsData, size: tuple[int, int] | None, mode: str
) -> tuple[PixelsData, list[Statement]]:
    """The images in one size and mode; where none is asked for, in those that suit them, with a note."""
    notes: list[Statement] = []
    if isinstance(data, PixelsData):
        size = size or (data.pixels.shape[2], data.pixels.shape[1])
        mode = mode or ("rgb" if data.pixels.ndim == 4 else "gray")
    else:
        if size is None:
            size, about_size = _common_size(data)
            notes += about_size
        if not mode:
            mode, about_mode = _common_mode(data, size)
            notes.append(about_mode)
    # The pixels as bytes, as float32, and once more on the way.
    needed = len(data) * size[0] * size[1] * (3 if mode == "rgb" else 1) * (1 + 4 + 4)
    require_memory(needed, data.name, "Ask for a smaller size")
    if isinstance(data, PixelsData):
        return replace(data, pixels=convert_pixels(data.pixels, size, mode)), notes
    return decode_images(data, size=size, mode=mode), notes


def _common_size(data: ImagesData) -> tuple[tuple[int, int], list[Statement]]:
    sizes = {(file.width, file.height) for file in data.files}
    width, height = min(sizes)
    if len(sizes) == 1 and width in USUAL_SIDES and height in USUAL_SIDES:
        return (width, height), []
    return USUAL_SIZE, [make_note("image-size", n_sizes=len(sizes), size=(width, height), read_as=USUAL_SIZE)]


def _common_mode(data: ImagesData, size: tuple[int, int]) -> tuple[str, Statement]:
    step = -(-len(data.files) // LOOKED_AT)
    some = replace(data, files=data.files[::step])
    seen = decode_images(some, size=size, mode="rgb").pixels
    if int((seen.max(axis=-1) - seen.min(axis=-1)).max()) > COLOUR:
        return "rgb", make_note("images-in-colour")
    return "gray", make_note("images-in-gray", n=len(some))


def _unreadable(name: str, trouble: str) -> PellucidError:
    return PellucidError(f"the image {name} cannot be read: {trouble}", fix="Mend or replace it")


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
            if source.size > LARGEST_FILE:
                raise _unreadable(source.name, f"larger than {LARGEST_FILE >> 20} MB")
            pixels[place] = self.decode(source.name, read_all(source))
        return pixels

    def decode(self, name: str, content: bytes) -> Pixels:
        """The same of one file that was read."""
        trouble = find_trouble(content)[3]
        if trouble:
            raise _unreadable(name, trouble)
        return decode_image(content, self.mode, self.size)

    def require_sound(self) -> None:
        """Refuse what no images could have been prepared by."""
        if not all(1 <= side <= LARGEST_SIDE for side in self.size):
            raise damaged_preparation("its size is no width and height")
        n_channels = 3 if self.mode == "rgb" else 1
        if self.mode not in COLOURS or not len(self.mean) == len(self.deviation) == n_channels:
            raise damaged_preparation("its mode and its channels do not agree")
        require_scale(self.mean, self.deviation)
        require_task(self.task, self.classes)
        if not self.classes:
            raise damaged_preparation("it has no classes")


def in_channels(pixels: Pixels) -> Pixels:
    """(image, height, width[, 3]) -> (image, channels, height, width)."""
    return np.moveaxis(pixels, -1, 1) if pixels.ndim == 4 else pixels[:, None]
