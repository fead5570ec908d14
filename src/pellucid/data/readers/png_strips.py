"""PNGs with more pixels than are held at once: decoded some rows at a time, each strip made smaller before the next.

Pillow decodes a PNG whole or not at all. But a row of a PNG depends on the one before it alone, so that some rows are a
PNG too, if the last row before them is put in front of them, as it was decoded. Such strips are made here, without
compression, and Pillow decodes them. Only samples of 8 bits, in rows that follow each other, can be read so.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SIGNATURE = b"\x89PNG\r\n\x1a\n"
STRIP_BYTES = 16 << 20  # of rows, about, that are decoded at once
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by the colour type
KEPT = (b"PLTE", b"tRNS")  # what rows mean: the palette, and what is transparent
PIXELS_OF_A_BYTE = 8  # at most: a file that holds more for each of its bytes is a bomb, or blank


def chunks_of(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """The chunks of a PNG by their names, as far as they are whole."""
    at, view = len(SIGNATURE), memoryview(content)
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        yield bytes(view[at + 4 : at + 8]), view[at + 8 : at + 8 + length]
        at += 12 + length


def can_be_read(content: bytes) -> bool:
    """Whether a file is a PNG that can be read strip by strip, and nothing like a bomb."""
    if not content.startswith(SIGNATURE) or len(content) < 33:
        return False
    width, height, depth, *_, interlaced = struct.unpack_from(">IIBBBBB", content, 16)
    return depth == 8 and not interlaced and width * height <= PIXELS_OF_A_BYTE * len(content)


def read_strips(content: bytes, smaller: Callable[[Picture], Picture], of: int) -> Picture:
    """The picture, put together from what `smaller` makes of each strip; of: strips have a multiple of so many rows.

    What is damaged raises whatever Pillow and zlib raise.
    """
    from PIL import Image

    header = bytes(next(chunk for name, chunk in chunks_of(content) if name == b"IHDR"))
    width, height, _, colour = struct.unpack(">IIBB", header[:10])
    row_bytes = 1 + width * SAMPLES[colour]
    n_rows = of * max(1, STRIP_BYTES // row_bytes // of)
    kept = b"".join(_chunk(name, bytes(chunk)) for name, chunk in chunks_of(content) if name in KEPT)
    inflate, parts, before = _Inflated(content), [], b""
    for first in range(0, height, n_rows):
        rows = inflate.read(row_bytes * min(n_rows, height - first))
        n = len(before + rows) // row_bytes
        head = struct.pack(">II", width, n) + header[8:]
        strip = SIGNATURE + _chunk(b"IHDR", head) + kept
        strip += _chunk(b"IDAT", zlib.compress(before + rows, 0)) + _chunk(b"IEND", b"")
        with Image.open(io.BytesIO(strip), formats=("PNG",)) as opened:
            opened.load()
            parts.append(smaller(opened.crop((0, bool(before), width, n))))
            before = b"\0" + opened.crop((0, n - 1, width, n)).tobytes()  # 0: it is not told by another row
    whole = Image.new(parts[0].mode, (parts[0].width, sum(part.height for part in parts)))
    at = 0
    for part in parts:
        whole.paste(part, (0, at))
        at += part.height
    return whole


class _Inflated:
    """The rows of a PNG, as many bytes as are asked for and no more."""

    def __init__(self, content: bytes) -> None:
        self.chunks = (chunk for name, chunk in chunks_of(content) if name == b"IDAT")
        self.stream, self.left = zlib.decompressobj(), b""

    def read(self, n_bytes: int) -> bytes:
        found = bytearray()
        while len(found) < n_bytes:
            piece = self.stream.decompress(self.left, n_bytes - len(found))
            self.left = self.stream.unconsumed_tail
            found += piece
            if not piece and not self.left:
                self.left = bytes(next(self.chunks, b""))
                if not self.left:
                    raise OSError("image file is truncated")
        return bytes(found)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
