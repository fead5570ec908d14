"""Text files: bytes to characters, in pieces, with the byte at which a file stops being what it was said to be; and
their characters as lists (one item a line), pairs (source TAB target) or running text of any size.
"""

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pellucid.data.kinds import ListData, PairsData, ReadOptions, TextData
from pellucid.data.readers.sources import PIECE, Source, notes_on_counts, require_memory
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.records import Statement, make_note

# fmt: off
ENCODINGS = (
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "ascii", "latin-1", "iso8859-2",
    "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252", "cp1253",
    "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "koi8-r", "koi8-u", "mac-roman", "shift_jis", "euc_jp", "gbk",
    "gb18030", "big5", "euc_kr",
)
# fmt: on
_BREAKS = re.compile("\r\n|[\r\x85\u2028\u2029]")
BYTES_EACH = 24  # of an item: where it ends, and its hash, twice while hashes are sorted


@dataclass(frozen=True)
class Scan:
    """What one pass over a text found."""

    fingerprint: str  # sha256 of the bytes as they are on disk
    n_characters: int
    n_lines: int
    n_lf: int
    n_crlf: int  # of these LF, so many have a CR before them
    n_cr: int  # carriage returns on their own
    n_separators: int  # U+0085, U+2028 and U+2029
    first_nul: int  # counted in characters; -1 when there is none
    has_bom: bool
    is_blank: bool
    only_symbol: str  # the one character that the text is made of, or ""


def read_list(source: Source, options: ReadOptions, because: str = "") -> ListData:
    """The lines that hold something, without their line ends."""
    found = scan_text(source, options.encoding)
    require_memory(
        found.n_lines * BYTES_EACH + 2 * source.size,
        source.name,
        "Try {kind}, which is read in pieces",
        options={"kind": "text"},
    )
    if found.first_nul >= 0:
        raise PellucidError(
            f"there is a NUL in {source.name}",
            where=f"at character {found.first_nul + 1:,}",
            fix="Remove it, or use {kind} and {tokens}",
            options={"kind": "text", "tokens": "bytes"},
        )
    # An old Mac's list: its line ends are CR and nothing else.
    newlines = "unix" if found.n_cr and not found.n_lf else options.newlines
    from pellucid.records.packed_texts import PackedTexts  # numpy is loaded once there is a list

    n_empty = n_spaced = 0

    def held() -> Iterator[str]:
        nonlocal n_empty, n_spaced
        for line in _lines(characters(source, options.encoding, newlines)):
            # Whoever ends lines with CRLF does not mean the CR to be the last letter of every name.
            item = line.removesuffix("\r") if newlines == "keep" else line
            if stripped := item.strip():
                n_spaced += stripped != item
                yield item
            else:
                n_empty += 1

    items = PackedTexts.of(held())
    if not items:
        raise PellucidError(f"{source.name} holds no item, only empty lines", fix="Write one item a line")
    n_repeats = len(items) - items.count_different()
    return ListData(
        name=source.name,
        items=items,
        because=because,
        fingerprint=found.fingerprint,
        notes=(
            *notes_of(found, newlines, is_by_line=True),
            *notes_on_counts(
                make_note("empty-lines", n=n_empty),
                make_note("repeated-items", n=n_repeats, n_all=len(items)),
                make_note("spaced-items", n=n_spaced),
            ),
        ),
    )


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    """The lines of a text that comes in pieces; nothing after the last newline is no line."""
    begun: list[str] = []
    for piece in pieces:
        first, *others = piece.split("\n")
        begun.append(first)
        if others:
            yield "".join(begun)
            yield from others[:-1]
            begun = others[-1:]
    if rest := "".join(begun):
        yield rest


def read_text(source: Source, options: ReadOptions, because: str = "") -> TextData:
    """A text that is read in pieces when it is used."""
    found = scan_text(source, options.encoding)
    if found.only_symbol:
        raise PellucidError(
            f"{source.name} holds only one distinct symbol, {quoted(found.only_symbol)}",
            fix="There is nothing to learn from it; check that it is the file you meant",
        )
    return TextData(
        name=source.name,
        source=source,
        encoding=options.encoding,
        newlines=options.newlines,
        n_characters=found.n_characters,
        first_nul=found.first_nul,
        because=because,
        fingerprint=found.fingerprint,
        notes=(
            *notes_of(found, options.newlines),
            *([make_note("nul", character=found.first_nul + 1)] if found.first_nul >= 0 else []),
        ),
    )


def read_pairs(source: Source, options: ReadOptions, because: str = "") -> PairsData:
    """Every line as (source, target); a line with another number of tabs is named. In .csv commas do."""
    found = scan_text(source, options.encoding)
    require_memory(found.n_lines * 200 + 2 * source.size, source.name, "Give a smaller file")
    lines = "".join(characters(source, options.encoding, options.newlines)).split("\n")
    separator = "," if source.ending == ".csv" and "\t" not in lines[0] else "\t"
    pairs: list[tuple[str, str]] = []
    n_empty = 0
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if line.strip():
            pairs.append(_pair(line, separator, f"in {source.name}:{number}"))
        else:
            n_empty += number < len(lines)
    if not pairs:
        raise PellucidError(f"{source.name} holds no pair, only empty lines", fix="Write source, one tab, target")
    targets: dict[str, str] = {}
    n_torn = sum(targets.setdefault(before, after) != after for before, after in pairs)
    n_repeats = len(pairs) - len(set(pairs))
    return PairsData(
        name=source.name,
        pairs=pairs,
        because=because,
        fingerprint=found.fingerprint,
        notes=(
            *notes_of(found, options.newlines),
            *notes_on_counts(
                make_note("empty-lines", n=n_empty),
                make_note("repeated-pairs", n=n_repeats, n_all=len(pairs)),
                make_note("contradicting-pairs", n=n_torn),
            ),
        ),
    )


def _pair(line: str, separator: str, where: str) -> tuple[str, str]:
    parts = line.split(separator)
    word = "comma" if separator == "," else "tab"
    fix = f"Write source, one {word}, target"
    if len(parts) != 2:
        raise PellucidError(
            f"{len(parts) - 1} {word}s stand where 1 is wanted, in {quoted(line)}", where=where, fix=fix
        )
    if not parts[0] or not parts[1]:
        raise PellucidError(f"the {'target' if parts[0] else 'source'} is empty", where=where, fix=fix)
    if "\0" in line:
        raise PellucidError("there is a NUL", where=where, fix="Remove it")
    return parts[0], parts[1]


def require_encoding(name: str) -> str:
    """The codec's own name for an encoding that texts are written in.

    >>> require_encoding("UTF8")
    'utf-8'
    """
    try:
        found = codecs.lookup("utf-8" if name.lower() == "utf-8-sig" else name).name
    except (LookupError, ValueError, UnicodeError):
        found = ""
    # One after the other: to look an encoding up is to load a module.
    if not any(codecs.lookup(one).name == found for one in ENCODINGS):
        fix = did_you_mean(name.lower(), ENCODINGS, "Try utf-8, utf-16, latin-1 or cp1252")
        raise PellucidError(f"there is no encoding called {quoted(name)}", fix=fix)
    return found


def characters(source: Source, encoding: str, newlines: str = "keep") -> Iterator[str]:
    """The text in pieces: without a byte order mark, and never cut between CR and LF.

    With newlines="unix", CRLF, CR, U+0085, U+2028 and U+2029 become LF.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    held = ""
    is_first = True
    for start in range(0, max(1, source.size), PIECE):
        piece = source.read(start, PIECE)
        waiting = len(decoder.getstate()[0])
        try:
            text = held + decoder.decode(piece, final=start + PIECE >= source.size)
        except UnicodeDecodeError as error:
            raise _undecodable(source, encoding, start - waiting + error.start) from error
        if is_first and text:
            text = text.removeprefix("\ufeff")
            is_first = False
        held = "\r" if text.endswith("\r") and start + PIECE < source.size else ""
        text = text[: len(text) - len(held)]
        if text:
            yield _BREAKS.sub("\n", text) if newlines == "unix" else text


def scan_text(source: Source, encoding: str) -> Scan:
    """Read everything once: check each byte, and count what a reader should know."""
    digest = hashlib.sha256()
    for start in range(0, source.size, PIECE):
        digest.update(source.read(start, PIECE))
    n_characters = n_lf = n_crlf = n_cr = n_separators = 0
    first_nul = -1
    is_blank, last = True, ""
    symbols: set[str] = set()
    for text in characters(source, encoding):
        if first_nul < 0 and "\0" in text:
            first_nul = n_characters + text.index("\0")
        n_characters += len(text)
        n_lf += text.count("\n")
        n_crlf += text.count("\r\n")
        n_cr += text.count("\r")
        if not text.isascii():
            n_separators += sum(text.count(mark) for mark in "\x85\u2028\u2029")
        is_blank = is_blank and not text.strip()
        if len(symbols) < 2:
            symbols.update(text)
        last = text[-1]
    marks = (codecs.BOM_UTF8,) if encoding == "utf-8" else (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    if first_nul >= 0 and encoding == "utf-8" and (guess := guessed_encoding(source.read(0, 4096))):
        # UTF-16 without its mark is valid UTF-8, with a NUL in every other place.
        raise PellucidError(
            f"{source.name} looks like {guess.upper()}", fix="Try {encoding}", options={"encoding": guess}
        )
    return Scan(
        fingerprint=digest.hexdigest(),
        n_characters=n_characters,
        n_lines=n_lf + (last not in ("", "\n")),
        n_lf=n_lf,
        n_crlf=n_crlf,
        n_cr=n_cr - n_crlf,
        n_separators=n_separators,
        first_nul=first_nul,
        has_bom=source.read(0, 4).startswith(marks),
        is_blank=is_blank,
        only_symbol=symbols.pop() if len(symbols) == 1 else "",
    )


def notes_of(found: Scan, newlines: str, *, is_by_line: bool = False) -> list[Statement]:
    """What a reader should be told once about a text. is_by_line: the CR of CRLF is no part of an item."""
    n_crlf, n_cr, n_separators = found.n_crlf, found.n_cr, found.n_separators
    notes = [make_note("byte-order-mark")] if found.has_bom else []
    if is_by_line and newlines == "keep" and n_crlf and not (n_cr or n_separators):
        notes.append(make_note("crlf-left-out", n=n_crlf))
    elif n_crlf or n_cr or n_separators:
        notes.append(make_note("line-ends", n_crlf=n_crlf, n_cr=n_cr, n_separators=n_separators, newlines=newlines))
    if found.is_blank:
        notes.append(make_note("only-white-space"))
    return notes


def _undecodable(source: Source, encoding: str, offset: int) -> PellucidError:
    guess = guessed_encoding(source.read(0, 4096), source.read(max(0, offset - 64), 128))
    fix = f"It looks like {guess.upper()}; try {{encoding}}"
    if guess == encoding or not guess:
        fix = "It is not a text, or is damaged there"
    return PellucidError(
        f"{source.name} is not {encoding.upper()}", where=f"at byte {offset:,}", fix=fix, options={"encoding": guess}
    )


def guessed_encoding(head: bytes, around: bytes = b"") -> str:
    """What bytes that are not UTF-8 look like, or "" when they look like no text.

    >>> guessed_encoding("names".encode("utf-16-le")), guessed_encoding(b"caf\\xe9 au lait", b"caf\\xe9 au lait")
    ('utf-16-le', 'latin-1')
    """
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(head) >= 4 and b"\0" in head:
        even, odd = head[0::2], head[1::2]
        if odd.count(0) > 0.4 * len(odd) and even.count(0) < 0.1 * len(even):
            return "utf-16-le"
        if even.count(0) > 0.4 * len(even) and odd.count(0) < 0.1 * len(odd):
            return "utf-16-be"
        return ""
    high = [byte for byte in around if byte > 127]
    plain = sum(byte in b"\t\n\r" or 32 <= byte < 127 for byte in around)
    if not high or plain < len(around) / 2:
        return ""
    return "cp1252" if any(byte < 0xA0 for byte in high) else "latin-1"
