"""Every code block of the README and the docs is run, and what it prints is compared.

    ```console   lines after "$ " are run in an empty folder; the lines below are what they must print
    ```python    with >>> it is a doctest, else it has to run; the blocks of one page share their names
    ```sh        commands of the project itself: each make target must exist
    ```text      nothing to run

PELLUCID_REWRITE=1 writes the true output into the pages instead of comparing it.
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.at_length import AT_LENGTH

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
LONG = ("doctor.md", "figures.md", "inspect.md", "rows.md", "vision.md")  # run where PELLUCID_AT_LENGTH asks for it
RUN = [page for page in PAGES if AT_LENGTH or page.name not in LONG]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REWRITE = os.environ.get("PELLUCID_REWRITE") == "1"


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in FENCE.finditer(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page):
    assert {language for language, _ in blocks(page)} <= {"console", "python", "sh", "text"}


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_console_blocks_print_what_they_show(page, tmp_path, pellucid_program):
    text = page.read_text()
    for language, block in blocks(page):
        if language != "console":
            continue
        true_block = run_console(block, tmp_path, pellucid_program.parent)
        if REWRITE:
            text = text.replace(block, true_block)
        else:
            assert block == true_block
    if REWRITE:
        page.write_text(text)


def run_console(block: str, folder: Path, programs: Path) -> str:
    """The block with what its commands really print. A command that is shown without output is only run."""
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    said: list[str] = []
    parts = re.split(r"^(?=\$ )", block, flags=re.MULTILINE)
    assert parts[0] == "", "a console block begins with a command"
    for part in parts[1:]:
        command, _, shown = part.partition("\n")
        run = subprocess.run(
            command[2:], shell=True, capture_output=True, encoding="utf-8", cwd=folder, env=environment, check=False
        )
        assert run.returncode in (0, 1, 2), run.stderr
        said.append(command + "\n" + (run.stdout + run.stderr if shown else ""))
    return "".join(said)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (language, block) in enumerate(blocks(page)):
        if language != "python":
            continue
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, names, f"{page.name} block {number}", None, None)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
            runner.run(example, clear_globs=False)
            assert runner.failures == 0
            names.update(example.globs)
        else:
            exec(compile(block, f"{page.name} block {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    for language, block in blocks(page):
        if language == "sh":
            for line in block.splitlines():
                command = line.split("#")[0].split()
                assert command[0] in ("make", "git", "cd", "pip"), line
                if command[0] == "make":
                    assert re.search(rf"^{command[1]}:", makefile, re.MULTILINE), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
