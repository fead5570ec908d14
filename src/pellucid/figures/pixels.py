"""A small picture as PNG, one pixel for each digit: thousands of cells in a few kilobytes."""

import base64
import struct
import zlib
from collections.abc import Sequence


def png(rows: Sequence[str], colours: Sequence[str]) -> bytes:
    """Rows of digits, each in its colour (such as "#ff8800"); rows that are too short end in the first colour.

    >>> png(["01"], ["#000000", "#ffffff"])[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    width = max([len(row) for row in rows], default=1)
    # Each row begins with the number of its filter: 0, as it is.
    lines = b"".join([b"\0" + bytes([int(digit) for digit in row]).ljust(width, b"\0") for row in rows])
    palette = b"".join([bytes.fromhex(colour.removeprefix("#")) for colour in colours])
    header = struct.pack(">IIBBBBB", width, max(1, len(rows)), 8, 3, 0, 0, 0)  # 8 bits a pixel, from a palette
    chunks = [(b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join([_chunk(name, data) for name, data in chunks])


def png_address(rows: Sequence[str], colours: Sequence[str]) -> str:
    """The same as an address that holds all of it, for a picture inside a page."""
    return "data:image/png;base64," + base64.b64encode(png(rows, colours)).decode("ascii")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
