"""Pictures to numbers: one conversion for all, the same on every machine.

1. the first frame
2. turned as its EXIF orientation says
3. to 8 bits: 16-bit gray is divided by 257, 1-bit is 0 or 255, palettes are looked up, CMYK is converted as Pillow does
4. transparency is laid over white
5. to gray, by (299 R + 587 G + 114 B) / 1000, or to RGB
6. where a size is asked for, resized to fit with antialiasing, then centred on white
"""

import io
import warnings
from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import ImagesData, PixelsData
from pellucid.errors import DataChanged, PellucidError, TooLarge, quoted

if TYPE_CHECKING:
    import numpy
    from PIL.Image import Image as Picture

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MOST_PIXELS = 64_000_000
MODES = ("gray", "rgb")
LARGEST_ARRAY = 4 << 30


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
                if width * height > MOST_PIXELS:
                    return width, height, False, f"{width * height / 1e6:.0f} megapixels, at most 64 are read"
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


def decode_image(content: bytes, mode: str = "gray", size: tuple[int, int] | None = None) -> "numpy.ndarray[Any, Any]":
    """One picture as numbers: (height, width) or (height, width, 3), 0 to 255. size is (width, height)."""
    import numpy
    from PIL import Image, ImageOps

    if mode not in MODES:
        raise PellucidError(f"{quoted(mode)} is no way to show pixels", fix="Write gray or rgb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
            if opened.size[0] * opened.size[1] > MOST_PIXELS:
                raise TooLarge("an image has more than 64 megapixels", fix="Make it smaller")
            opened.seek(0)
            opened.load()
            picture: Picture = ImageOps.exif_transpose(opened)
    picture = _in_eight_bits(picture)
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        picture = Image.alpha_composite(white, layer)
    picture = picture.convert("RGB")
    if mode == "gray":
        picture = picture.convert("L")
    if size is not None and picture.size != size:
        picture = _fit(picture, size)
    return numpy.asarray(picture)


def decode_images(images: ImagesData, *, size: tuple[int, int], mode: str = "gray") -> PixelsData:
    """All images of a folder as one array of the given (width, height)."""
    import numpy

    shape = (len(images.files), size[1], size[0]) + ((3,) if mode == "rgb" else ())
    needed = int(numpy.prod(shape))
    if needed > LARGEST_ARRAY:
        raise TooLarge(
            f"{len(images.files):,} images of {size[0]}×{size[1]} need {needed / 1e9:.1f} GB", fix="Use less"
        )
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


def _in_eight_bits(picture: "Picture") -> "Picture":
    import numpy
    from PIL import Image

    if picture.mode.startswith(("I", "F")):
        values = numpy.asarray(picture).astype(numpy.float64)
        scaled = values / 257 if picture.mode != "F" else values
        return Image.fromarray(numpy.clip(numpy.rint(scaled), 0, 255).astype(numpy.uint8))
    return picture


def _fit(picture: "Picture", size: tuple[int, int]) -> "Picture":
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
