"""A sheet of sample images: a few of each class, drawn by lot, as the data have them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pellucid.figures.charts.svg import INK, LINE, QUIET, move_marks, pixel_image, svg_text, text_width, tooltip
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, cut_end
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Colours

if TYPE_CHECKING:
    from pellucid.data.kinds import ImagesData, PixelsData

MOST_CLASSES = 40  # that are drawn; the caption says how many there are
LARGEST = 64  # pixels of a side; larger images are fitted to it
LONGEST = 18  # letters of a class
SIDE, GAP = 60.0, 8.0


@dataclass(frozen=True)
class SampleSheetKnobs:
    source: str = "digits"
    each: int = option(12, "Images of each class.", noun="the number of images of each class", minimum=1, maximum=40)
    seed: int = seed_knob()
    kind: str = option("", "Read the data as images, whatever they look like.")
    encoding: str = option("utf-8", "Character encoding of the file.")

    def __post_init__(self) -> None:
        check_options(self)


class ClassSamples(NamedTuple):
    """A few images of one class."""

    name: str
    n_images: int  # of the class in the data
    pixels: tuple[Colours, ...]  # of each image
    places: tuple[str, ...]  # where a user finds each


class SampleSheet(NamedTuple):
    """Images of each class, drawn by lot."""

    source: str  # what was read, in one line
    size: tuple[int, int]  # width and height in which they are shown, in pixels
    n_images: int
    n_classes: int
    classes: tuple[ClassSamples, ...]


def measure(knobs: SampleSheetKnobs) -> SampleSheet:
    """Open image data, and draw so many images of each class without repetition.

    >>> sheet = measure(SampleSheetKnobs("digits", each=3))
    >>> sheet.n_images, sheet.classes[0].name, len(sheet.classes[0].pixels), sheet.classes[0].n_images
    (1797, '0', 3, 178)
    """
    import numpy as np

    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData
    from pellucid.data.readers.images import colours_of

    data = open_data(knobs.source, kind=knobs.kind, encoding=knobs.encoding)
    require_kind(data, "images")
    assert isinstance(data, ImagesData | PixelsData)
    labels = (
        data.labels
        if isinstance(data, PixelsData)
        else np.array([data.classes.index(file.label) for file in data.files], dtype=np.int64)
    )
    rng, size, found = np.random.default_rng([knobs.seed, 0]), (0, 0), []
    for place, name in enumerate(data.classes[:MOST_CLASSES]):
        rows = np.flatnonzero(labels == place)
        chosen = np.sort(rng.choice(rows, min(knobs.each, len(rows)), replace=False))
        pixels = _pixels(data, chosen.tolist())
        size = (pixels.pixels.shape[2], pixels.pixels.shape[1])
        found.append(
            ClassSamples(
                name,
                len(rows),
                tuple(colours_of(one) for one in pixels.pixels),
                tuple(data.place_of(row) for row in chosen.tolist()),
            )
        )
    return SampleSheet(data.description, size, len(data), len(data.classes), tuple(found))


def _pixels(data: ImagesData | PixelsData, rows: list[int]) -> PixelsData:
    """These images alone, in one size: their own where all have it and it is small."""
    from pellucid.data.kinds import PixelsData
    from pellucid.data.readers.images import decode_images

    if isinstance(data, PixelsData):
        return replace(data, pixels=data.pixels[rows], labels=data.labels[rows])
    sizes = {(file.width, file.height) for file in data.files}
    size = min(sizes) if len(sizes) == 1 and max(min(sizes)) <= LARGEST else (LARGEST, LARGEST)
    return decode_images(replace(data, files=tuple(data.files[row] for row in rows)), size=size, mode="rgb")


def draw(record: SampleSheet) -> Picture:
    """A row for each class: its name, how many images it has, and some of them."""
    width, height = record.size
    scale = SIDE / max(width, height, 1)
    wide, tall = width * scale, height * scale
    names = [cut_end(one.name, LONGEST) for one in record.classes]
    left = max([text_width(name, 16.0) for name in names], default=0.0) + 74
    marks: list[str] = []
    for row, (one, name) in enumerate(zip(record.classes, names, strict=True)):
        y = row * (tall + GAP)
        marks.append(svg_text(0, y + tall / 2 + 6, name, INK, is_bold=True))
        marks.append(svg_text(left - 16, y + tall / 2 + 6, f"{one.n_images:,}", QUIET, align="end", size=13))
        for column, (image, place) in enumerate(zip(one.pixels, one.places, strict=True)):
            framed = [
                pixel_image(image, wide, tall),
                f'<rect width="{wide:.1f}" height="{tall:.1f}" fill="none" stroke="{LINE}" pointer-events="all">'
                f"{tooltip(cut_end(place, 80))}</rect>",
            ]
            marks += move_marks(framed, left + column * (wide + GAP), y)
    across = max([len(one.pixels) for one in record.classes], default=0)
    right = left + across * (wide + GAP)
    return picture(
        "Sample images of each class", _captions(record), marks, max(right, 420.0), len(names) * (tall + GAP)
    )


def _captions(record: SampleSheet) -> list[str]:
    counts = [one.n_images for one in record.classes]
    shown = sum([len(one.pixels) for one in record.classes])
    width, height = record.size
    lines = [
        f"{record.source}. {count_of(shown, 'image')} drawn by lot, shown in {width}×{height} pixels; beside each "
        "class how many it has."
    ]
    if counts and record.n_classes == len(record.classes):
        many = f"from {min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{min(counts):,}"
        lines.append(f"The classes have {many} images each.")
    elif counts:
        lines.append(f"Drawn: the first {len(record.classes)} of {record.n_classes:,} classes.")
    return lines


LESSON = Lesson(
    name="samples",
    summary="A sheet of sample images: a few of each class, drawn by lot.",
    measure=measure,
    draw=draw,
    knobs=SampleSheetKnobs,
    argument="source",
)
