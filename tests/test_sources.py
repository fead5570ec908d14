"""The map of the sources: every command and call on the page is run, and must say every figure that stands beside it.

A row of a table is `| where | it says | try | measured |`. In `try` each thing between backticks is a command, or a
Python expression behind `>>>` that may use the names of the page's Python block. In `measured` each thing between
backticks has to be in what they print, spaces aside. Every row is run where PELLUCID_AT_LENGTH asks for it; else a
third of those without "(long)", and the others only have to be commands that exist.
"""

import doctest
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.at_length import AT_LENGTH

from pellucid.cli import pellucid as commands

PAGE = Path(__file__).parent.parent / "docs" / "sources.md"
HEADING = "| where | it says | try | measured |"


class Row(NamedTuple):
    section: str
    where: str
    says: str
    tried: tuple[str, ...]
    figures: tuple[str, ...]
    is_long: bool


def quoted_in(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def rows_of(page: Path) -> list[Row]:
    rows, section, is_table = [], "", False
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("|"):
            is_table = False
        elif line == HEADING:
            is_table = True
        elif is_table and not line.startswith("|---"):
            # A bar between backticks is part of a command.
            where, says, tried, measured = [cell.strip() for cell in re.findall(r"\|((?:`[^`]*`|[^|`])*)(?=\|)", line)]
            rows.append(Row(section, where, says, quoted_in(tried), quoted_in(measured), "(long)" in tried))
    return rows


ROWS = rows_of(PAGE)


RUN = ROWS if AT_LENGTH else [row for row in ROWS if not row.is_long][::3]


def squeeze(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def said(tmp_path_factory, pellucid_program):
    """What a command or an expression says; each is run once."""
    folder = tmp_path_factory.mktemp("sources")
    known: dict[str, str] = {}
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for example in doctest.DocTestParser().get_examples("".join(blocks)):
        exec(example.source, names)

    def say(tried: str) -> str:
        if tried not in known:
            if tried.startswith(">>> "):
                known[tried] = repr(eval(tried[4:], names))
            else:
                run = subprocess.run(
                    [pellucid_program, *shlex.split(tried)[1:]],
                    capture_output=True,
                    encoding="utf-8",
                    cwd=folder,
                    env={**os.environ, "COLUMNS": "200"},
                    check=False,
                )
                assert run.returncode in (0, 1), run.stderr
                known[tried] = run.stdout
        return known[tried]

    return say


def test_the_page_has_every_document_and_no_empty_row():
    assert [row.section.split(",")[0] for row in ROWS] == sorted(
        [row.section.split(",")[0] for row in ROWS],
        key=[
            "The notes",
            "The homework",
            "The log of questions and answers",
            "The handwritten answers",
            "The exam",
        ].index,
    )
    for row in ROWS:
        assert row.where, row
        assert row.says, row
        assert row.tried, row
        assert row.figures, row
        assert all(tried.startswith(("pellucid ", ">>> ")) for tried in row.tried), row
    assert len({(row.section, row.where) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("section", dict.fromkeys(row.section for row in ROWS))
def test_rows_measure_what_they_show(said, section):
    """All rows of a section in one test, for they share commands."""
    missing = []
    for row in [row for row in ROWS if row.section == section]:
        for tried in row.tried:
            if not tried.startswith(">>> "):
                require_command(shlex.split(tried)[1:])
        if row not in RUN:
            continue
        printed = squeeze(" ".join(said(tried) for tried in row.tried))
        missing += [(row.where, figure, printed[:1500]) for figure in row.figures if squeeze(figure) not in printed]
    assert missing == []


def require_command(words: list[str]) -> None:
    """Refuse a command that does not exist, or that has no such option."""
    with commands.make_context("pellucid", list(words)) as context:
        name, command, args = commands.resolve_command(context, list(words))
        assert command is not None
        with command.make_context(name, args, parent=context):
            pass
