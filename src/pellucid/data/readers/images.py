"""Folders of images: one folder for each class. Headers are read before pixels, pixels once before training.

Only PNG, JPEG, WEBP, BMP and GIF are opened, whatever a file calls itself. Links are not followed, hidden files are
left out and counted, and the order is that of the bytes of the names, so that it is the same on every machine.

What is known of each image is remembered between runs by its name, size and time of change. The memory is one file in
the user's cache folder ($XDG_CACHE_HOME or ~/.cache, under pellucid), never among the images. It is written only for
folders of 200 images or more, and PELLUCID_CACHE=off keeps it from being read or written.

Pictures become numbers by one conversion, the same on every machine:
1. the first frame; of a JPEG much larger than the size asked for, reduced by 2, 4 or 8 while it is decoded; a PNG of
   more than 64 megapixels is reduced strip by strip
2. turned as its EXIF orientation says
3. to 8 bits: 16-bit gray is divided by 257, 1-bit is 0 or 255, palettes are looked up, CMYK is converted as Pillow does
4. transparency is laid over white
5. to gray, by (299 R + 587 G + 114 B) / 1000, or to RGB
6. where a size is asked for, resized to fit with antialiasing, then centred on white
"""

import contextlib
import hashlib
import io
import json
import math
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.data.kinds import COLOURS, ImageFile, ImagesData, PixelsData, ReadOptions
from pellucid.data.readers import png_strips
from pellucid.data.readers.sources import missing_file, notes_on_counts, quoted_name, require_memory, unreadable
from pellucid.errors import DataChanged, PellucidError, TooLarge, quoted, require_one_of
from pellucid.records import Statement, from_plain, make_note

if TYPE_CHECKING:
    import numpy
    from PIL.Image import Image as Picture

FORMAT = 1  # of the memory
FEWEST_REMEMBERED = 200
LARGEST_FILE = 256 << 20

LEFT_OUT = {"Thumbs.db", "desktop.ini", "@eaDir", "__MACOSX"}
TOLD_EVERY = 500
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MOST_PIXELS = 64_000_000  # that are decoded; a JPEG with more is reduced on the way
MOST_REDUCED = 32  # times a side, while a large PNG is decoded: a strip has at least so many rows
SPARE = 4  # times the size asked for, that a JPEG is not reduced below while it is decoded: the rest is averaged


class ImageFacts(NamedTuple):
    """One image: its size, the hash of its bytes, and what is wrong with it, if anything."""

    width: int
    height: int
    sha256: str
    is_animated: bool
    trouble: str


class _Found(NamedTuple):
    """What a walk over the folder met, before any file is opened."""

    files: list[tuple[str, Path, os.stat_result]]  # class, path, status
    classes: list[str]
    n_hidden: int
    n_links: int
    n_deeper: int


def read_images(folder: Path, options: ReadOptions, because: str = "") -> ImagesData:
    """The images of a folder of class folders, each decoded once to be sure of it."""
    name = quoted_name(folder)
    found = _walk(folder, name)
    classes = _classes(found, name, options.skip_empty)
    index = ImageIndex(folder, is_kept=len(found.files) >= FEWEST_REMEMBERED)
    seen: list[ImageFacts] = []
    for done, (_, path, status) in enumerate(found.files):
        if done % TOLD_EVERY == 0:
            options.progress(f"looking at image {done:,} of {len(found.files):,}")
        seen.append(index.look(path, status))
    bad = [(path, one.trouble) for (_, path, _), one in zip(found.files, seen, strict=True) if one.trouble]
    if bad and not options.skip_bad:
        some = ", ".join(f"{_inside(path, folder)} ({trouble})" for path, trouble in bad[:3])
        count = f"{len(bad)} of {len(found.files):,} images" if len(bad) > 1 else "1 image"
        raise PellucidError(
            f"{count} cannot be read: {some}",
            where=f"in {name}",
            fix="Mend them, or add {skip_bad}",
            options={"skip_bad": True},
        )
    good = [(label, path, one) for (label, path, _), one in zip(found.files, seen, strict=True) if not one.trouble]
    left = [label for label in classes if any(label == other for other, _, _ in good)]
    if len(left) < 2:
        raise PellucidError(f"{name} has no two classes with readable images", fix="Give at least two class folders")
    index.keep()
    digest = hashlib.sha256()
    for _, path, one in good:
        digest.update(os.fsencode(path.relative_to(folder).as_posix()) + b"\0" + one.sha256.encode() + b"\n")
    return ImagesData(
        name=name,
        files=tuple(ImageFile(path, label, one.width, one.height) for label, path, one in good),
        classes=tuple(left),
        because="a folder of class folders",
        fingerprint=digest.hexdigest(),
        notes=tuple(_notes(found, good, len(bad), len(classes) - len(left))),
    )


def _walk(folder: Path, name: str) -> _Found:
    files: list[tuple[str, Path, os.stat_result]] = []
    n_deeper = 0
    try:
        entries, n_hidden, n_links = _visible(folder)
    except FileNotFoundError as error:
        raise missing_file(folder) from error
    except NotADirectoryError as error:
        raise PellucidError(f"{name} is a file, and images come in a folder", fix="Give the folder") from error
    except OSError as error:
        raise unreadable(folder, error) from error
    classes = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    n_loose = len(entries) - len(classes)
    for label in classes:
        try:
            inside, *also = _visible(folder / label)
        except OSError as error:
            raise unreadable(folder / label, error) from error
        n_hidden, n_links = n_hidden + also[0], n_links + also[1]
        images = [one for one in inside if one.is_file(follow_symlinks=False)]
        files += [(label, Path(one.path), one.stat(follow_symlinks=False)) for one in images]
        n_deeper += len(inside) - len(images)
    if not classes:
        what = f"holds {n_loose:,} files and no class folders" if n_loose else "is an empty folder"
        raise PellucidError(f"{name} {what}", fix="Put each class of images into a folder of its own, or name one file")
    return _Found(files, classes, n_hidden, n_links, n_deeper + n_loose)


def _visible(folder: Path) -> tuple[list["os.DirEntry[str]"], int, int]:
    """What is in a folder, in order, without what is hidden and without links; and how many of these there are."""
    entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
    shown = [entry for entry in entries if not entry.name.startswith(".") and entry.name not in LEFT_OUT]
    kept = [entry for entry in shown if not entry.is_symlink()]
    return kept, len(entries) - len(shown), len(shown) - len(kept)


def _classes(found: _Found, name: str, skip_empty: bool) -> list[str]:
    filled = {label for label, _, _ in found.files}
    empty = [label for label in found.classes if label not in filled]
    if not filled:
        raise PellucidError(f"{name} holds no image in its {len(found.classes)} folders", fix="Check the path")
    if empty and not skip_empty:
        raise PellucidError(
            f"the class folder {quoted_name(Path(empty[0]))} is empty",
            where=f"in {name}",
            fix="Fill it, or add {skip_empty}",
            options={"skip_empty": True},
        )
    if len(filled) < 2:
        raise PellucidError(
            f"{name} has one class, {quoted_name(Path(*filled))}", fix="Give at least two class folders"
        )
    return [label for label in found.classes if label in filled]


def _inside(path: Path, folder: Path) -> str:
    return quoted(os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace"), 48)


def _notes(found: _Found, good: Sequence[tuple[str, Path, ImageFacts]], n_bad: int, n_emptied: int) -> list[Statement]:
    """What was left out, and images that occur twice: between classes they contradict, between splits they leak."""
    labels: dict[str, set[str]] = {}
    for label, _, one in good:
        labels.setdefault(one.sha256, set()).add(label)
    return notes_on_counts(
        make_note("unreadable-images", n=n_bad),
        make_note("hidden-files", n=found.n_hidden),
        make_note("links", n=found.n_links),
        make_note("files-elsewhere", n=found.n_deeper),
        make_note("classes-without-images", n=n_emptied),
        make_note("repeated-images", n=len(good) - len(labels)),
        make_note("images-in-several-classes", n=sum(len(classes) > 1 for classes in labels.values())),
        make_note("animated-images", n=sum(one.is_animated for _, _, one in good)),
    )


class ImageIndex:
    """Looks at images, and only once at those that have not changed."""

    def __init__(self, folder: Path, is_kept: bool) -> None:
        self._is_kept = is_kept and os.environ.get("PELLUCID_CACHE") != "off"
        self._folder = folder.absolute()
        self._known: dict[str, tuple[int, int, ImageFacts]] = {}
        self._is_new = False
        if self._is_kept:
            self._known = self._load()

    def look(self, path: Path, status: os.stat_result) -> ImageFacts:
        """What is known of the image at `path`, from memory or by decoding it."""
        key = os.fsencode(path.name).hex() + "/" + os.fsencode(path.parent.name).hex()
        stamp = (status.st_size, status.st_mtime_ns)
        held = self._known.get(key)
        if held and held[:2] == stamp:
            return held[2]
        seen = _look_at(path)
        self._known[key] = (*stamp, seen)
        self._is_new = True
        return seen

    def keep(self) -> None:
        """Write the memory; a folder that cannot be written to is no trouble, only slower next time."""
        if not self._is_kept or not self._is_new:
            return
        with contextlib.suppress(OSError):
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump({"format": FORMAT, "files": self._known}, file)
            os.replace(temporary, path)

    def _load(self) -> dict[str, tuple[int, int, ImageFacts]]:
        """The memory of an earlier run; whatever is odd about it is forgotten."""
        try:
            stored = json.loads(self._path().read_text(encoding="ascii"))
            if stored["format"] != FORMAT:
                return {}
            rows = from_plain(dict[str, tuple[int, int, tuple[int, int, str, bool, str]]], stored["files"])
            return {key: (size, time, ImageFacts(*facts)) for key, (size, time, facts) in rows.items()}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}

    def _path(self) -> Path:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:32]
        return Path(cache) / "pellucid" / f"images-{name}.json"


def _look_at(path: Path) -> ImageFacts:
    try:
        if path.lstat().st_size > LARGEST_FILE:
            return ImageFacts(0, 0, "", False, f"larger than {LARGEST_FILE >> 20} MB")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read()
    except OSError as error:
        return ImageFacts(0, 0, "", False, unreadable(path, error).what)
    width, height, is_animated, trouble = find_trouble(content)
    return ImageFacts(width, height, hashlib.sha256(content).hexdigest(), is_animated, trouble)


def find_trouble(content: bytes) -> tuple[int, int, bool, str]:
    """(width, height, is animated, what is wrong); the size comes from the header, before any pixel is decoded."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        return 0, 0, False, "empty"
    width = height = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                width, height = picture.size
                # Reduced as far as it goes: all bytes are read, and a broken one is found in a tenth of the time.
                reduce_while_decoding(picture, (1, 1))
                if picture.width * picture.height > MOST_PIXELS:
                    return width, height, False, _trouble_of_large(content, picture)
                is_animated = getattr(picture, "n_frames", 1) > 1
                picture.seek(0)
                picture.load()
    except Image.DecompressionBombError:
        return width, height, False, "more than 64 megapixels"
    except UnidentifiedImageError:
        return 0, 0, False, "not a PNG, JPEG, WEBP, BMP or GIF"
    except MemoryError:
        return width, height, False, "more than memory holds"
    except Exception as error:  # decoders raise what they like: OSError, SyntaxError, ValueError, struct.error...
        reason = " ".join(str(error).split())[:40] or type(error).__name__
        return width, height, False, f"damaged: {reason}"
    return width, height, is_animated, ""


def _trouble_of_large(content: bytes, picture: "Picture") -> str:
    """What is wrong with a picture of more pixels than are held at once; "" where it can be read in strips."""
    if not png_strips.can_be_read(content):
        return f"{picture.width * picture.height / 1e6:.0f} megapixels, at most 64 are read"
    _read_reduced(content, picture.size, (1, 1))
    return ""


def _read_reduced(content: bytes, whole: tuple[int, int], least: tuple[int, int]) -> "Picture":
    """A large PNG, laid over white and reduced: as small as has `least`, or that can be held."""
    by = max(1, min(whole[0] // least[0], whole[1] // least[1], MOST_REDUCED))
    by = max(by, math.ceil(math.sqrt(whole[0] * whole[1] / MOST_PIXELS)))
    return png_strips.read_strips(content, lambda strip: over_white(strip).reduce(by), of=by)


def over_white(picture: "Picture") -> "Picture":
    """In RGB, what is transparent laid over white."""
    from PIL import Image

    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return picture.convert("RGB")


def reduce_while_decoding(picture: "Picture", least: tuple[int, int]) -> None:
    """Let a JPEG be decoded at a half, a quarter or an eighth a side: as small as has `least`, or that can be held.

    Other formats have no such way and stay as they are.
    """
    width, height = picture.size
    by = math.ceil(math.sqrt(width * height / MOST_PIXELS))
    picture.draft(None, (min(least[0], width // by), min(least[1], height // by)))


def decode_image(content: bytes, mode: str = "gray", size: tuple[int, int] | None = None) -> "numpy.ndarray[Any, Any]":
    """One picture as numbers: (height, width) or (height, width, 3), 0 to 255. size is (width, height)."""
    import numpy
    from PIL import Image, ImageOps

    require_one_of("colour mode", mode, COLOURS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
            if size is not None:
                reduce_while_decoding(opened, (SPARE * max(size), SPARE * max(size)))
            picture: Picture = opened
            if opened.size[0] * opened.size[1] <= MOST_PIXELS:
                opened.seek(0)
                opened.load()
            elif size is not None and png_strips.can_be_read(content):
                picture = _read_reduced(content, opened.size, (SPARE * max(size), SPARE * max(size)))
                picture.info.update({name: one for name, one in opened.info.items() if name == "exif"})
            else:
                raise TooLarge("an image has more than 64 megapixels", fix="Make it smaller")
            picture = in_eight_bits(ImageOps.exif_transpose(picture))
    picture = over_white(picture)
    if mode == "gray":
        picture = picture.convert("L")
    if size is not None and picture.size != size:
        picture = fit_size(picture, size)
    return numpy.asarray(picture)


def decode_images(images: ImagesData, *, size: tuple[int, int], mode: str = "gray") -> PixelsData:
    """All images of a folder as one array of the given (width, height)."""
    import numpy

    shape = (len(images.files), size[1], size[0]) + ((3,) if mode == "rgb" else ())
    require_memory(math.prod(shape), f"an array of {len(images):,} images of {size[0]}×{size[1]}", "Use less")
    pixels = numpy.zeros(shape, dtype=numpy.uint8)
    for i, file in enumerate(images.files):
        try:
            pixels[i] = decode_image(file.path.read_bytes(), mode, size)
        except PellucidError:
            raise
        except Exception as error:
            raise DataChanged(
                f"the image {quoted(str(file.path.name))} was there and is gone or damaged now", fix="Put it back"
            ) from error
    labels = numpy.array([images.classes.index(file.label) for file in images.files], dtype=numpy.int64)
    return PixelsData(
        name=images.name,
        pixels=pixels,
        labels=labels,
        classes=images.classes,
        because=images.because,
        fingerprint=images.fingerprint,
        notes=images.notes,
    )


def in_eight_bits(picture: "Picture") -> "Picture":
    import numpy
    from PIL import Image

    if picture.mode.startswith(("I", "F")):
        values = numpy.asarray(picture).astype(numpy.float64)
        scaled = values / 257 if picture.mode != "F" else values
        return Image.fromarray(numpy.clip(numpy.rint(scaled), 0, 255).astype(numpy.uint8))
    return picture


def fit_size(picture: "Picture", size: tuple[int, int]) -> "Picture":
    """The picture inside `size`, its proportions kept, centred on white."""
    from PIL import Image

    scale = min(size[0] / picture.width, size[1] / picture.height)
    inner = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    small = picture.resize(inner, Image.Resampling.BOX if scale < 1 else Image.Resampling.BILINEAR)
    page = Image.new(picture.mode, size, "white")
    page.paste(small, ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2))
    return page


def colours_of(pixels: "numpy.ndarray[Any, Any]") -> tuple[tuple[str, ...], ...]:
    """(height, width) or (height, width, 3), 0 to 255 -> rows of colours.

    >>> import numpy
    >>> colours_of(numpy.array([[0, 255]], dtype=numpy.uint8))
    (('#000000', '#ffffff'),)
    """
    levels = pixels if pixels.ndim == 3 else pixels[..., None].repeat(3, -1)
    return tuple(tuple("#" + bytes(pixel).hex() for pixel in row) for row in levels.tolist())
