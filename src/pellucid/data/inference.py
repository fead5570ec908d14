"""What kind of data a text file holds, judged by its first lines, with the reason in words."""

import re
from typing import NamedTuple

SAMPLE = 1 << 16
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".jsonl", ".ndjson", ".json")
MOST_WORDS = 3.0  # an item of a list is a name or a phrase, not a sentence
LONGEST_ITEM = 80
_OBJECT = re.compile(r"\s*\{.*\}\s*$")


class Guess(NamedTuple):
    kind: str
    because: str


def guess_kind(sample: str, is_all: bool) -> Guess:
    """The kind of data that begins with this sample; `is_all` says that nothing comes after it.

    >>> guess_kind("emma\\nolivia\\nava\\n", is_all=True)
    Guess(kind='list', because='short lines, no commas')
    >>> guess_kind("one\\tun\\ntwo\\tdeux\\n", is_all=True)
    Guess(kind='pairs', because='one tab on every line')
    """
    lines = re.split("\r\n|\r|\n", sample)
    if len(lines) > 1:
        # The last line may be cut where the sample ends; after a final newline it is empty.
        lines = lines if is_all and lines[-1] else lines[:-1]
    while lines and not lines[-1].strip():
        lines.pop()
    written = [line for line in lines if line.strip()]
    if not written:
        return Guess("text", "white space only")
    if all(_OBJECT.match(line) for line in written):
        return Guess("table", "a JSON object on every line")
    for separator, word in (("\t", "tab"), (",", "comma"), (";", "semicolon")):
        counts = {line.count(separator) for line in written}
        if len(written) < 2 or len(counts) != 1 or counts == {0}:
            continue
        n = counts.pop()
        if separator == "\t" and n == 1:
            return Guess("pairs", "one tab on every line")
        if separator == "\t" or _looks_like_header(written[0], separator):
            many = f"{n} {word}{'s' if n > 1 else ''}"
            return Guess("table", f"{many} on every line")
    return _list_or_text(lines, written)


def _list_or_text(lines: list[str], written: list[str]) -> Guess:
    longest = max(len(line) for line in written)
    words = sum(len(line.split()) for line in written) / len(written)
    if len(written) < 2:
        return Guess("text", "a single line")
    if longest > LONGEST_ITEM:
        return Guess("text", "long lines")
    if words > MOST_WORDS:
        return Guess("text", f"about {words:.0f} words a line")
    if len(lines) - len(written) > len(lines) / 10:
        return Guess("text", "many empty lines")
    return Guess("list", "short lines, no commas" if not any("," in line for line in written) else "short lines")


def _looks_like_header(line: str, separator: str) -> bool:
    """Whether a first line could name columns: different, not empty, no numbers, no sentences."""
    names = [name.strip().strip('"') for name in line.split(separator)]
    return (
        len(set(names)) == len(names)
        and all(names)
        and not any(re.fullmatch(r"[-+.\d]+", name) for name in names)
        and all(len(name.split()) <= 4 and not name.endswith((".", "!", "?", ":")) for name in names)
    )
