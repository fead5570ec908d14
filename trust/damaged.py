"""Damaged files: CSV, TSV, JSON lines, Parquet, text in several encodings, gzip, PNG, JPEG, mutated and cut short.

Each must end in one line of ours, or, where the damage left a valid file, in honest data, equal to what an
independent reader sees. Never another exception, never a second line, nothing written.
"""

import argparse
import csv
import gzip
import io
import os
import random
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
from PIL import Image

from pellucid.data import ImagesData, ListData, PairsData, TableData, TextData, decode_images, open_data
from pellucid.errors import LONGEST_LINE, PREFIX, PellucidError


def originals(draw: random.Random) -> dict[str, bytes]:
    """One good file of each kind, small, a little different each time."""
    n = draw.randint(3, 40)
    frame = polars.DataFrame(
        {
            "id": range(n),
            "x": [draw.uniform(-5, 5) for _ in range(n)],
            "name": [draw.choice(["ann", "bo, jr.", 'say "hi"', "é", "two\nlines", "nan"]) for _ in range(n)],
        }
    )
    parquet, plain = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet)
    frame.write_parquet(plain, compression="uncompressed", row_group_size=max(1, n // 2))
    words = " ".join(draw.choice(["sun", "moon", "star", "café", "naïve"]) for _ in range(60))
    names = "\n".join(draw.choice(["emma", "olivia", "zoë", "nan", "true"]) for _ in range(n)) + "\n"
    picture = Image.effect_noise((12, 9), 80)
    png, jpeg, gif = io.BytesIO(), io.BytesIO(), io.BytesIO()
    picture.save(png, "PNG")
    picture.save(jpeg, "JPEG")
    picture.save(gif, "GIF")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("word/document.xml", words)
    return {
        "t.csv": frame.write_csv().encode(),
        "crlf.csv": frame.write_csv(line_terminator="\r\n").encode(),
        "t.tsv": frame.write_csv(separator="\t").encode(),
        "t.jsonl": frame.write_ndjson().encode(),
        "t.parquet": parquet.getvalue(),
        "plain.parquet": plain.getvalue(),
        "text.txt": words.encode(),
        "wide.txt": words.encode("utf-16"),
        "latin.txt": words.encode("latin-1"),
        "names.txt": names.encode(),
        "pairs.txt": "".join(f"{name}\t{name[::-1]}\n" for name in names.split()).encode(),
        "names.txt.gz": gzip.compress(names.encode()),
        "report.docx": archive.getvalue(),
        "image.png": png.getvalue(),
        "image.jpg": jpeg.getvalue(),
        "image.gif": gif.getvalue(),
    }


def damaged(content: bytes, draw: random.Random) -> bytes:
    """The content after one accident."""
    if not content:
        return content
    at = draw.randrange(len(content))
    accidents: list[Callable[[], bytes]] = [
        lambda: content[:at],
        lambda: content[at:],
        lambda: content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :],
        lambda: content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :],
        lambda: content[:at] + draw.randbytes(draw.randint(1, 30)) + content[at:],
        lambda: content[:at] + content[at + draw.randint(1, 30) :],
        lambda: (
            content[:at]
            + draw.choice([b'"', b"\0", b"\n", b"\r", b",", b"\t", b"\xff", b"\xed\xa0\x80"])
            + content[at:]
        ),
        lambda: content[:at] + content[max(0, at - 40) :],
        lambda: content[: at & ~511] + b"\0" * 512 + content[(at & ~511) + 512 :],
        lambda: content + content,
        lambda: draw.randbytes(len(content)),
        lambda: bytes(reversed(content)),
        lambda: b"",
    ]
    return draw.choice(accidents)()


def dishonest(path: Path, data: Any) -> str:
    """Where what was read disagrees with an independent reading of the same bytes, or "" where it agrees."""
    content = path.read_bytes()
    if isinstance(data, TextData):
        return "" if data.read() == content.decode(data.encoding).removeprefix("\ufeff") else "the text is another"
    if isinstance(data, ListData | PairsData):
        lines = [
            line for line in content.decode().removeprefix("\ufeff").replace("\r\n", "\n").split("\n") if line.strip()
        ]
        if isinstance(data, ListData):
            if "\n" not in content.decode():
                lines = [line for line in content.decode().replace("\r", "\n").split("\n") if line.strip()]
            return "" if data.items == lines else "the items are others"
        return "" if ["\t".join(pair) for pair in data.pairs] == lines else "the pairs are others"
    if isinstance(data, TableData) and path.suffix in (".csv", ".tsv", ".txt") and not content.startswith(b"PAR1"):
        return _other_cells(content, data)
    if isinstance(data, ImagesData):
        decode_images(data, size=(8, 8))
    return ""


def _other_cells(content: bytes, data: TableData) -> str:
    text = content.decode().removeprefix("\ufeff")
    if "\n" not in text:
        text = text.replace("\r", "\n")
    for separator in (",", "\t"):
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
        if [name.strip() for name in rows[0]] == data.frame.columns:
            break
    else:
        return "the header is another"
    if len(rows) - 1 != data.frame.height:
        return f"{len(rows) - 1} rows, not {data.frame.height}"
    for i, column in enumerate(data.columns):
        for row, value in zip(rows[1:], data.frame[column.name], strict=True):
            if isinstance(value, str) and value != row[i]:
                return f"{value!r} is not {row[i]!r}"
            if isinstance(value, int | float) and float(row[i]) != value:
                return f"{value!r} is not {row[i]!r}"
    return ""


def try_one(name: str, content: bytes, folder: Path) -> str:
    """ "refused", "read", or what went wrong."""
    path = folder / name
    if name.startswith("image"):
        path = folder / "images" / "a" / name
        other = folder / "images" / "b"
        other.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        Image.new("L", (3, 3), 5).save(other / "good.png")
    path.write_bytes(content)
    before = {one: one.stat().st_mtime_ns for one in sorted(folder.rglob("*"))}
    try:
        data = open_data(folder / "images" if name.startswith("image") else path)
    except PellucidError as error:
        line = PREFIX + str(error)
        if len(line) > LONGEST_LINE or not line.isprintable() or error.exit_code != 2:
            return f"WRONG: {line!r}"
        found = "refused"
    except BaseException as error:  # a panic in a library is no Exception
        return f"WRONG: {type(error).__name__}: {error}"
    else:
        trouble = dishonest(path, data)
        found = f"WRONG: {trouble}" if trouble else "read"
    if {one: one.stat().st_mtime_ns for one in sorted(folder.rglob("*"))} != before:
        return "WRONG: something was written"
    path.unlink()
    return found


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How `count` damaged files ended, and what went wrong."""
    draw = random.Random(seed)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = cache
        for i in range(count):
            name, content = draw.choice(list(originals(draw).items()))
            for _ in range(draw.randint(1, 2)):
                content = damaged(content, draw)
            ended = try_one(name, content, Path(folder))
            if ended.startswith("WRONG"):
                wrong.append(f"file {i} ({name}): {ended}")
                tally["wrong"] += 1
            else:
                tally[f"{ended} {name}"] += 1
    return tally, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    tally, wrong = run(asked.count, asked.seed)
    refused = sum(n for what, n in tally.items() if what.startswith("refused"))
    valid = asked.count - refused - len(wrong)
    print(f"{asked.count:,} damaged files: {refused:,} refused in one line, {valid:,} still valid and read as they are")
    for line in wrong[:20]:
        print(line)
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
