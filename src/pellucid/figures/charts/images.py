"""A small picture as PNG, one pixel for each digit or colour: thousands of cells in a few kilobytes."""

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
    return _file(header, [(b"PLTE", palette)], lines)


def png_address(rows: Sequence[str], colours: Sequence[str]) -> str:
    """The same as an address that holds all of it, for a picture inside a page."""
    return _address(png(rows, colours))


def colour_png(rows: Sequence[Sequence[str]]) -> bytes:
    """Rows of colours, one pixel for each; rows that are too short end in white.

    >>> len(colour_png([["#ff8800", "#ffffff"]])) < 100
    True
    """
    width = max([len(row) for row in rows], default=1)
    lines = [b"\0" + bytes.fromhex("".join(row).replace("#", "")).ljust(3 * width, b"\xff") for row in rows]
    return _file(struct.pack(">IIBBBBB", width, max(1, len(rows)), 8, 2, 0, 0, 0), (), b"".join(lines))


def colours_address(rows: Sequence[Sequence[str]]) -> str:
    """The same as an address that holds all of it."""
    return _address(colour_png(rows))


def _address(file: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")


def _file(header: bytes, between: Sequence[tuple[bytes, bytes]], lines: bytes) -> bytes:
    chunks = [(b"IHDR", header), *between, (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join([_chunk(name, data) for name, data in chunks])


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
