"""What a file is by its first bytes, whatever its name says. Compressed and foreign formats are named and refused."""

import re

from pellucid.errors import PellucidError

HEAD = 4096

# First bytes, what such a file is, and the one thing to do about it.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "a gzip file", "Unpack it first: gunzip {name}"),
    (b"BZh", "a bzip2 file", "Unpack it first: bunzip2 {name}"),
    (b"\xfd7zXZ\x00", "an xz file", "Unpack it first: unxz {name}"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "Unpack it first: unzstd {name}"),
    (b"\x04\x22\x4d\x18", "an LZ4 file", "Unpack it first: unlz4 {name}"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive", "Unpack it first"),
    (b"%PDF-", "a PDF file", "Save its text as plain text and give that"),
    (b"{\\rtf", "an RTF document", "Save it as plain text and give that"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "Save it as plain text or CSV and give that"),
    (b"SQLite format 3\x00", "an SQLite database", "Export the table as CSV and give that"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "Export it as CSV or Parquet and give that"),
    (b"\x93NUMPY", "a NumPy array", "Export it as CSV or Parquet and give that"),
    (b"ARROW1", "an Arrow file", "Export it as Parquet and give that"),
    (b"ORC", "an ORC file", "Export it as Parquet and give that"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "For images give a folder that holds a folder for each class"),
    (b"\xff\xd8\xff", "a JPEG image", "For images give a folder that holds a folder for each class"),
    (b"GIF8", "a GIF image", "For images give a folder that holds a folder for each class"),
    (b"\x7fELF", "a program", "Give a text, a table or a folder of images"),
    (b"MZ\x90\x00", "a program", "Give a text, a table or a folder of images"),
    (b"OggS", "a sound or film", "Give a text, a table or a folder of images"),
    (b"ID3", "a sound", "Give a text, a table or a folder of images"),
)
_OFFICE = {b"word/": "a Word document", b"xl/": "an Excel workbook", b"ppt/": "a PowerPoint file"}
_PICKLE = re.compile(rb"\x80[\x02-\x05](\x95........|[}\]c\x8c(K])", re.DOTALL)


def is_parquet(head: bytes) -> bool:
    """Whether the file says that it is Parquet."""
    return head.startswith(b"PAR1")


def refuse_foreign(head: bytes, name: str) -> None:
    """Refuse what is neither text nor Parquet by its first bytes, with the way out.

    >>> refuse_foreign(b"\\x1f\\x8b\\x08\\x00", "names.txt.gz")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: names.txt.gz is a gzip file. Unpack it first: gunzip names.txt.gz.
    """
    for start, what, fix in _FOREIGN:
        if head.startswith(start) and not (len(start) == 3 and _is_plain(head)):
            raise PellucidError(f"{name} is {what}", fix=fix.format(name=name))
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise PellucidError(f"{name} is {_zip_kind(head)}", fix=_zip_fix(head))
    if head[257:262] == b"ustar":
        raise PellucidError(f"{name} is a tar archive", fix="Unpack it first")
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        raise PellucidError(f"{name} is an image, a sound or a film", fix="For images give a folder of class folders")
    if _PICKLE.match(head):
        raise PellucidError(f"{name} is a Python pickle, which can run code", fix="Export it as CSV or text")
    if _is_bmp(head):
        raise PellucidError(f"{name} is a BMP image", fix="For images give a folder that holds a folder for each class")


def _is_plain(head: bytes) -> bool:
    """Whether the head could be text: "BZh" and "ORC" also begin words."""
    return not any(byte < 9 or 13 < byte < 32 or byte > 126 for byte in head[:64])


def _is_bmp(head: bytes) -> bool:
    # "BM" begins words too; a bitmap has two zero words and the length of its header behind that.
    return (
        head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and head[14:18] in (b"\x28\0\0\0", b"\x7c\0\0\0", b"\x6c\0\0\0")
    )


def _zip_kind(head: bytes) -> str:
    return next((what for folder, what in _OFFICE.items() if folder in head), "a zip archive")


def _zip_fix(head: bytes) -> str:
    if b"xl/" in head:
        return "Save the sheet as CSV and give that"
    return "Save it as plain text and give that" if _zip_kind(head) != "a zip archive" else "Unpack it first"
